"""OpenAI's moderation of texts and images through its real SDK: a complete value or a failure."""

import base64
import io

import PIL.Image
import pytest

from schemas.errors import BadInput, MissingProvider
from tasks.providers import Providers
from tasks.providers.capabilities import Failed
from tasks.runtime.budget import ledger, start_ledger

pytest.importorskip("openai", reason="production extra")

from tasks.providers.production.openai.moderation import (
    MODERATION_CATEGORIES,
    MODERATION_DEFAULT_MODEL,
    MODERATION_MODEL_VARIABLE,
    MODERATION_SERVICE,
    PIECES_MAX,
    OpenAiImageModeration,
    OpenAiModeration,
)
from tests.moderation_answers import OF_IMAGES, answer, of_image, result


def judged(request):
    """Says that a piece with `bad` in it is violent."""
    return answer(*(result(violence=0.9) if "bad" in piece else result() for piece in request["input"]))


@pytest.fixture
def moderate(openai_server, short_waits):
    def moderate(texts, *replies):
        openai_server.answer(*replies)
        return OpenAiModeration().moderate(texts)

    return moderate


@pytest.fixture(autouse=True)
def fresh_ledger():
    yield start_ledger()
    start_ledger()


def test_scores_and_flags_are_the_fact_every_text_has_its_own_and_a_blank_one_is_not_sent(moderate, reply, http_server):
    (said,) = moderate(["bad"], reply(answer(result(violence=0.9, hate=0.4))))
    assert said.flagged_probability == 0.9
    assert said.flagged_categories == ["violence"]
    assert {each.category: each.score for each in said.category_scores} == dict.fromkeys(
        MODERATION_CATEGORIES, 0.01
    ) | {
        "violence": 0.9,
        "hate": 0.4,
    }
    blank, bad = moderate([" \n", "bad"], reply(judged))
    assert (blank.flagged_probability, bad.flagged_probability) == (0.0, 0.9)
    assert http_server.requests[-1]["input"] == ["bad"] and len(http_server.requests) == 2


def test_every_text_gets_its_own_answer_in_order(moderate, reply, http_server):
    texts = [f"{'bad' if number % 3 else 'fine'} {number}" for number in range(50)]
    said = moderate(texts, reply(judged))
    assert [each.flagged_categories for each in said] == [["violence"] if "bad" in text else [] for text in texts]
    assert {request["model"] for request in http_server.requests} == {MODERATION_DEFAULT_MODEL}
    assert max(len(request["input"]) for request in http_server.requests) == PIECES_MAX


