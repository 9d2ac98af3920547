"""The two language-model adapters, through the vendors' real SDKs, against a server on this machine."""

import time

import pytest

from schemas.errors import MissingProvider
from tasks.providers.capabilities import Failed

pytest.importorskip("openai", reason="production extra")
pytest.importorskip("google.genai", reason="production extra")
from tasks.providers.production import labels
from tasks.providers.production.labels import TopicName
from tasks.providers.production.language_model import Question

QUESTION = Question("Name it.", "[material]")
GOOD = '{"name": "Street Signs"}'


@pytest.fixture
def ask(vendor, http_server, quick):
    def ask(*replies, question=QUESTION):
        http_server.answer(*replies)
        return vendor.model().ask(question, TopicName)

    return ask


def test_answer_that_fits_the_schema_is_a_row(ask, vendor, reply):
    assert ask(reply(vendor.completed(GOOD))) == TopicName(name="Street Signs")


def test_rate_limit_is_waited_out_as_long_as_the_server_asks(ask, vendor, reply, http_server):
    begin = time.monotonic()
    answer = ask(reply({"error": {"message": "slow"}}, 429, {"retry-after": "1"}), reply(vendor.completed(GOOD)))
    assert answer == TopicName(name="Street Signs")
    assert time.monotonic() - begin >= 1.0
    assert len(http_server.requests) == 2


def test_rate_limit_longer_than_our_patience_is_a_failure_at_once(ask, reply, http_server):
    assert ask(reply({"error": {"message": "slow"}}, 429, {"retry-after": "3600"})) == Failed("rate_limited")
    assert len(http_server.requests) == 1


@pytest.mark.parametrize("status", [500, 503, 408])
def test_passing_server_error_is_survived(ask, vendor, reply, status):
    assert ask(reply({"error": {"message": "busy"}}, status), reply(vendor.completed(GOOD))) == TopicName(
        name="Street Signs"
    )


def test_lasting_server_error_is_a_failure_after_five_calls(ask, reply, http_server):
    assert ask(reply({"error": {"message": "busy"}}, 503)) == Failed("server_error")
    assert len(http_server.requests) == 5


def test_dropped_connection_is_survived(ask, vendor, reply):
    assert ask(reply(None), reply(None), reply(vendor.completed(GOOD))) == TopicName(name="Street Signs")


def test_server_that_only_hangs_up_is_a_failure(ask, reply):
    assert ask(reply(None)) == Failed("connection_failed")


@pytest.mark.parametrize("status", [400, 401, 403, 404])
def test_rejected_request_is_a_failure_and_not_repeated(ask, reply, http_server, status):
    assert ask(reply({"error": {"message": "quotes the prompt"}}, status)) == Failed(f"http_{status}")
    assert len(http_server.requests) == 1


def test_refused_request_is_a_failure_not_a_no(ask, vendor, reply):
    assert ask(reply(vendor.refused)) == Failed("refused")


def test_cut_off_answer_is_a_failure(ask, vendor, reply):
    assert ask(reply(vendor.truncated)) == Failed("truncated")


@pytest.mark.parametrize(
    "text",
    ["", "Street Signs", '{"name": 3}', '{"name": "a", "also": 1}', '{"title": "a"}', '```json\n{"name":"a"}```'],
)
def test_answer_that_does_not_fit_the_schema_is_a_failure(ask, vendor, reply, text):
    assert ask(reply(vendor.completed(text))) == Failed("malformed_answer")


@pytest.mark.parametrize("body", [b"<html>proxy</html>", b'{"choices": [', b"{}", b"[]", b""])
@pytest.mark.parametrize("content_type", ["application/json", "text/html"])
def test_body_that_is_no_answer_is_a_failure(ask, reply, body, content_type):
    assert ask(reply(body, 200, {"content-type": content_type})) == Failed("malformed_answer")


def test_missing_key_is_named_before_anything_is_sent(vendor, monkeypatch, http_server):
    monkeypatch.delenv(vendor.key)
    with pytest.raises(MissingProvider, match=vendor.key):
        labels.categories(vendor.model())
    assert not http_server.requests


@pytest.mark.parametrize("vendor", ["openai"], indirect=True)
def test_used_up_quota_is_not_waited_for(ask, reply, http_server):
    assert ask(reply({"error": {"code": "insufficient_quota"}}, 429)) == Failed("quota_used_up")
    assert len(http_server.requests) == 1


@pytest.mark.parametrize("vendor", ["gemini"], indirect=True)
def test_wait_that_google_puts_into_the_body_is_kept(vendor, ask, reply):
    delay = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "1.1s"}
    begin = time.monotonic()
    limited = {"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "details": [delay]}}
    assert ask(reply(limited, 429), reply(vendor.completed(GOOD))) == TopicName(name="Street Signs")
    assert time.monotonic() - begin >= 1.1
