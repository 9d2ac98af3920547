"""Figures of agreement and correlation: WildVision's, llmfao's, those of scikit-learn and of evalica."""

import csv

import evalica
import numpy as np
import polars as pl
import pytest
from sklearn.metrics import cohen_kappa_score, f1_score

from schemas.benches.agreement import Form
from tasks.judging.agreement.agree import label_agreement, rater_agreement
from tasks.judging.agreement.correlation import read_scores, score_correlations
from tasks.judging.agreement.label_files import labels_of, read_labels
from tests.places import PUBLISHED

FIGURE_6 = [[300, 61, 34], [102, 269, 27], [99, 111, 41]]
"""WildVision Fig. 6: people (rows) and GPT-4V (columns) for left, right and other."""


def labels(name, told, raters=None):
    items, given = [item for item, _ in told], [label for _, label in told]
    rows = pl.DataFrame(
        {"item": items, "rater": raters or [None] * len(items), "label": given}, schema_overrides={"rater": pl.String}
    )
    return labels_of(name, rows, name)


def of_confusion(table, names):
    told = [(a, b) for i, a in enumerate(names) for j, b in enumerate(names) for _ in range(table[i][j])]
    sides = ([(str(n), pair[side]) for n, pair in enumerate(told)] for side in (0, 1))
    return [labels(name, side) for name, side in zip("ab", sides, strict=True)]


@pytest.mark.parametrize("names", [("left", "right", "other"), ("leftvote", "rightvote", "tievote"), ("0", "1", "2.0")])
def test_wildvisions_matrix_has_its_published_figures(names):
    found = label_agreement(*of_confusion(FIGURE_6, names), rounds=20, seed=0)
    assert (found.items, found.confusion) == (1044, FIGURE_6)
    printed = {"f1_macro": 0.5144, "f1_micro": 0.5843, "f1_weighted": 0.5537, "kappa": 0.3442, "pearson": 0.2880}
    assert {name: round(getattr(found, name), 4) for name in printed} == printed
    for name in (*printed, "accuracy", "alpha"):
        low, high = getattr(found, f"{name}_ci95_low"), getattr(found, f"{name}_ci95_high")
        assert low < getattr(found, name) < high, name
    assert ([each.form for each in found.forms] == [Form.BINARY]) == (names[0] != "0")


def test_four_votes_merge_into_three_and_two():
    table = [[5, 1, 1, 0], [2, 6, 0, 1], [1, 0, 3, 2], [0, 1, 1, 4]]
    found = label_agreement(*of_confusion(table, ("model_a", "model_b", "tie", "tie (bothbad)")), rounds=20, seed=0)
    assert (found.form, found.confusion, found.labels[3]) == (Form.FOUR, table, "both bad")
    three, two = found.forms
    assert (three.form, three.confusion) == (Form.THREE, [[5, 1, 1], [2, 6, 1], [1, 1, 10]])
    assert (two.form, two.confusion, two.items) == (Form.BINARY, [[5, 1], [2, 6]], 14)


@pytest.mark.parametrize("seed", range(3))
def test_f1_and_kappa_are_scikit_learns_and_alpha_is_evalicas(seed):
    generator = np.random.default_rng(seed)
    told = generator.choice(["cat", "dog", "fish", "owl"][: 2 + seed], (2, 40))
    a, b = (labels(name, list(enumerate_(side))) for name, side in zip("ab", told, strict=True))
    found = label_agreement(a, b, rounds=20, seed=0)
    for average in ("macro", "micro", "weighted"):
        assert getattr(found, f"f1_{average}") == pytest.approx(f1_score(*told, average=average))
    assert found.kappa == pytest.approx(cohen_kappa_score(*told))
    numbered = np.unique(told, return_inverse=True)[1].reshape(told.shape)
    assert found.alpha == pytest.approx(evalica.alpha(pl.DataFrame(numbered).to_pandas()).alpha)


def enumerate_(side):
    return ((f"i{n}", str(label)) for n, label in enumerate(side))


