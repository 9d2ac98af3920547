"""OpenAI's moderation of images through its real SDK: a complete value or a failure."""

import base64
import io

import PIL.Image
import pytest

from schemas.errors import BadInput
from tasks.providers import Providers
from tasks.providers.capabilities import Failed
from tasks.runtime.budget import ledger, start_ledger

pytest.importorskip("openai", reason="production extra")
from tasks.providers.production.openai.moderation import DEFAULT_MODEL, SERVICE, OpenAiImageModeration
from tests.moderation_answers import OF_IMAGES, answer, of_image, result


@pytest.fixture
def moderate(http_server, quick, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "test-key")
    monkeypatch.setenv("OPENAI_BASE_URL", f"{http_server.url}/v1")

    def moderate(images, *replies):
        http_server.answer(*replies)
        return OpenAiImageModeration().moderate_images(images)

    return moderate


@pytest.fixture(autouse=True)
def fresh_ledger():
    yield start_ledger()
    start_ledger()


def shown(request):
    (part,) = request["input"]
    assert part["type"] == "image_url"
    head, _, content = part["image_url"]["url"].partition(";base64,")
    return head, base64.b64decode(content)


def by_width(request):
    """Says that a wide image is violent."""
    with PIL.Image.open(io.BytesIO(shown(request)[1])) as seen:
        return answer(of_image(violence=0.9) if seen.width > 100 else of_image())


def test_scores_and_flags_of_the_categories_that_apply_to_images_are_the_fact(moderate, reply, drawn_image):
    (said,) = moderate([drawn_image()], reply(answer(of_image(violence=0.9, sexual=0.2))))
    assert (said.flagged_probability, said.flagged_categories) == (0.9, ["violence"])
    scores = {each.category: each.score for each in said.category_scores}
    assert scores == dict.fromkeys(OF_IMAGES, 0.01) | {"violence": 0.9, "sexual": 0.2}


def test_every_image_is_asked_about_alone_and_answered_in_order(moderate, reply, http_server, drawn_image):
    images = [drawn_image(seed, width=128 if seed % 3 else 64) for seed in range(20)]
    said = moderate(images, reply(by_width))
    assert [each.flagged_categories for each in said] == [["violence"] if p.width > 100 else [] for p in images]
    assert len(http_server.requests) == len(images)
    assert {request["model"] for request in http_server.requests} == {DEFAULT_MODEL}


def test_a_category_that_is_flagged_counts_though_the_service_names_no_input_for_it(moderate, reply, drawn_image):
    (said,) = moderate([drawn_image()], reply(answer(of_image(hate=0.7))))
    assert said.flagged_categories == ["hate"]


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
def test_an_answer_that_cannot_be_trusted_is_a_failure(moderate, reply, drawn_image, body, reason):
    assert moderate([drawn_image()], reply(body)) == [Failed(reason)]


def test_one_failing_image_holds_back_no_other(moderate, reply, drawn_image):
    images = [drawn_image(seed) for seed in range(3)]
    said = moderate(images, reply({}, 400), reply(by_width))
    assert sum(isinstance(each, Failed) for each in said) == 1


def test_what_was_sent_is_on_the_bill(moderate, reply, drawn_image):
    moderate([drawn_image(1), drawn_image(2)], reply(answer(of_image())))
    use = ledger().use()[SERVICE]
    assert (use.calls, use.units, use.usd) == (2, 2, 0)


def test_nothing_of_it_ships_with_the_install():
    assert "image_moderation" not in Providers().names
    assert "image_moderation" not in Providers().stand_ins
    with pytest.raises(BadInput, match="image_moderation: unknown provider 'embedded'"):
        Providers({"image_moderation": "embedded"})
