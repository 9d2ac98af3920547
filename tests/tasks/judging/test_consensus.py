"""The embedded judge: no call, the same verdict in both orders, and as good as its docstring says on human votes."""

from benchmarks.stand_in_judge import agreement
from tasks.judging.steps import collect_verdicts
from tests.asked_bench import benched, evaluating
from tests.builders import VERSIONS, drawn_image, facts_frame
from tests.places import DATA, needs_data

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


def test_the_answer_that_agrees_with_the_others_wins_in_both_orders(tmp_path):
    store = benched(tmp_path, 1, SAID)
    settings = evaluating(store, judge="embedded", baseline="a")
    collect_verdicts.fn(settings, VERSIONS)
    labels = _labels(store)
    assert labels["a", "odd"] in ("A>B", "A>>B")
    assert labels["odd", "a"] in ("B>A", "B>>A")
    assert (labels["a", "silent"], labels["silent", "a"]) == ("A>>B", "B>>A")


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


@needs_data
def test_it_agrees_with_two_thirds_of_decisive_human_votes():
    found = agreement(DATA / "votes-llmfao", prompts_max=3)
    assert found["n"] > 1000
    assert found["ours"] >= 0.66 > found["longer"]