def test_intervals_are_seeded_and_resample_items_not_single_pairs():
    generator = np.random.default_rng(0)
    right = generator.random(40) < 0.7
    votes = [(f"i{n}", "left") for n in range(40) for _ in range(10)]
    people = labels("people", votes, [f"r{n % 10}" for n in range(400)])
    judge = labels("judge", [(f"i{n}", "left" if ok else "right") for n, ok in enumerate(right)])
    found, same = (label_agreement(people, judge, rounds=500, seed=3) for _ in range(2))
    assert found == same
    assert (found.items, found.pairs, found.accuracy) == (40, 400, right.mean())
    expected = 2 * 1.96 * np.sqrt(right.mean() * (1 - right.mean()) / 40)  # a third of it, if pairs were drawn
    assert found.accuracy_ci95_high - found.accuracy_ci95_low == pytest.approx(expected, rel=0.2)


def test_undefined_figures_are_null_and_a_missing_verdict_is_no_tie():
    a = labels("a", [("1", "left"), ("2", "left"), ("3", "tie")])
    b = labels("b", [("1", "left"), ("2", "left"), ("3", "NA"), ("4", "right")])
    found = label_agreement(a, b, rounds=20, seed=0)
    assert (found.items, found.accuracy, found.kappa, found.alpha, found.pearson) == (2, 1, None, None, None)
    assert (found.only_a, found.only_b, found.no_verdict_b) == (1, 1, 1)
    assert found.kappa_ci95_low is None
    plain = label_agreement(
        labels("a", [("1", "x"), ("2", "y"), ("3", "z")]), labels("b", [("1", "x"), ("2", "z")]), 20, 0
    )
    assert (plain.form, plain.labels, plain.pearson, plain.forms) == (Form.LABELS, ["x", "y", "z"], None, [])


def test_llmfaos_raters_agree_as_published():
    votes = read_labels(PUBLISHED / "llmfao-votes.csv", "votes")
    found = rater_agreement(votes, rounds=20, seed=0)
    assert (found.form, found.agreeing, found.pairs, found.raters) == (Form.THREE, 8043, 15112, 124)
    assert round(found.alpha, 3) == 0.291
    (decisive,) = found.forms
    assert (decisive.agreeing, decisive.pairs) == (4737, 6755)


def test_two_peoples_scores_of_pictures_are_compared_as_numbers():
    rows = pl.read_csv(PUBLISHED / "tifa-scores.csv").with_row_index("item")
    a, b = (labels(n, [(str(item), score) for item, score in rows.select("item", n).iter_rows()]) for n in PEOPLE)
    found = label_agreement(a, b, rounds=20, seed=0)
    assert (found.items, round(found.accuracy * 800), found.labels) == (800, 441, ["1", "2", "3", "4", "5"])
    assert found.pearson == pytest.approx(np.corrcoef(*(rows[name] for name in PEOPLE))[0, 1])


PEOPLE = ("person_1", "person_2")
RENAMES = {
    "Bunny-V1-3B": "Bunny-3B",
    "CogVLM-Chat-HF-13B": "CogVLM-Chat-HF",
    "Claude-3-OPUS": "Claude-3-Opus",
    "Idefics2-8B": "Idefics2",
    "MiniCPM-V-3B": "MiniCPM-V",
    "Qwen-VL-Chat-10B": "Qwen-VL-Chat",
    "Tiny-LLaVA-v1-HF-3B": "Tiny-LLaVA",
    "UFORM-Gen2-Qwen-500M": "UFORM-Gen2-Qwen",
}


def test_wildvisions_elo_bench_and_mmmu(tmp_path):
    with (PUBLISHED / "wildvision-table2.csv").open(encoding="utf-8") as file:
        rows = [("-".join(filter(None, (r["model"], r["size"]))), r["elo"], r["mmmu"]) for r in csv.DictReader(file)]
    with (tmp_path / "arena.csv").open("w", encoding="utf-8") as file:
        csv.writer(file).writerows([("model", "elo", "mmmu"), *rows])
    scores, near = read_scores(
        [tmp_path / "arena.csv", PUBLISHED / "wildvision-table4.csv"], RENAMES, ("elo", "score", "mmmu")
    )
    assert near == []
    found = {(row.a, row.b): (round(row.spearman, 3), row.models) for row in score_correlations(scores)}
    assert found == {("elo", "score"): (0.963, 21), ("elo", "mmmu"): (0.813, 19), ("score", "mmmu"): (0.866, 19)}
