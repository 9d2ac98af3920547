"""One question per tag: each gets the parts of the document it needs; the answers become one row."""

import json

import pytest

from schemas.tags import TAGS, Categories, Sees, sees
from tasks.providers.capabilities import Failed

pytest.importorskip("tenacity", reason="production extra")
from tasks.providers.production import labels

FROM_IMAGES = [tag for tag in TAGS if sees(tag) is Sees.IMAGES]


@pytest.fixture
def each_tag(vendor, http_server, quick, reply):
    """Tags documents; `answer` maps the tag that is asked for to the label, or to a whole body."""

    def tag(documents, answer):
        def body(request):
            asked = next(tag for tag in TAGS if f"`{tag}`" in vendor.told(request))
            said = answer(asked)
            return said if isinstance(said, dict) else vendor.completed(json.dumps({asked: said}))

        http_server.answer(reply(body))
        return labels.categories_each_tag(vendor.model()).tag(documents)

    return tag


def test_the_answers_become_one_row(each_tag, document, drawn_image):
    (tags,) = each_tag([document(images=[drawn_image()])], lambda tag: {"ocr": True, "humor": None}.get(tag, False))
    assert tags == Categories(**dict.fromkeys(TAGS, False) | {"ocr": True, "humor": None})


def test_each_question_is_shown_what_its_tag_is_decided_from(each_tag, vendor, http_server, document, drawn_image):
    each_tag([document("Read this aloud.", [drawn_image()])], lambda tag: False)
    shown = {}
    for request in http_server.requests:
        (tag,) = [tag for tag in TAGS if f"`{tag}`" in vendor.told(request)]
        shown[tag] = ("Read this aloud." in vendor.asked(request), len(vendor.shown(request)))
    expected = {Sees.PROMPT: (True, 0), Sees.IMAGES: (False, 1), Sees.BOTH: (True, 1)}
    assert shown == {tag: expected[sees(tag)] for tag in TAGS}


def test_nothing_is_asked_about_the_images_of_a_prompt_without_any(each_tag, http_server, document):
    (tags,) = each_tag([document()], lambda tag: True)
    assert len(http_server.requests) == len(TAGS) - len(FROM_IMAGES)
    assert tags == Categories(**dict.fromkeys(TAGS, True) | dict.fromkeys(FROM_IMAGES, False))


def test_one_failed_answer_fails_the_document_and_no_other(each_tag, vendor, document):
    bad = iter([vendor.refused])
    tags = each_tag([document(), document()], lambda tag: next(bad, False) if tag == "ocr" else False)
    assert sorted(isinstance(each, Failed) for each in tags) == [False, True]
