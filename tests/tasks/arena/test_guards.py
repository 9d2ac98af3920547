"""Guards of the arena: limits, proxies, logins, captchas against a provider on this machine, forged requests."""

import asyncio
import json
from urllib.parse import parse_qs

import httpx
import pytest

from flows.arena import serving
from schemas.errors import BadInput, MissingProvider
from schemas.items.conversation import RecordType
from tasks.arena.app import make_app
from tasks.arena.entrance import Refused, Visitors, cookie_hash, network_of
from tasks.arena.guards.captcha import chosen_captcha
from tasks.arena.rounds import Visit
from tasks.arena.settings import ArenaSettings
from tasks.arena.uploads import Uploads
from tasks.leaderboard.votes import beyond_day
from tests.built_arena import KEY
from tests.http_server import HttpServer
from tests.tasks.ingest.logs import ingested

PROXY = "10.0.0.5"


def test_an_address_may_hold_several_visitors_and_a_household_is_one_address():
    visitors = Visitors(KEY, messages_a_minute=2, shared=3, clock=lambda: 0.0)
    sent = [visitors.wait_seconds("203.0.113.7", f"browser {number // 4}") == 0 for number in range(16)]
    assert sent == [*[True, True, False, False] * 3, *[False] * 4], "each two, and all of the address six"
    assert visitors.wait_seconds("203.0.113.8", "browser 9") == 0
    assert "203.0.113" not in repr(vars(visitors) | vars(visitors._sent)), "addresses are keyed hashes also in memory"
    assert network_of("2001:db8::1") == network_of("2001:db8::2:3") != network_of("2001:db8:0:1::1")


def test_headers_count_only_from_a_proxy_that_was_named():
    behind = Visitors(KEY, messages_a_minute=2, proxies=1, proxied_by=[PROXY], login_header="X-Auth-Request-User")
    said = {"x-forwarded-for": "198.51.100.2", "X-Auth-Request-User": "ann@example.org"}
    assert behind.address(PROXY, said) == "198.51.100.2"
    assert behind.address("203.0.113.7", said) == "203.0.113.7", "a visitor who forges it is taken by the connection"
    assert behind.owner(PROXY, said, "cookie") == cookie_hash("login ann@example.org") == behind.owner(PROXY, said, "")
    for client, headers in (("203.0.113.7", said), (PROXY, {}), ("", said), ("unix:", said)):
        with pytest.raises(Refused, match="log in first"):
            behind.owner(client, headers, "cookie")
    with pytest.raises(BadInput, match=r"'10\.0\.0\.300' is no network"):
        Visitors(KEY, messages_a_minute=2, proxied_by=["10.0.0.300"])


class Provider(HttpServer):
    """A captcha's provider that takes one answer; forms are what such providers read."""

    def respond(self, handler):
        form = parse_qs(handler.rfile.read(int(handler.headers["content-length"])).decode())
        self.requests.append(form)
        right = form == {"secret": ["of the site"], "response": ["right"]}
        content = json.dumps({"success": "true" if form["response"] == ["broken"] else right}).encode()
        handler.send_response(200)
        handler.send_header("content-length", str(len(content)))
        handler.end_headers()
        handler.wfile.write(content)


@pytest.fixture
def provider():
    """The provider on this machine."""
    server = Provider()
    yield server
    server.close()


def test_nobody_sends_anything_before_the_captcha_and_its_answer_holds_for_one_browser(
    build, admission, provider, monkeypatch
):
    settings = ArenaSettings(
        captcha_script="https://challenges.example.com/api.js",
        captcha_site_key="0x4AAA",
        captcha_verify=f"{provider.url}/siteverify",
    )
    with pytest.raises(MissingProvider, match="ARENA_CAPTCHA_SECRET"):
        chosen_captcha(settings, KEY)
    monkeypatch.setenv("ARENA_CAPTCHA_SECRET", "of the site")
    with pytest.raises(BadInput, match="captcha_verify is not set"):
        chosen_captcha(settings.model_copy(update={"captcha_verify": None}), KEY)
    captcha = chosen_captcha(settings, KEY)
    app = make_app(build().arena, Uploads(admission), settings, "127.0.0.1", captcha=captcha)
    hello = {"mode": "battle", "text": "Hello"}

    async def visit():
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1", follow_redirects=True) as client:
            page = await client.get("/")
            assert 'data-sitekey="0x4AAA"' in page.text and page.url.path == "/human"
            (policy,) = page.headers.get_list("content-security-policy")
            assert "script-src 'self' https://challenges.example.com https://*.example.com;" in policy
            await client.post("/terms")
            assert (await client.post("/say", json=hello)).json()["key"] == "captcha_first"
            assert (await client.post("/pictures", content=b"x")).json()["key"] == "captcha_first"
            for wrong in ({}, {"a": "right"}, {"cf-turnstile-response": "wrong"}, {"h-captcha-response": "broken"}):
                assert "not accepted" in (await client.post("/human", data=wrong)).text
            done = await client.post("/human", data={"cf-turnstile-response": "right"})
            assert done.url.path == "/" and "script-src 'self';" in done.headers["content-security-policy"]
            assert "number" in (await client.post("/say", json=hello)).json()
            proof = client.cookies["arena_captcha"]
            assert captcha.holds(proof, cookie_hash(client.cookies["arena_browser"]))
            for forged in ("", ".", f"9{proof}", proof[:-1], proof.replace(".", "é"), "nan." + proof.partition(".")[2]):
                assert not captcha.holds(forged, cookie_hash(client.cookies["arena_browser"]))
            assert not captcha.holds(proof, "another browser")
            monkeypatch.setattr(captcha._signed, "_clock", lambda: float(proof.partition(".")[0]) + 1)
            assert (await client.post("/say", json=hello)).json()["key"] == "captcha_first", "after a day"
            provider.close()
            told = await client.post("/human", data={"cf-turnstile-response": "right"})
            assert told.status_code == 403 and "not available now" in told.text, (
                "a provider that is down lets nobody in"
            )

    asyncio.run(visit())
    assert all(set(each) == {"secret", "response"} for each in provider.requests), "no address of a visitor is sent"