@pytest.mark.parametrize("place", [0, 1000, 9000, 70_000])
def test_a_long_text_is_sent_in_full_and_its_worst_piece_counts(moderate, reply, http_server, place):
    text = ("word " * (place // 5) + "bad " + "word " * 16_000)[:80_000]
    short, long = moderate(["fine", text], reply(judged))
    assert (short.flagged_probability, long.flagged_probability) == (0.01, 0.9)
    pieces = [piece for request in http_server.requests for piece in request["input"]]
    assert max(map(len, pieces)) <= 2000
    assert sum(map(len, pieces)) >= len(text)


GARBAGE = {
    "no JSON": b"<html>proxy</html>",
    "cut off": b'{"results": [',
    "no results": {},
    "too few results": answer(),
    "too many results": answer(result(), result()),
    "a list": [],
    "a category is missing": answer({"flagged": False, "categories": {"hate": False}, "category_scores": {"hate": 0}}),
    "a score is no number": answer(result() | {"category_scores": dict.fromkeys(MODERATION_CATEGORIES, "0.1")}),
    "a score above 1": answer(result() | {"category_scores": dict.fromkeys(MODERATION_CATEGORIES, 1.1)}),
    "a score is NaN": answer(result() | {"category_scores": dict.fromkeys(MODERATION_CATEGORIES, float("nan"))}),
    "a score is null": answer(result() | {"category_scores": dict.fromkeys(MODERATION_CATEGORIES)}),
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


def test_a_text_that_the_service_rejects_holds_back_no_other_and_one_lost_piece_fails_its_text(
    moderate, reply, http_server
):
    one, poison, other = moderate(
        ["bad", "poison", "fine"], reply({}, 400), reply(judged), reply({}, 400), reply(judged)
    )
    assert (one.flagged_probability, poison, other.flagged_probability) == (0.9, Failed("http_400"), 0.01)
    text = "word " * 10_000  # two requests
    assert moderate([text], reply(judged), reply({}, 403)) == [Failed("http_403")]


def test_what_was_sent_is_on_the_bill_and_costs_nothing(moderate, reply):
    moderate(["one", "two"], reply(judged))
    use = ledger().use()[MODERATION_SERVICE]
    assert (use.calls, use.units, use.usd, use.usd_unconfirmed) == (1, 2, 0, 0)


def test_the_version_names_the_model_and_a_missing_key_is_named(moderate, monkeypatch):
    monkeypatch.setenv(MODERATION_MODEL_VARIABLE, "omni-7")
    assert "omni-7" in OpenAiModeration().version
    monkeypatch.delenv("OPENAI_API_KEY")
    with pytest.raises(MissingProvider, match="OPENAI_API_KEY"):
        Providers({"moderation": "openai"})["moderation"]


@pytest.fixture
def moderate_images(openai_server, short_waits):
    def moderate_images(images, *replies):
        openai_server.answer(*replies)
        return OpenAiImageModeration().moderate_images(images)

    return moderate_images


def shown(request):
    (part,) = request["input"]
    assert part["type"] == "image_url"
    head, _, content = part["image_url"]["url"].partition(";base64,")
    return head, base64.b64decode(content)


def by_width(request):
    """Says that a wide image is violent."""
    with PIL.Image.open(io.BytesIO(shown(request)[1])) as seen:
        return answer(of_image(violence=0.9) if seen.width > 100 else of_image())


def test_scores_and_flags_of_the_categories_that_apply_to_images_are_the_fact_also_without_a_named_input(
    moderate_images, reply, drawn_image
):
    (said,) = moderate_images([drawn_image()], reply(answer(of_image(violence=0.9, sexual=0.2))))
    assert (said.flagged_probability, said.flagged_categories) == (0.9, ["violence"])
    scores = {each.category: each.score for each in said.category_scores}
    assert scores == dict.fromkeys(OF_IMAGES, 0.01) | {"violence": 0.9, "sexual": 0.2}
    (said,) = moderate_images([drawn_image()], reply(answer(of_image(hate=0.7))))
    assert said.flagged_categories == ["hate"]


def test_every_image_is_asked_about_alone_and_answered_in_order(moderate_images, reply, http_server, drawn_image):
    images = [drawn_image(seed, width=128 if seed % 3 else 64) for seed in range(20)]
    said = moderate_images(images, reply(by_width))
    assert [each.flagged_categories for each in said] == [["violence"] if p.width > 100 else [] for p in images]
    assert len(http_server.requests) == len(images)
    assert {request["model"] for request in http_server.requests} == {MODERATION_DEFAULT_MODEL}


UNSEEN = of_image() | {"category_applied_input_types": {"violence": ["text"]}}


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (answer(result()), "image_not_looked_at"),
        (answer(UNSEEN), "image_not_looked_at"),
        (answer(of_image() | {"category_applied_input_types": {"beauty": ["image"]}}), "image_not_looked_at"),
        (answer(of_image() | {"category_applied_input_types": {"hate": "image"}}), "malformed_answer"),
        (answer(of_image() | {"flagged": True}), "malformed_answer"),
        (answer(of_image(), of_image()), "malformed_answer"),
        (answer(), "malformed_answer"),
        (b"<html>proxy</html>", "malformed_answer"),
    ],
)
def test_an_answer_about_an_image_that_cannot_be_trusted_is_a_failure(
    moderate_images, reply, drawn_image, body, reason
):
    assert moderate_images([drawn_image()], reply(body)) == [Failed(reason)]


def test_one_failing_image_holds_back_no_other(moderate_images, reply, drawn_image):
    images = [drawn_image(seed) for seed in range(3)]
    said = moderate_images(images, reply({}, 400), reply(by_width))
    assert sum(isinstance(each, Failed) for each in said) == 1


def test_what_was_sent_is_on_the_bill(moderate_images, reply, drawn_image):
    moderate_images([drawn_image(1), drawn_image(2)], reply(answer(of_image())))
    use = ledger().use()[MODERATION_SERVICE]
    assert (use.calls, use.units, use.usd) == (2, 2, 0)


def test_nothing_of_it_ships_with_the_install():
    assert "image_moderation" not in Providers().names
    assert "image_moderation" not in Providers().stand_ins
    with pytest.raises(BadInput, match="image_moderation: unknown provider 'embedded'"):
        Providers({"image_moderation": "embedded"})
