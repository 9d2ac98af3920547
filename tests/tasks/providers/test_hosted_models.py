"""Hosted models: chats and strict questions through every vendor's SDK, against well and unwell loopback servers."""

import json
import time

import pytest

from schemas.asked_model import AskedModel
from schemas.errors import BadInput, MissingProvider
from tasks.providers import Providers
from tasks.providers.capabilities import ChatMessage, Failed, Reply, ReplyShape
from tasks.providers.chat import chat_model
from tasks.runtime.budget import ledger, start_ledger
from tasks.storage.tables import Store
from tests.tasks.providers.conftest import _gemini, _openai, anthropic_vendor

pytest.importorskip("tenacity", reason="production extra")
from tasks.providers.production.labels import TopicName
from tasks.providers.production.language_model import Question

VENDORS = {"openai": _openai, "gemini": _gemini, "anthropic": anthropic_vendor}
ASKED = [ChatMessage("user", "What is this?")]


@pytest.fixture(autouse=True)
def unlimited():
    """No test leaves its budget to the next."""
    yield
    start_ledger()


@pytest.fixture(params=VENDORS)
def vendor(request, monkeypatch):
    """Each vendor in turn."""
    pytest.importorskip("google.genai" if request.param == "gemini" else request.param)
    made = VENDORS[request.param]()
    monkeypatch.setenv(made.key, "test-key")
    return made


@pytest.fixture
def named(vendor, http_server):
    """Makes an entry of a models file for the vendor, on the loopback server."""
    name = vendor.key.removesuffix("_API_KEY").lower()
    address = f"{http_server.url}/v1" if name == "openai" else http_server.url

    def named(**changes):
        return AskedModel(**{"name": "m", "vendor": name, "model": "m-1", "base_url": address, **changes})

    return named


@pytest.fixture
def asked(named, http_server, reply):
    """Asks once a server that gives these replies."""

    def asked(*replies, messages=ASKED, **changes):
        http_server.answer(*replies)
        return chat_model(named(**changes)).chat(messages)

    return asked


SHAPE = ReplyShape("verdict", {"type": "object", "properties": {"better": {"type": "string"}}, "required": ["better"]})


def test_a_shape_is_sent_and_a_server_that_refuses_it_is_asked_for_free_text_from_then_on(
    vendor, named, http_server, reply
):
    told = "response_format and output_config: JSON mode is not enabled"
    refusal = reply({"error": {"code": 400, "message": told, "status": "INVALID_ARGUMENT"}}, 400)
    http_server.answer(reply(vendor.completed('{"better": "A"}')), refusal, reply(vendor.completed("A.")))
    model = chat_model(named())
    found = [model.chat(ASKED, shape=SHAPE) for _ in range(3)]
    assert [each.text for each in found] == ['{"better": "A"}', "A.", "A."]
    shaped = ['"better"' in json.dumps(request) for request in http_server.requests]
    assert shaped == [True, True, False, False]


def test_states_are_told_apart_and_a_text_that_runs_away_or_is_half_a_letter_can_be_stored(
    vendor, asked, reply, tmp_path
):
    assert asked(reply(vendor.refused)).state == "refused"
    truncated = asked(reply(vendor.truncated))
    assert (truncated.state, truncated.text) == ("truncated", '{"captioning": tr')
    assert asked(reply(vendor.completed(" \n"))) == Reply(" \n", "empty")
    found = asked(reply(vendor.completed("so " * 400_000)))
    assert (found.state, len(found.text)) == ("truncated", 400_000)
    found = asked(reply(vendor.completed("half \ud83d a face")))
    Store(str(tmp_path)).write_bytes("x", found.text.encode())
    assert found.text == "half \ufffd a face"


@pytest.mark.usefixtures("short_waits")
@pytest.mark.parametrize(
    "passing",
    [
        {"body": {}, "status": 429, "headers": {"retry-after": "0.01"}},
        {"body": {"error": {"message": "busy"}}, "status": 500},
        {"body": {"error": {"message": "busy"}}, "status": 503},
        {"body": {"error": {"message": "slow"}}, "status": 408},
        {"body": None},
        {"body": b"x" * 99, "cut": True},
    ],
    ids=["rate limit", "500", "503", "408", "dropped", "cut off"],
)
def test_what_passes_is_asked_again(vendor, asked, http_server, reply, passing):
    assert asked(*[reply(**passing)] * 2, reply(vendor.completed("Yes."))) == Reply("Yes.", "complete")
    assert len(http_server.requests) == 3


