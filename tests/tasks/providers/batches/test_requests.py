"""A batch asks exactly what single calls ask."""

import json

import pytest

pytest.importorskip("openai", reason="production extra")
pytest.importorskip("google.genai", reason="production extra")
from tasks.providers.production.batches.api import json_line, json_rows, question_name
from tasks.providers.production.labels import TopicName
from tasks.providers.production.language_model import Question, bare
from tasks.providers.production.upload import for_upload


def test_a_batch_asks_exactly_what_a_single_call_asks(vendor, http_server, quick, reply, drawn_image):
    shown = for_upload(drawn_image(file_format="JPEG"))
    question = Question("Name it.", "[material]\u2028 \U0001f600", (shown,))
    http_server.answer(reply(vendor.completed('{"name": "Signs"}')))
    model = vendor.model()
    model.ask(question, TopicName)
    (sent,) = http_server.requests
    sent = json.loads(json.dumps(sent).replace("mime_type", "mimeType"))  # Google reads both
    assert sent == json.loads(json.dumps(model._request(question, "TopicName", bare(TopicName.model_json_schema()))))


def test_a_line_separator_in_a_text_does_not_split_a_line():
    text = "a\u2028b\u2029c\x85d\ne"
    line = json_line({"text": text})
    assert len(line.decode().splitlines()) == 1
    assert json_rows(line) == [{"text": text}]


def test_another_word_is_another_question():
    assert question_name({"a": "x"}) != question_name({"a": "y"})
    assert question_name({"a": 1, "b": 2}) == question_name({"b": 2, "a": 1})
