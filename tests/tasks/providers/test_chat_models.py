"""Free-text chats: every vendor's SDK against a loopback server."""

import json

import pytest

from schemas.asked_model import AskedModel
from schemas.errors import MissingProvider
from tasks.providers.capabilities import ChatMessage, Failed, Reply, ReplyShape
from tasks.providers.chat import chat_model
from tasks.runtime.budget import ledger, start_ledger
from tasks.storage.tables import Store
from tests.tasks.providers.conftest import _gemini, _openai, anthropic_vendor

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


def test_states_are_told_apart_and_keep_the_text(vendor, asked, reply):
    assert asked(reply(vendor.refused)).state == "refused"
    truncated = asked(reply(vendor.truncated))
    assert (truncated.state, truncated.text) == ("truncated", '{"captioning": tr')
    assert asked(reply(vendor.completed(" \n"))) == Reply(" \n", "empty")


def test_a_text_that_runs_away_is_cut_and_counts_as_truncated(vendor, asked, reply):
    found = asked(reply(vendor.completed("so " * 400_000)))
    assert (found.state, len(found.text)) == ("truncated", 400_000)


def test_a_text_with_an_unpaired_surrogate_can_be_stored(vendor, asked, reply, tmp_path):
    found = asked(reply(vendor.completed("half \ud83d a face")))
    Store(str(tmp_path)).write_bytes("x", found.text.encode())
    assert found.text == "half \ufffd a face"


@pytest.mark.usefixtures("quick")
def test_limits_and_dropped_connections_are_retried_and_then_a_failure(vendor, asked, http_server, reply):
    busy, dropped = reply({}, 429, {"retry-after": "0.01"}), reply(None)
    assert asked(busy, dropped, reply(vendor.completed("Yes."), cut=True), reply(vendor.completed("Yes."))) == Reply(
        "Yes.", "complete"
    )
    assert len(http_server.requests) == 4
    assert asked(reply({}, 500)) == Failed("server_error")
    assert asked(reply(vendor.completed(None, "MALFORMED_FUNCTION_CALL"))) != Reply("", "complete")


def test_a_body_that_is_no_answer_is_a_failure(asked, reply):
    assert asked(reply(b"<html>sign in</html>")) == Failed("malformed_answer")


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


def test_a_wrong_key_is_not_tried_twice(asked, http_server, reply):
    assert asked(reply({"error": {"type": "authentication_error", "message": "invalid key"}}, 401)) == Failed(
        "http_401"
    )
    assert len(http_server.requests) == 1


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