@pytest.mark.usefixtures("short_waits")
@pytest.mark.parametrize(
    ("lasting", "reason", "calls"),
    [
        ({"body": {"error": {"message": "busy"}}, "status": 503}, "server_error", 5),
        ({"body": None}, "connection_failed", 5),
        (
            {"body": {"error": {"message": "slow"}}, "status": 429, "headers": {"retry-after": "3600"}},
            "rate_limited",
            1,
        ),
        *(({"body": {"error": {"message": "quotes"}}, "status": n}, f"http_{n}", 1) for n in (400, 401, 403, 404)),
    ],
)
def test_what_lasts_is_a_failure_and_a_rejected_request_is_not_repeated(
    asked, http_server, reply, lasting, reason, calls
):
    assert asked(reply(**lasting)) == Failed(reason)
    assert len(http_server.requests) == calls


@pytest.mark.parametrize("content_type", ["application/json", "text/html"])
@pytest.mark.parametrize("body", [b"<html>sign in</html>", b'{"choices": [', b"{}", b"[]", b""])
def test_a_body_that_is_no_answer_is_a_failure(asked, reply, body, content_type):
    assert asked(reply(body, 200, {"content-type": content_type})) == Failed("malformed_answer")


@pytest.mark.usefixtures("short_waits")
def test_a_wait_is_as_long_as_the_server_asks(vendor, asked, reply):
    begin = time.monotonic()
    asked(reply({"error": {"message": "slow"}}, 429, {"retry-after": "1"}), reply(vendor.completed("Yes.")))
    assert time.monotonic() - begin >= 1.0


@pytest.mark.usefixtures("short_waits")
def test_a_silent_server_is_left_to_be_asked_again(vendor, asked, reply, monkeypatch):
    monkeypatch.setenv("CURATE_TIMEOUT_SECONDS", "0.5")
    begin = time.monotonic()
    assert asked(reply(vendor.completed("No."), silent_seconds=30), reply(vendor.completed("Yes."))).text == "Yes."
    assert 0.5 <= time.monotonic() - begin < 25


@pytest.mark.usefixtures("short_waits")
def test_a_server_that_stays_silent_is_a_failure(vendor, asked, reply, monkeypatch):
    monkeypatch.setenv("CURATE_TIMEOUT_SECONDS", "0.2")
    assert asked(reply(vendor.completed("No."), silent_seconds=30)) == Failed("timed_out")


@pytest.mark.parametrize("given", ["0", "soon", "-1"])
def test_a_timeout_that_is_none_is_one_clear_line(named, monkeypatch, given):
    monkeypatch.setenv("CURATE_TIMEOUT_SECONDS", given)
    with pytest.raises(BadInput, match="CURATE_TIMEOUT_SECONDS"):
        chat_model(named())


@pytest.mark.parametrize("vendor", ["openai", "gemini"], indirect=True)
def test_two_answers_to_one_question_are_none(vendor, asked, reply):
    twice = vendor.completed("Yes.")
    for key in twice.keys() & {"choices", "candidates"}:
        twice[key] = twice[key] * 2
    assert asked(reply(twice)) == Failed("contradictory_answer")


@pytest.mark.parametrize("vendor", ["openai"], indirect=True)
def test_used_up_quota_is_not_waited_for(asked, reply, http_server):
    assert asked(reply({"error": {"code": "insufficient_quota"}}, 429)) == Failed("quota_used_up")
    assert len(http_server.requests) == 1


@pytest.mark.usefixtures("short_waits")
@pytest.mark.parametrize("vendor", ["gemini"], indirect=True)
def test_wait_that_google_puts_into_the_body_is_kept(vendor, asked, reply):
    delay = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "1.1s"}
    begin = time.monotonic()
    limited = {"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "details": [delay]}}
    assert asked(reply(limited, 429), reply(vendor.completed("Yes."))).text == "Yes."
    assert time.monotonic() - begin >= 1.1


@pytest.fixture
def answer(named, http_server, reply):
    """Asks once a strict question of a server that gives this reply."""

    def answer(said):
        http_server.answer(reply(said))
        return chat_model(named()).ask(Question("Name it.", "[material]"), TopicName)

    return answer


def test_an_answer_that_fits_the_schema_is_a_row_and_a_refused_or_cut_off_one_no_no(vendor, answer):
    assert answer(vendor.completed('{"name": "Street Signs"}')) == TopicName(name="Street Signs")
    assert [answer(said) for said in (vendor.refused, vendor.truncated)] == [Failed("refused"), Failed("truncated")]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        *((text, "malformed_answer") for text in ("", "Street Signs", '{"name": 3}', '{"title": "a"}')),
        ('{"name": "a", "also": 1}', "malformed_answer"),
        ('```json\n{"name":"a"}```', "malformed_answer"),
        ('{"name": "a", "name": "b"}', "contradictory_answer"),
        ('{"name": "a", "name": "a"}', "contradictory_answer"),
    ],
)
def test_an_answer_that_does_not_fit_the_schema_is_a_failure(vendor, answer, text, reason):
    assert answer(vendor.completed(text)) == Failed(reason)


