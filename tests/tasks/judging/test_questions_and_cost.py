"""Prompts come from a store or a release alike, and a cost estimate counts what is missing."""

import shutil
from pathlib import Path

import pytest

from schemas.asked_model import AskedModel
from schemas.errors import BadInput
from schemas.run import Prices
from tasks.judging.estimate import estimate_evaluation, estimate_judging
from tasks.judging.protocols import VISIT_PROTOCOLS, AnswerPair, protocol
from tasks.judging.questions import bench_of_release, bench_of_store
from tasks.runtime.budget import load_prices
from tasks.storage.tables import Store
from tests.asked_bench import PUBLIC, benched, evaluating, models_file
from tests.tampered_release import BENCH, rewrite

PRICES = """
tokens:
  openai-gpt-4-0613:
    input_usd_per_million: 30
    output_usd_per_million: 60
    batch_share: 0.5
    image: {tile_pixels: 32, tiles_max: 1, tokens_a_tile: 1}
    source: the price list of 2023
    date: 2023-08-01
    confirmed: false
units: {}
"""


@pytest.fixture
def released(released_store):
    return released_store, released_store.at("releases/first")


def test_a_release_asks_the_same_questions_as_its_store(released, tmp_path_factory):
    store, folder = released
    ours, theirs = bench_of_store(store, hidden=False), bench_of_release(Path(folder))
    assert [(each.question_id, each.prompt) for each in ours.questions] == [
        (each.question_id, each.prompt) for each in theirs.questions
    ]
    (asked,), (again,) = ours.questions, theirs.questions
    assert ours.images(asked) == theirs.images(again) != ()
    assert theirs.draw == Path(folder).name
    with pytest.raises(BadInput, match="is not a release with a benchmark"):
        bench_of_release(tmp_path_factory.mktemp("none"))


def test_an_image_that_a_release_lost_is_named(released, tmp_path):
    spoiled = Path(shutil.copytree(released[1], tmp_path / "release"))
    rewrite(
        spoiled, BENCH, lambda rows: [row | {"images": [i | {"bytes": None} for i in row["images"]]} for row in rows]
    )
    with pytest.raises(BadInput, match=r"question '.*': the release has no bytes of its image"):
        bench_of_release(spoiled)


def test_prompts_that_are_not_kept_any_more_are_not_sent(released, tmp_path):
    store = benched(tmp_path)
    decisions = store.read("decisions")
    store.replace("decisions", decisions.with_columns(keep=decisions["item_id"] != "q01"))
    with pytest.raises(BadInput, match="1 prompts of its benchmark are not kept any more"):
        bench_of_store(store, hidden=False)


def test_an_estimate_counts_missing_answers_and_verdicts_with_images_and_limits(tmp_path):
    store = benched(tmp_path, answers={"base": "One two.", "m": "Three."})
    prices = load_prices()
    known = {"model": "gpt-5.4-mini-2026-03-17", "base_url": "https://api.openai.com/v1"}
    chosen = evaluating(
        store,
        models=models_file(tmp_path, "", "base", "m", **known),
        judge=models_file(tmp_path, "", "judge", **known),
        baseline="base",
    ).evaluate
    first, batch, second, _ = estimate_evaluation(store, chosen.model_copy(update={"judge": None}), prices, len)
    assert (batch.mode, batch.calls, batch.usd) == ("batch", PUBLIC, first.usd / 2)
    assert (first.calls, second.calls, first.signals) == (PUBLIC, PUBLIC, "answers of base")
    assert first.input_tokens == PUBLIC * (len("\nPrompt 0?") + 2 * prices.tokens(first.service).image_tokens(32, 24))
    assert 0 < first.usd < first.usd_most
    judged, _ = estimate_evaluation(store, chosen.model_copy(update={"models": None}), prices, len)
    assert (judged.calls, judged.signals) == (2 * PUBLIC, "verdicts of judge")
    assert estimate_evaluation(store, chosen.model_copy(update={"models": None}), Prices(), len)[0].usd is None
    own = evaluating(store, models=models_file(tmp_path, "http://gpu1", "n")).evaluate
    assert [row.mode for row in estimate_evaluation(store, own, prices, len)] == ["one by one"]


def test_700_battles_of_800_tokens_in_and_250_out_cost_50_to_70_dollars_at_the_prices_of_2023(tmp_path):
    judge = AskedModel(name="gpt-4", vendor="openai", model="gpt-4-0613")
    row = dict.fromkeys(("question_id", "shown", "model_a", "model_b", "answer_a", "answer_b"), "x")
    both = [AnswerPair(row, "What?", *answers, captions=["A cup."]) for answers in ("xy", "yx")]
    store = Store.open(str(tmp_path / "store"))
    (tmp_path / "prices.yaml").write_text(PRICES)
    prices, how = load_prices(str(tmp_path / "prices.yaml")), protocol(VISIT_PROTOCOLS[0])
    found = estimate_judging(store, both * 700, judge, how, prices, lambda text: 800)
    assert [(row.mode, row.calls, round(row.usd, 2)) for row in found] == [
        ("one by one", 1400, 54.6),
        ("batch", 1400, 27.3),
    ]
