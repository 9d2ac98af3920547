"""What people find, what a benchmark would cost, how scores agree with people on real images, and the commands."""

import polars as pl
import pytest
from scipy.stats import kendalltau, pearsonr, spearmanr

from schemas.benches.generated_results import ItemReview
from schemas.policy import GeneratedRule
from schemas.settings import GenerateSettings
from tasks.generated_bench.aspects import levels, load_capability
from tasks.generated_bench.bench_state import read_bench
from tasks.generated_bench.kept_items import kept_items, review_of_generated
from tasks.generated_bench.making import estimate_making
from tasks.providers import Providers
from tasks.review.generated import review_rows
from tasks.runtime.prices import load_prices
from tasks.storage.reviews import add_reviews
from tests.builders import NOON
from tests.generated_bench import NAME, decided, settings_for
from tests.places import PUBLISHED


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return decided(settings_for(tmp_path_factory.mktemp("people") / "store", levels=["easy"]))


def said(store, rater, *fits, guided=True):
    """What a rater says of the first items: description fits, question fits; returns all items."""
    items = read_bench(store, NAME).items
    found = [
        ItemReview(item_id=item.item_id, rater=rater, guided=guided, description_fits=one, question_fits=other)
        for item, (one, other) in zip(items, fits, strict=False)
    ]
    add_reviews(store, [review_of_generated(each, NOON) for each in found])
    return items


def test_a_majority_of_raters_decides_and_a_later_finding_replaces_an_earlier_one(store):
    for rater, fits in (("ann", True), ("bob", False), ("cid", False)):
        items = said(store, rater, (True, fits), (True, True))
    said(store, "ann", (True, True), guided=False)
    rows = {(row.asked, row.guided): row for row in review_rows(store, items) if row.level == "all"}
    assert (rows["description_fits", True].fits, rows["description_fits", True].items) == (2, 2)
    unfit = rows["question_fits", True]
    assert (unfit.fits, unfit.rate, unfit.raters_least) == (1, 0.5, 3)
    assert rows["question_fits", False].rate == 1.0
    assert kept_items(store, NAME).dropped == {}, "two raters with the guideline and one without are even"
    said(store, "bob", (True, True))
    assert {row.fits for row in review_rows(store, items) if row.guided and row.level == "all"} == {2}


def test_every_image_and_call_is_counted_before_anything_is_sent(monkeypatch, tmp_path):
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    monkeypatch.setenv("GEMINI_API_KEY", "k")
    chosen = Providers({"author": "openai", "pictures": "openai", "viewer": "gemini"})
    wanted, capability = GenerateSettings(general=4, fine=6, per_aspect=10), load_capability("basic")
    told = (wanted, capability, levels(), GeneratedRule(redraws_max=2))
    rows = {row.signals: row for row in estimate_making(*told, chosen, load_prices(), lambda text: len(text) // 4)}
    assert (rows["pictures"].items, rows["pictures"].units) == (720, 720)
    assert rows["pictures"].usd == pytest.approx(720 * 0.042)
    assert rows["pictures"].usd_most == pytest.approx(3 * 720 * 0.042)
    assert rows["author"].calls == 1 + 4 * 720
    assert rows["viewer"].calls == 240 * sum(level.checks for level in levels().values())
    assert all(row.usd < row.usd_most for row in rows.values())
    assert estimate_making(*told, Providers(), load_prices(), len) == []


def test_scores_agree_with_people_as_published_and_thresholds_keep_what_they_keep():
    rows = pl.read_csv(PUBLISHED / "tifa-scores.csv")
    score, people = rows["tifa_mplug_large"].to_list(), rows["mean"].to_list()
    assert len(score) == 800
    assert round(kendalltau(score, people).statistic, 4) == 0.4717
    assert round(spearmanr(score, people).statistic, 4) == 0.5922
    assert round(pearsonr(score, people).statistic, 4) == 0.5967, "what is published as Spearman"
    for threshold, kept in ((0.5, 728), (0.7, 571), (0.8, 458), (1.0, 267)):
        rule = GeneratedRule(alignment_min=threshold)
        assert sum(each >= rule.alignment_min for each in score) == kept


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["spacial"], "unknown capability 'spacial'"),
        (["basic", "--set", "generate.general=0"], "--set generate.general: "),
        (["basic", "--set", "generate.levels=extreme"], "--set generate.levels: unknown level 'extreme'"),
        (["basic", "--provider", "pictures=none"], "pictures: unknown provider 'none'"),
        (["basic", "--provider", "pictures=openai"], "OPENAI_API_KEY is not set"),
    ],
)
def test_bad_input_is_one_clear_line_and_makes_no_store(given, said, tmp_path, refused, monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    assert said in refused("bench", "generate", *given, "--store", str(tmp_path / "new"), "--bench", "b", "--dry-run")
    assert not (tmp_path / "new").exists()


def test_commands_without_answers_or_with_an_unknown_mode_are_one_line(store, curate):
    code, _, err = curate("bench", "accuracy", "--store", store.root, "--bench", NAME)
    assert code == 2 and "no model has answered; run `curate judge answer" in err
    sly = ("--set", "evaluate.audit_modes=sly")
    code, _, err = curate("bench", "audit", "--store", store.root, "--bench", NAME, "--models", "m", *sly)
    assert code == 2 and "--set evaluate.audit_modes" in err and err.count("\n") == 1
