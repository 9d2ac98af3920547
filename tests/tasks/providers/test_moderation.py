"""OpenAI's moderation of texts through its real SDK: a value for the whole text or a failure."""

import pytest

from schemas.errors import MissingProvider
from tasks.providers import Providers
from tasks.providers.capabilities import Failed
from tasks.runtime.budget import ledger, start_ledger

pytest.importorskip("openai", reason="production extra")
from tasks.providers.production.openai.moderation import (
    CATEGORIES,
    DEFAULT_MODEL,
    MODEL,
    PIECES_MAX,
    SERVICE,
    OpenAiModeration,
)
from tests.moderation_answers import answer, result


def judged(request):
    """Says that a piece with `bad` in it is violent."""
    return answer(*(result(violence=0.9) if "bad" in piece else result() for piece in request["input"]))


@pytest.fixture
def moderate(http_server, quick, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "test-key")
    monkeypatch.setenv("OPENAI_BASE_URL", f"{http_server.url}/v1")

    def moderate(texts, *replies):
        http_server.answer(*replies)
        return OpenAiModeration().moderate(texts)

    return moderate


@pytest.fixture(autouse=True)
def fresh_ledger():
    yield start_ledger()
    start_ledger()


def test_scores_and_flags_of_the_service_are_the_fact(moderate, reply):
    (said,) = moderate(["bad"], reply(answer(result(violence=0.9, hate=0.4))))
    assert said.flagged_probability == 0.9
    assert said.flagged_categories == ["violence"]
    assert {each.category: each.score for each in said.category_scores} == dict.fromkeys(CATEGORIES, 0.01) | {
        "violence": 0.9,
        "hate": 0.4,
    }


def test_every_text_gets_its_own_answer_in_order(moderate, reply, http_server):
    texts = [f"{'bad' if number % 3 else 'fine'} {number}" for number in range(50)]
    said = moderate(texts, reply(judged))
    assert [each.flagged_categories for each in said] == [["violence"] if "bad" in text else [] for text in texts]
    assert {request["model"] for request in http_server.requests} == {DEFAULT_MODEL}
    assert max(len(request["input"]) for request in http_server.requests) == PIECES_MAX


@pytest.mark.parametrize("place", [0, 1000, 9000, 70_000])
def test_a_long_text_is_sent_in_full_and_its_worst_piece_counts(moderate, reply, http_server, place):
    text = ("word " * (place // 5) + "bad " + "word " * 16_000)[:80_000]
    short, long = moderate(["fine", text], reply(judged))
    assert (short.flagged_probability, long.flagged_probability) == (0.01, 0.9)
    pieces = [piece for request in http_server.requests for piece in request["input"]]
    assert max(map(len, pieces)) <= 2000
    assert sum(map(len, pieces)) >= len(text)


def test_a_blank_text_is_not_sent(moderate, reply, http_server):
    blank, bad = moderate([" \n", "bad"], reply(judged))
    assert (blank.flagged_probability, bad.flagged_probability) == (0.0, 0.9)
    assert http_server.requests[0]["input"] == ["bad"]


GARBAGE = {
    "no JSON": b"<html>proxy</html>",
    "cut off": b'{"results": [',
    "no results": {},
    "too few results": answer(),
    "too many results": answer(result(), result()),
    "a list": [],
    "a category is missing": answer({"flagged": False, "categories": {"hate": False}, "category_scores": {"hate": 0}}),
    "a score is no number": answer(result() | {"category_scores": dict.fromkeys(CATEGORIES, "0.1")}),
    "a score above 1": answer(result() | {"category_scores": dict.fromkeys(CATEGORIES, 1.1)}),
    "a score is NaN": answer(result() | {"category_scores": dict.fromkeys(CATEGORIES, float("nan"))}),
    "a score is null": answer(result() | {"category_scores": dict.fromkeys(CATEGORIES)}),
    "flagged for nothing": answer(result() | {"flagged": True}),
    "flagged in part only": answer(result(violence=0.9) | {"flagged": False}),
}


@pytest.mark.parametrize("body", GARBAGE.values(), ids=GARBAGE)
def test_an_answer_that_cannot_be_trusted_is_a_failure(moderate, reply, body):
    assert moderate(["fine"], reply(body)) == [Failed("malformed_answer")]


@pytest.mark.parametrize(
    ("status", "body", "reason", "calls"),
    [
        (401, {"error": {"message": "quotes the text"}}, "http_401", 1),
        (429, {"error": {"code": "insufficient_quota"}}, "quota_used_up", 1),
        (503, {"error": {"message": "busy"}}, "server_error", 5),
        (200, None, "connection_failed", 5),
    ],
)
def test_a_refusal_is_a_failure_of_every_text_and_repeated_only_if_it_may_pass(
    moderate, reply, http_server, status, body, reason, calls
):
    assert moderate(["one", "two"], reply(body, status)) == [Failed(reason)] * 2
    assert len(http_server.requests) == calls


def test_a_text_that_the_service_rejects_does_not_hold_back_its_neighbours(moderate, reply, http_server):
    one, poison, other = moderate(
        ["bad", "poison", "fine"], reply({}, 400), reply(judged), reply({}, 400), reply(judged)
    )
    assert (one.flagged_probability, poison, other.flagged_probability) == (0.9, Failed("http_400"), 0.01)


def test_one_lost_piece_of_a_long_text_is_a_failure_of_the_text(moderate, reply):
    text = "word " * 10_000  # two requests
    assert moderate([text], reply(judged), reply({}, 403)) == [Failed("http_403")]


def test_what_was_sent_is_on_the_bill_and_costs_nothing(moderate, reply):
    moderate(["one", "two"], reply(judged))
    use = ledger().use()[SERVICE]
    assert (use.calls, use.units, use.usd, use.usd_unconfirmed) == (1, 2, 0, 0)


def test_the_version_names_the_model_and_a_missing_key_is_named(moderate, monkeypatch):
    monkeypatch.setenv(MODEL, "omni-7")
    assert "omni-7" in OpenAiModeration().version
    monkeypatch.delenv("OPENAI_API_KEY")
    with pytest.raises(MissingProvider, match="OPENAI_API_KEY"):
        Providers({"moderation": "openai"})["moderation"]
