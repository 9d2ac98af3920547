"""Hostile texts reach a model only as one fenced text in the user message."""

import json
import re

import pytest

from schemas.tags import Categories
from tests.hostile_texts import HOSTILE_TEXTS

pytest.importorskip("openai", reason="production extra")
pytest.importorskip("google.genai", reason="production extra")
from tasks.providers.production import labels
from tasks.providers.production.openai.model import defused

LABELS = Categories(**dict.fromkeys(Categories.model_fields, False))


@pytest.fixture
def sent(vendor, http_server, quick, reply, document):
    """What the server is sent about hostile texts, by what they try."""
    http_server.answer(reply(vendor.completed(LABELS.model_dump_json())))
    tagger = labels.categories(vendor.model())
    requests = {}
    for name, text in HOSTILE_TEXTS.items():
        assert tagger.tag([document(text)]) == [LABELS]
        requests[name] = http_server.requests[-1]
    return requests


def test_every_request_has_the_same_shape_whatever_the_text_says(vendor, sent):
    def shape(value):
        if isinstance(value, dict):
            return {key: shape(each) for key, each in value.items()}
        return [shape(each) for each in value] if isinstance(value, list) else type(value)

    assert len(sent) == len(HOSTILE_TEXTS) >= 20
    assert len({json.dumps(shape(request), default=str) for request in sent.values()}) == 1
    assert {vendor.told(request) for request in sent.values()} == {vendor.told(sent["empty"])}


def test_the_text_stands_between_marks_that_it_does_not_hold(vendor, sent):
    for name, request in sent.items():
        text = defused(HOSTILE_TEXTS[name]) if "messages" in request else HOSTILE_TEXTS[name]
        asked = vendor.asked(request)
        first, last = asked.split("\n")[0], asked.split("\n")[-1]
        mark = re.fullmatch(r"\[material ([0-9a-f]{16})\]", first)[1]
        assert asked == f"{first}\n{text}\n{last}"
        assert last == f"[end of material {mark}]"
        assert mark not in text


def test_nothing_of_the_text_is_in_the_instructions_or_the_schema(vendor, sent):
    for name, text in HOSTILE_TEXTS.items():
        if not text or text.startswith("{"):
            continue
        rest = json.dumps(sent[name]).replace(json.dumps(vendor.asked(sent[name])), "")
        assert json.dumps(text[:40])[1:-1] not in rest


@pytest.mark.parametrize("name", HOSTILE_TEXTS)
def test_no_control_token_of_a_chat_template_survives(name):
    harmless = defused(HOSTILE_TEXTS[name])
    token = r"<[|｜]|[|｜]>|</?(?:s|think|tool_call)>|<(?:start|end)_of_turn>|\[/?INST\]|<</?SYS>>"
    assert not re.search(token, harmless)
    assert harmless.replace(" ", "") == HOSTILE_TEXTS[name].replace(" ", "")
    assert defused(harmless) == harmless


def test_ordinary_text_is_left_alone():
    text = "if a < b | c > d: print([1], '<b>bold</b>', x |> f, a<|b) [INSTALL] <sys/types.h> 3<5"
    assert defused(text).replace("a< |b", "a<|b").replace("x | > f", "x |> f") == text