FORGED = [
    {}, {"host": ""}, {"host": "[::1"}, {"host": "arena.test:99999999"}, {"host": "\xe9"}, {"origin": "http://[x"},
    {"cookie": "arena_browser=\xff; arena_terms=;;=;"}, {"cookie": "a" * 9000}, {"content-length": "-1"},
    {"x-forwarded-for": "," * 5000}, {"accept-language": ";q=x,\xff"}, {"content-type": "\xff/json"},
    {"sec-fetch-site": "\xff"},
]  # fmt: skip
BODIES = [
    b"", b"{", b"[" * 100_000, b'{"mode":"battle","text":"\\ud800"}', b'{"mode":"battle","text":1e999}', b"\xff\xfe",
    b'{"mode":"direct","text":"a","chosen":["\\ud800"],"sampling":{"\\ud800":NaN}}',
    b'{"mode":"battle","text":"a","number":"\\u0000"}', b'{"mode":"battle","text":"a","pictures":["../../x"]}',
    b'{"place":' + b"9" * 4000 + b"}", b'{"kind":"leftvote","place":-1,"chips":["\\ud800"],"words":"\\ud800"}',
    b'{"key":"\\ud800","words":"\\ud800"}',
]  # fmt: skip
ACTIONS = ["/say", "/appeal", "/terms", "/c/%00/vote", "/c/%ff/%ff", "/c/../../etc/forget", "/pictures", "/mine/forget"]
LOOKS = [
    "/c/%ff", "/c/%00/events", "/c/x/pictures/99999999999999999999", "/pictures/%2e%2e%2fx", "/static/%2e%2e/app.py",
    "/human", "//x", "/%",
]  # fmt: skip


def test_a_forged_request_is_refused_and_never_an_error_of_the_server(build, admission):
    app = make_app(build().arena, Uploads(admission), ArenaSettings(hosts=["arena.test"]), "127.0.0.1")

    async def forged() -> set[int]:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1") as client:
            await client.get("/")
            told = []
            for given in FORGED:
                raw = [(name.encode(), value.encode("latin-1")) for name, value in given.items()]
                told += [await client.get(path, headers=raw) for path in LOOKS]
                told += [await client.post(path, headers=raw, content=b"{}") for path in ACTIONS]
            as_json = {"content-type": "application/json"}
            told += [await client.post(path, content=body, headers=as_json) for path in ACTIONS for body in BODIES]
        return {each.status_code for each in told}

    assert asyncio.run(forged()) <= {200, 204, 403, 404, 405, 409, 413, 422}


def test_votes_beyond_a_days_limit_are_logged_and_count_neither_at_the_arena_nor_in_the_curation(build, tmp_path):
    built, policy = build(), tmp_path / "mine.yaml"
    policy.write_text("extends: public_release\nname: mine\nvotes: {day_votes_max: 2}\n")
    settings = ArenaSettings(policy=str(policy))

    async def battles():
        for number, address in enumerate(["203.0.113.1"] * 4 + ["203.0.113.2"]):
            visit = Visit(f"browser {number}", address)
            conversation = await built.say(f"Is it {number}?", visit=visit)
            await built.finished(conversation)
            await built.arena.vote(conversation, RecordType.LEFT_VOTE, visit)
        await built.arena.give_reason(conversation, [], "Clearer", [], visit)

    asyncio.run(battles())
    after = build().arena
    after.read_logs()
    for arena in (built.arena, after):
        board = serving._board(serving.Chosen(settings, built.folder, "live", "", None, ""), arena)
        rows = board.rows("overall")
        assert sum(row.battles for row in rows) == 2 * 3
        assert {"days_limited"} <= set(
            rows[0].flags
        ) and "do not count in full, by the rules of the policy: 2." in board.about("overall")
    battles = ingested(built.folder, tmp_path / "store").read("battles")
    assert battles.height == 5, "no vote is lost"
    assert beyond_day(battles, 2).sum() == 2
