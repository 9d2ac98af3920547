"""The embedded judge: no call, the same verdict in both orders, and as good as its docstring says on human votes."""

import json
from pathlib import Path

import polars as pl
import pytest

from tasks.evaluate.consensus import closeness, label_of
from tasks.evaluate.steps import collect_verdicts
from tasks.providers import Providers
from tests.asked_bench import benched, evaluating
from tests.builders import VERSIONS, drawn_image, facts_frame

VOTES = Path(__file__).parents[4] / "shared" / "data" / "votes-llmfao"
SAID = {
    "a": "A red bus stands at the stop.",
    "b": "There is a red bus at a bus stop.",
    "c": "The picture shows a red bus waiting at its stop.",
    "odd": "Bake the cake for forty minutes and let it cool.",
    "silent": " ",
}


def _labels(store):
    rows = store.read("verdicts").select("model_a", "model_b", "label").iter_rows()
    return {(a, b): label for a, b, label in rows}


def test_the_answer_that_agrees_with_the_others_wins_in_both_orders_and_a_second_run_adds_nothing(tmp_path):
    store = benched(tmp_path, 1, SAID)
    settings = evaluating(store, judge="embedded", baseline="a")
    report = collect_verdicts.fn(settings, VERSIONS)
    labels = _labels(store)
    assert labels["a", "odd"] in ("A>B", "A>>B")
    assert labels["odd", "a"] in ("B>A", "B>>A")
    assert (labels["a", "silent"], labels["silent", "a"]) == ("A>>B", "B>>A")
    assert report.model_calls == {}
    assert "stand-in" in report.notes[0]
    assert collect_verdicts.fn(settings, VERSIONS).counts == {}


def test_the_text_in_the_images_counts_as_one_more_answer(tmp_path):
    store = benched(tmp_path, 1, {"a": "It says: closed on Sunday.", "b": "I see a green door."})
    settings = evaluating(store, judge="embedded", baseline="a", protocol="wildvision")
    collect_verdicts.fn(settings, VERSIONS)
    assert _labels(store) == {("a", "b"): "A=B"}
    store.replace("verdicts", store.empty("verdicts"))
    rows = {drawn_image(0).image_id: {"text": "CLOSED ON SUNDAY"}}
    store.replace("signals/image_text", facts_frame("image_text", rows))
    collect_verdicts.fn(settings, VERSIONS)
    assert _labels(store)["a", "b"] in ("A>B", "A>>B")


@pytest.mark.skipif(not VOTES.is_dir(), reason="real data is not on this machine")
def test_it_agrees_with_two_thirds_of_decisive_human_votes():
    said = [json.loads(line) for line in (VOTES / "answers.jsonl").read_text().splitlines()]
    votes = pl.read_csv(VOTES / "human-votes.csv").filter(pl.col("winner") != "tie")
    prompts = {row["prompt"]: [each for each in said if each["prompt"] == row["prompt"]] for row in said}
    close = {}
    for prompt, rows in prompts.items():
        found = closeness([row["result"] for row in rows], "", Providers()["text_embedding"])
        close |= {(prompt, row["model"]): value for row, value in zip(rows, found, strict=True)}
    right = {"left": ("A>B", "A>>B"), "right": ("B>A", "B>>A")}
    score = 0.0
    for prompt, x, y, winner in votes.select("prompt", "model_x", "model_y", "winner").iter_rows():
        label = label_of(close[prompt, x], close[prompt, y])
        score += 0.5 if label == "A=B" else label in right[winner]
    assert score / votes.height >= 0.7
