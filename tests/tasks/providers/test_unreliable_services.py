"""Unreliable services, through the vendors' real SDKs: retries where they may help, failures otherwise."""

import json
import time

import pytest

from schemas.errors import BadInput
from schemas.tags import Categories
from tasks.providers.capabilities import Failed

pytest.importorskip("openai", reason="production extra")
pytest.importorskip("google.genai", reason="production extra")
from tasks.providers.production import labels
from tasks.providers.production.calls import Service
from tasks.providers.production.labels import TopicName
from tasks.providers.production.language_model import Question

QUESTION = Question("Name it.", "[material]")
GOOD, SIGNS = '{"name": "Street Signs"}', TopicName(name="Street Signs")


@pytest.fixture
def ask(vendor, http_server, quick):
    def ask(*replies):
        http_server.answer(*replies)
        return vendor.model().ask(QUESTION, TopicName)

    return ask


def test_a_body_that_is_cut_off_in_the_middle_is_asked_again(ask, vendor, reply, http_server):
    good = vendor.completed(GOOD)
    assert ask(reply(good, cut=True), reply(good, cut=True), reply(good)) == SIGNS
    assert len(http_server.requests) == 3
    assert ask(reply(good, cut=True)) == Failed("connection_failed")


def test_a_silent_server_is_left_and_asked_again(ask, vendor, reply, http_server, monkeypatch):
    monkeypatch.setenv("CURATE_TIMEOUT_SECONDS", "0.3")
    begin = time.monotonic()
    assert ask(reply(vendor.completed(GOOD), silent_seconds=30), reply(vendor.completed(GOOD))) == SIGNS
    assert 0.3 <= time.monotonic() - begin < 15
    monkeypatch.setattr(Service, "attempts", 2)
    assert ask(reply(vendor.completed(GOOD), silent_seconds=30)) == Failed("timed_out")


@pytest.mark.parametrize("given", ["0", "soon", "-1"])
def test_a_timeout_that_is_none_is_one_clear_line(vendor, monkeypatch, given):
    monkeypatch.setenv("CURATE_TIMEOUT_SECONDS", given)
    with pytest.raises(BadInput, match="CURATE_TIMEOUT_SECONDS"):
        vendor.model()


def test_two_answers_to_one_question_are_none(ask, vendor, reply):
    twice = vendor.completed(GOOD)
    for key in ("choices", "candidates"):
        if key in twice:
            twice[key] = twice[key] * 2
    assert ask(reply(twice)) == Failed("contradictory_answer")


@pytest.mark.parametrize("text", ['{"name": "a", "name": "b"}', '{"name": "a", "name": "a"}'])
def test_an_answer_that_says_a_thing_twice_is_none(ask, vendor, reply, text):
    assert ask(reply(vendor.completed(text))) == Failed("contradictory_answer")


def test_an_outage_fails_every_question_and_is_over_when_it_is_over(vendor, http_server, quick, reply, document):
    http_server.answer(reply({"error": {"message": "down"}}, 503))
    tagger = labels.categories(vendor.model())
    assert tagger.tag([document()] * 5) == [Failed("server_error")] * 5
    no = dict.fromkeys(Categories.model_fields, False)
    http_server.answer(reply(vendor.completed(json.dumps(no))))
    assert [tag.ocr for tag in tagger.tag([document()] * 5)] == [False] * 5
