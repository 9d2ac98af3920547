"""All tags in one question and one question a tag can be held against each other, over the vendors' real protocols."""

import json
from datetime import UTC, datetime

import pytest

from flows.commands.tag_sources import sides_to_compare
from schemas.settings import Settings
from schemas.tags import TAGS
from tasks.signals.tag_evaluation import agreements

PROMPTS = ["Describe this.", "Read the sign.", "Write a poem.", "Is it safe?"]


@pytest.fixture
def sides(vendor, http_server, reply, tmp_path):
    """What both modes say when the model takes `sign` for text only if it is asked about text alone."""

    def answer(request):
        asked = [tag for tag in TAGS if f"`{tag}`" in vendor.told(request)]
        seen = "sign" in vendor.asked(request) and len(asked) == 1
        return vendor.completed(json.dumps({tag: tag == "ocr" and seen for tag in asked}))

    http_server.answer(reply(answer))
    items = tmp_path / "items.jsonl"
    items.write_text("".join(json.dumps({"id": n, "prompt": prompt}) + "\n" for n, prompt in enumerate(PROMPTS)))
    name = {"OPENAI_API_KEY": "openai", "GEMINI_API_KEY": "gemini"}[vendor.key]
    names = (name, f"{name}_each_tag")
    return sides_to_compare(names, (), "categories", items, 10, Settings(store="")).sides(datetime.now(UTC))


def test_the_agreement_of_both_modes_is_measured(sides):
    rows = {row.tag: row for row in agreements(sides.tagger, sides.reference, TAGS)}
    assert sides.failures == {}
    assert rows["ocr"].items == len(PROMPTS)
    assert (rows["ocr"].accuracy.value, rows["ocr"].recall.value) == (0.75, 0.0)
    assert rows["humor"].accuracy.value == 1.0


def test_one_question_a_tag_takes_as_many_calls_as_tags_that_need_no_image(sides, http_server):
    assert len(http_server.requests) == len(PROMPTS) * (1 + len(TAGS) - 2)
