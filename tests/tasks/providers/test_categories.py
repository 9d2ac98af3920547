"""Categories by a language model: strict answers, fenced user text, failures instead of guesses."""

import dataclasses
import json

import pytest

from schemas.tags import Categories
from tasks.providers.capabilities import Failed

pytest.importorskip("tenacity", reason="production extra")
from tasks.providers.production import labels

LABELS = dict.fromkeys(Categories.model_fields, False)


@pytest.fixture
def tag(vendor, http_server, quick, reply):
    def tag(documents, *answers):
        http_server.answer(*(reply(vendor.completed(json.dumps(answer))) for answer in answers))
        return labels.categories(vendor.model()).tag(documents)

    return tag


def test_labels_are_bool_or_null_as_the_model_said(tag, document):
    assert tag([document()], LABELS | {"ocr": True, "humor": None}) == [
        Categories(**LABELS | {"ocr": True, "humor": None})
    ]


WRONG = {
    "no bool": LABELS | {"ocr": "yes"},
    "a number": LABELS | {"ocr": 1},
    "a list": LABELS | {"ocr": [True]},
    "one missing": {name: True for name in LABELS if name != "ocr"},
    "one that nobody asked for": LABELS | {"nsfw": False},
}


@pytest.mark.parametrize("said", WRONG.values(), ids=WRONG)
def test_an_answer_off_the_schema_is_a_failure_and_neither_a_yes_nor_a_no(tag, document, said):
    assert tag([document()], said) == [Failed("malformed_answer")]


def test_documents_are_answered_in_order(vendor, http_server, quick, reply, document):
    http_server.answer(
        reply(lambda request: vendor.completed(json.dumps(LABELS | {"ocr": "odd" in vendor.asked(request)})))
    )
    documents = [document("odd" if number % 2 else "even") for number in range(21)]
    tags = labels.categories(vendor.model()).tag(documents)
    assert [tag.ocr for tag in tags] == [bool(number % 2) for number in range(21)]


def test_one_failed_document_does_not_fail_its_neighbours(vendor, http_server, quick, reply, document):
    http_server.answer(
        reply(
            lambda request: vendor.refused if "bad" in vendor.asked(request) else vendor.completed(json.dumps(LABELS))
        )
    )
    tags = labels.categories(vendor.model()).tag([document("good"), document("bad"), document("good")])
    assert tags == [Categories(**LABELS), Failed("refused"), Categories(**LABELS)]


def test_every_image_is_shown(tag, document, vendor, http_server, drawn_image):
    images = [drawn_image(seed, file_format=kind) for seed, kind in enumerate(["PNG", "JPEG"])]
    tag([document(images=images)], LABELS)
    assert vendor.shown(http_server.requests[0]) == [p.encoded for p in images]


def test_document_without_its_images_is_not_judged_from_the_prompt(tag, document, http_server):
    stripped = dataclasses.replace(document(), image_count=1)
    assert tag([stripped], LABELS) == [Failed("images_missing")]
    assert not http_server.requests


def test_broken_image_is_a_failure(tag, document):
    broken = dataclasses.replace(document(), image_count=1, images=(("png", b"\x89PNG no more"),))
    assert tag([broken], LABELS) == [Failed("image_unreadable")]


def test_very_long_prompt_is_cut(tag, document, vendor, http_server):
    tag([document("x" * 1_000_000)], LABELS)
    assert 12_000 < len(vendor.asked(http_server.requests[0])) < 13_000
