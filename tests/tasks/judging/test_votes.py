"""A judge votes on drawn battles with their images, and sees nothing that a release would not hold."""

import re

import pytest

from tasks.judging.steps import collect_votes
from tests.asked_bench import evaluating, last_text, models_file, said_by
from tests.builders import VERSIONS, gathered_rows
from tests.http_server import HttpServer, Reply
from tests.voted_store import MODELS, SECRETS, voted

BATTLES = len(MODELS)


@pytest.fixture
def server():
    pytest.importorskip("openai", reason="production extra")
    server = HttpServer()
    yield server
    server.close()


@pytest.fixture
def store(tmp_path):
    return voted(tmp_path)


def vote(store, sample=100, **chosen):
    """Run the step on what a release of the store would hold."""
    released = [gathered_rows(store).rows["battle"]]
    return collect_votes.fn(evaluating(store, sample=sample, **chosen), VERSIONS, released)


def votes(store):
    return dict(store.read("judge_votes").select("battle_id", "label").iter_rows())


def test_a_larger_sample_adds_to_a_smaller_and_secrets_and_models_are_not_shown(store, server, tmp_path):
    said = {0: "[[left]]", 1: "I cannot say.", 2: "[[both bad]]"}
    server.answer(Reply(said_by(lambda text: said.get(int(re.search(r"Prompt (\d)", text)[1]), "[[right]]"))))
    judge = models_file(tmp_path, server.url, "judge")
    assert vote(store, 2, judge=judge).model_calls == {"judge": 2}
    assert vote(store, judge=judge).model_calls == {"judge": BATTLES - 2}
    assert votes(store) == {"b0": "model_a", "b1": None, "b2": "tie_bothbad"} | dict.fromkeys(
        ("b3", "b4", "b5"), "model_b"
    )
    for request in server.requests:
        (message,) = request["messages"]
        assert [part["type"] for part in message["content"]] == ["text", "image_url", "image_url"]
        text = last_text(request).lower()
        assert not any(f"{secret} prompt" in text for secret in SECRETS)
        assert not any(model in text.split() for pair in MODELS for model in pair)
