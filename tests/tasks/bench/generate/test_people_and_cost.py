"""What people find, what a benchmark would cost, how scores agree with people on real images, and the commands."""

import csv
import io
import json
import os
from pathlib import Path

import pytest
from scipy.stats import kendalltau, pearsonr, spearmanr

from schemas.errors import BadInput
from schemas.policy import GeneratedRule
from schemas.settings import GenerateSettings
from tasks.bench.generate import cost
from tasks.bench.generate.aspects import levels, load_capability
from tasks.bench.generate.bench_state import read_bench
from tasks.bench.generate.kept_items import kept_items
from tasks.bench.generate.people.sheets import review_csv, review_rows, take_reviews
from tasks.providers import Providers
from tasks.providers.production import language_model
from tasks.runtime.prices import load_prices
from tests.builders import NOON
from tests.generated_bench import NAME, decided, settings_for

BESIDE = Path(__file__).parents[5] / "shared" / "data"
HUMAN = Path(os.environ.get("CURATE_TEST_DATA") or BESIDE) / "alignment-human" / "human_annotations_with_scores.json"


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return decided(settings_for(tmp_path_factory.mktemp("people") / "store", levels=["easy"]))


def filled(store, folder, *said, guided=True):
    made = read_bench(store, NAME)
    rows = list(csv.DictReader(io.StringIO(review_csv(made, made.items, guided))))
    for row, (description, question) in zip(rows, said, strict=False):
        row |= {"description_fits": description, "question_fits": question}
    file = folder / "filled.csv"
    with file.open("w", newline="") as sink:
        writer = csv.DictWriter(sink, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    return made.items, file


def test_a_majority_of_raters_decides_and_a_later_finding_replaces_an_earlier_one(store, tmp_path):
    for rater, said in (("ann", "yes"), ("bob", "no"), ("cid", "no")):
        items, file = filled(store, tmp_path, ("yes", said), ("yes", "yes"))
        assert take_reviews(store, items, file, rater, NOON) == 2
    items, file = filled(store, tmp_path, ("yes", "yes"), guided=False)
    take_reviews(store, items, file, "ann", NOON)
    rows = {(row.asked, row.guided): row for row in review_rows(store, items) if row.level == "all"}
    assert (rows["description_fits", True].fits, rows["description_fits", True].items) == (2, 2)
    unfit = rows["question_fits", True]
    assert (unfit.fits, unfit.rate, unfit.raters_least) == (1, 0.5, 3)
    assert rows["question_fits", False].rate == 1.0
    assert kept_items(store, NAME).dropped == {}, "two raters with the guideline and one without are even"
    items, file = filled(store, tmp_path, ("yes", "yes"))
    take_reviews(store, items, file, "bob", NOON)
    assert {row.fits for row in review_rows(store, items) if row.guided and row.level == "all"} == {2}
    assert "ann" not in str(store.read("reviews").to_dicts())


def test_a_review_that_cannot_be_used_stores_nothing(store, tmp_path):
    before = store.parts("reviews")
    items, file = filled(store, tmp_path, ("yes", "yes"), ("maybe", "no"))
    with pytest.raises(BadInput, match="line 3: description_fits"):
        take_reviews(store, items, file, "ann", NOON)
    with pytest.raises(BadInput, match="--rater is empty"):
        take_reviews(store, items, file, " ", NOON)
    file.write_text("item_id,guideline,description_fits,question_fits\nnone,,yes,yes\n")
    with pytest.raises(BadInput, match="'none' is no item of this benchmark"):
        take_reviews(store, items, file, "ann", NOON)
    file.write_text("a,b\n")
    with pytest.raises(BadInput, match="needs the columns"):
        take_reviews(store, items, file, "ann", NOON)
    assert store.parts("reviews") == before


def test_every_image_and_call_is_counted_before_anything_is_sent(monkeypatch, tmp_path):
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    monkeypatch.setenv("GEMINI_API_KEY", "k")
    assert cost.ANSWER_TOKENS_MAX == language_model.ANSWER_TOKENS_MAX
    chosen = Providers({"author": "openai", "pictures": "openai", "viewer": "gemini"})
    wanted, capability = GenerateSettings(general=4, fine=6, per_aspect=10), load_capability("basic")
    told = (wanted, capability, levels(), GeneratedRule(redraws_max=2))
    rows = {row.signals: row for row in cost.estimate_making(*told, chosen, load_prices(), lambda text: len(text) // 4)}
    assert (rows["pictures"].items, rows["pictures"].units) == (720, 720)
    assert rows["pictures"].usd == pytest.approx(720 * 0.042)
    assert rows["pictures"].usd_most == pytest.approx(3 * 720 * 0.042)
    assert rows["author"].calls == 1 + 4 * 720
    assert rows["viewer"].calls == 240 * sum(level.checks for level in levels().values())
    assert all(row.usd < row.usd_most for row in rows.values())
    assert cost.estimate_making(*told, Providers(), load_prices(), len) == []


@pytest.mark.skipif(not HUMAN.exists(), reason="needs alignment-human of shared/data")
def test_scores_agree_with_people_as_published_and_thresholds_keep_what_they_keep():
    rows = list(json.loads(HUMAN.read_text()).values())
    score = [row["tifa_mplug-large"] for row in rows]
    people = [row["human_avg"] for row in rows]
    assert len(rows) == 800
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
        (["basic", "--aspects", "0x6"], "--aspects '0x6'"),
        (["basic", "--levels", "extreme"], "--levels: unknown level 'extreme'"),
        (["basic", "--provider", "pictures=none"], "pictures: unknown provider 'none'"),
        (["basic", "--provider", "pictures=openai"], "OPENAI_API_KEY is not set"),
    ],
)
def test_bad_input_is_one_clear_line_and_makes_no_store(given, said, tmp_path, curate, monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    code, _, err = curate("bench", "generate", *given, "--store", str(tmp_path / "new"), "--bench", "b", "--dry-run")
    assert (code, err.count("\n")) == (2, 1) and said in err
    assert not (tmp_path / "new").exists()


def test_the_commands_print_accuracy_and_lists_for_raters(store, curate):
    code, _, err = curate("bench", "accuracy", "--store", store.root, "--bench", NAME)
    assert code == 2 and "no model has answered; run `curate judge answer" in err
    code, out, _ = curate("bench", "review", "--store", store.root, "--bench", NAME, "--csv")
    assert code == 0 and len(list(csv.DictReader(io.StringIO(out)))) == 8
    code, _, err = curate("bench", "audit", "--store", store.root, "--bench", NAME, "--models", "m", "--modes", "sly")
    assert code == 2 and "--modes" in err and err.count("\n") == 1