@pytest.mark.parametrize("capability", ["categories", "moderation"])
@pytest.mark.parametrize("vendor", ["openai", "gemini"], indirect=True)
def test_missing_key_is_named_before_anything_is_sent(vendor, capability, monkeypatch):
    monkeypatch.delenv(vendor.key)
    name = vendor.key.removesuffix("_API_KEY").lower()
    with pytest.raises(
        MissingProvider, match=f"{name}: {vendor.key} is not set; export a key in it, or choose another"
    ):
        _ = Providers({capability: name})[capability]


def test_everything_that_may_change_an_answer_changes_the_version(named):
    base = named()
    changes = [
        {"model": "m-2"}, {"base_url": "http://127.0.0.1:1"}, {"key": "OTHER_KEY"}, {"temperature": None},
        {"temperature": 1.0}, {"answer_tokens_max": 9}, {"system": "Be brief."},
    ]  # fmt: skip
    versions = {base.version} | {named(**change).version for change in changes}
    assert len(versions) == 1 + len(changes)
    assert named(name="other", own=True).version == base.version


def test_tokens_are_counted_against_the_budget(vendor, named, http_server, reply, tmp_path):
    prices = tmp_path / "prices.yaml"
    image = "image: {tile_pixels: 32, tiles_max: 10, tokens_a_tile: 1}"
    prices.write_text(
        f"tokens:\n  {named().service}: {{input_usd_per_million: 1, output_usd_per_million: 1, {image}}}\n"
    )
    counts = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15, "input_tokens": 10, "output_tokens": 5}
    used = {"usage": counts}
    used |= {"usageMetadata": {"promptTokenCount": 10, "candidatesTokenCount": 5}}
    http_server.answer(reply(vendor.completed("Yes.") | used))
    start_ledger(0.005, str(prices))
    model = chat_model(named(answer_tokens_max=4000))
    assert model.chat(ASKED) == Reply("Yes.", "complete", 5)
    assert ledger().use()[named().service].usd == pytest.approx(15e-6)
    assert chat_model(named(answer_tokens_max=6000)).chat(ASKED) == Failed("budget_reached")


def test_a_key_that_is_not_set_is_told_and_one_pasted_as_its_name_is_not_repeated(vendor, named, monkeypatch):
    with pytest.raises(MissingProvider, match="model 'm': the variable that its `key` names is not set"):
        chat_model(named(key="A1B2C3D4"))
    monkeypatch.delenv(vendor.key)
    with pytest.raises(MissingProvider, match=f"model 'm': {vendor.key} is not set"):
        chat_model(named(base_url=None))


@pytest.mark.parametrize("vendor", ["openai", "anthropic"], indirect=True)
def test_no_variable_of_the_sdk_redirects_prompts(vendor, named, monkeypatch):
    name = named().vendor
    monkeypatch.setenv(f"{name.upper()}_BASE_URL", "http://127.0.0.1:9/v1")
    model = chat_model(named(base_url=None))
    assert model._client.base_url.host == f"api.{name}.com"


@pytest.mark.parametrize("vendor", ["anthropic"], indirect=True)
def test_an_image_without_words_and_a_long_limit_are_sent_to_anthropic(asked, http_server, reply, vendor, drawn_image):
    shown = ((drawn_image().format, drawn_image().encoded),)
    found = asked(
        reply(vendor.completed("Yes.")), messages=[ChatMessage("user", " ", shown)], answer_tokens_max=128_000
    )
    assert found == Reply("Yes.", "complete")
    (turn,) = http_server.requests[0]["messages"]
    assert [part["type"] for part in turn["content"]] == ["image"]
