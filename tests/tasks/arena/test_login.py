"""A login by OpenID Connect in front of the arena: in Chromium, against a provider on this machine."""

import time

import httpx
import pytest
from joserfc.jwk import RSAKey

from schemas.errors import BadInput, MissingProvider
from tasks.arena.guards.login import chosen_login
from tasks.arena.settings import ArenaSettings
from tests.browsers import ENGINES, launched
from tests.built_arena import KEY
from tests.openid_server import CLIENT, SECRET, SUBJECT, OpenIdServer
from tests.served_arena import Served

PAST = int(time.time()) - 3600
SPOILED = [
    {"nonce": "another"},
    {"aud": "another"},
    {"aud": "another", "azp": CLIENT},
    {"exp": PAST},
    {"iss": "http://x"},
]


@pytest.fixture(scope="module")
def provider():
    """The provider."""
    server = OpenIdServer()
    yield server
    server.close()


@pytest.fixture(scope="module")
def served(place, provider):
    """An arena whose visitors log in first."""
    chosen = ["--set", f"login_issuer={provider.url}", "--set", f"login_client_id={CLIENT}"]
    running = Served(place / "login", place / "models.yaml", *chosen, ARENA_LOGIN_SECRET=SECRET)
    yield running
    running.end()


@pytest.mark.skipif(ENGINES["chromium"] is None, reason="no chromium on the PATH")
def test_who_logs_in_is_known_in_every_browser_and_nothing_less_than_a_valid_token_lets_in(served, provider, tmp_path):
    api = pytest.importorskip("playwright.sync_api")
    with api.sync_playwright() as playwright:
        browser = launched(playwright, "chromium", tmp_path)

        def came_back():
            """A new browser that went to the provider and came back."""
            page = browser.new_context().new_page()
            assert page.goto(served.url).status == 403 and "Please log in first" in page.inner_text("h1")
            page.get_by_role("link", name="Log in").click()
            with page.expect_response(lambda got: "/login/done" in got.url) as done:
                page.get_by_role("link", name="It is me").click()
            return page, done.value

        page, done = came_back()
        api.expect(page).to_have_url(f"{served.url}/")
        page.get_by_label("Your message").fill("Hello")
        page.get_by_role("button", name="Send").click()
        page.get_by_role("button", name="Accept and send").click()
        page.get_by_role("button", name="Regenerate").wait_for()
        (kept,) = [each for each in page.context.cookies(served.url) if each["name"] == "arena_login"]
        assert kept["httpOnly"] and kept["sameSite"] == "Lax" and kept["expires"] < time.time() + 86_400
        assert page.goto(done.url).status == 403 and "not accepted" in page.inner_text("h1"), "a state holds once"
        other, _ = came_back()
        other.get_by_role("link", name="My conversations").click()
        assert "Hello" in other.inner_text(".mine"), "a login is one visitor in every browser"
        other.get_by_role("button", name="Log out").click()
        assert "Please log in first" in other.inner_text("h1")
        for spoiled in SPOILED:
            provider.spoiled = spoiled
            page, done = came_back()
            assert done.status == 403 and "not accepted" in page.inner_text("h1"), spoiled
            assert page.goto(f"{served.url}/mine").status == 403
        provider.spoiled, provider.signs = {}, RSAKey.generate_key(2048, {"kid": provider.signs.kid})
        assert came_back()[1].status == 403, "another key signed it"
        browser.close()
    kept = b"".join(file.read_bytes() for file in served.folder.rglob("*") if file.is_file())
    assert b"Hello" in kept and SUBJECT.encode() not in kept


def test_a_state_that_somebody_keeps_brings_in_nobody_and_actions_need_a_login(served):
    with httpx.Client(base_url=served.url, timeout=None) as client:
        begun = client.get("/login/begin")
        assert begun.status_code == 302 and "HttpOnly" in begun.headers["set-cookie"]
        state = httpx.URL(begun.headers["location"]).params["state"]
        for query in (f"code=x&state={state}", "code=x&state=another", "error=access_denied", ""):
            assert client.get(f"/login/done?{query}").json()["key"] == "login_failed", query
        client.cookies.set("arena_login", "9" + client.cookies["arena_login"])
        for got in (client.post("/say", json={"mode": "battle", "text": "Hi"}), client.get("/mine.json")):
            assert (got.status_code, got.json()["key"]) == (403, "login_first")
        assert client.post("/logout", headers={"origin": "http://evil.test"}).status_code == 403


def test_a_provider_that_is_down_or_another_one_is_told_in_one_line(place, provider):
    chosen = ["--set", "login_issuer=http://localhost:9", "--set", f"login_client_id={CLIENT}"]
    running = Served(place / "down", place / "models.yaml", *chosen, ARENA_LOGIN_SECRET=SECRET)
    try:
        told = httpx.get(f"{running.url}/login/begin", headers={"accept": "text/html"}, timeout=None)
        assert told.status_code == 503 and "does not answer now" in told.text and "Traceback" not in told.text
    finally:
        running.end()


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"login_client_id": None}, "login_client_id is not set"),
        ({"login_issuer": None}, "login_issuer is not set"),
        ({"login_issuer": "http://login.example.org"}, "is neither https nor on this machine"),
        ({"login_header": "X-User"}, "are two logins"),
    ],
)
def test_a_login_that_guards_nothing_is_refused_at_the_start(given, told, monkeypatch):
    settings = ArenaSettings(login_issuer="https://login.example.org", login_client_id="x")
    with pytest.raises(MissingProvider, match="ARENA_LOGIN_SECRET"):
        chosen_login(settings, KEY)
    monkeypatch.setenv("ARENA_LOGIN_SECRET", SECRET)
    with pytest.raises(BadInput, match=told):
        chosen_login(settings.model_copy(update=given), KEY)
