"""Figures of agreement and correlation, known ones and computed anew; text metrics against people; the commands."""

import csv
import json

import evalica
import numpy as np
import polars as pl
import pytest
from sklearn.metrics import cohen_kappa_score, f1_score

from schemas.benches.agreement import Form
from schemas.errors import CurateError
from tasks.judging.agreement.agree import label_agreement, rater_agreement
from tasks.judging.agreement.correlation import read_scores, score_correlations
from tasks.judging.agreement.label_files import labels_of, read_labels
from tasks.judging.agreement.metrics import Cider, text_metrics
from tasks.judging.agreement.reproduced import board_agreement, judged, read_comparisons, reproduced, scored
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
    "Bunny-V1-3B": "Bunny-3B", "CogVLM-Chat-HF-13B": "CogVLM-Chat-HF", "Claude-3-OPUS": "Claude-3-Opus",
    "Idefics2-8B": "Idefics2", "MiniCPM-V-3B": "MiniCPM-V", "Qwen-VL-Chat-10B": "Qwen-VL-Chat",
    "Tiny-LLaVA-v1-HF-3B": "Tiny-LLaVA", "UFORM-Gen2-Qwen-500M": "UFORM-Gen2-Qwen",
}  # fmt: skip


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


@pytest.fixture
def write(tmp_path):
    def write(name, *lines):
        (tmp_path / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
        return tmp_path / name

    return write


def test_several_judges_stand_side_by_side_and_one_file_gives_the_agreement_of_its_raters(curate, write):
    people = write("people.csv", "item,label", "1,left", "2,right", "3,tie", "4,both bad")
    one = write(
        "one.jsonl", *(json.dumps({"item": n, "label": label}) for n, label in ((1, "left"), (2, "left"), (3, "tie")))
    )
    battles = write("two.csv", "question_id,winner,judge", "1,model_a,x", "2,model_b,y", "4,tie (bothbad),x", "9,tie,z")
    code, out, err = curate("judge", "agree", people, one, battles)
    assert code == 0, err
    shown = [" ".join(line.split()[:4]) for line in out.splitlines()[1:4]]
    assert shown == ["people one three 3", "people one binary 2", "people two four 3"]
    assert "1 items only in two" in err
    code, out, _ = curate("judge", "agree", people, battles, "--json")
    (row,) = map(json.loads, out.splitlines())
    keys = {"items", "confusion", "accuracy", "f1_macro", "f1_micro", "f1_weighted", "kappa", "alpha", "pearson"}
    assert keys <= row.keys()
    assert (row["items"], row["accuracy"], row["form"]) == (3, 1, "four")
    assert [form["form"] for form in row["forms"]] == ["three", "binary"]
    file = write("all.csv", "item,rater,label", "1,ann,left", "1,bob,left", "2,ann,left", "2,bob,tie", "3,ann,right")
    code, out, _ = curate("judge", "agree", file, "--json")
    row = json.loads(out)
    assert (code, row["items"], row["raters"], row["pairs"], row["agreeing"]) == (0, 2, 2, 2, 1)


def test_bad_label_files_are_one_line(refused, write):
    good = write("good.csv", "item,label", "1,left", "2,right")
    for name, lines, told in (
        ("other", ("item,label", "x,left"), "label no item in common (one has '1', '2' …, the other 'x' …)"),
        ("twice", ("item,rater,label", "1,ann,left", "1,ann,right"), "rater 'ann' labels item '1' twice"),
        ("double", ("item,label", "1,left", "1,right"), "item '1' has two labels"),
        (
            "typo",
            ("item,label", "1,lefft", "2,right"),
            "unknown vote 'lefft'. Known: both bad, left, right, tie. Did you mean left?",
        ),
        ("bare", ("id,score", "1,2"), "lacks a column label; its columns are id"),
        ("empty", ("item,label", "1,", "2,NA"), "holds no label"),
        ("none", ("item,label",), "holds no label"),
    ):
        assert told in refused("judge", "agree", good, write(f"{name}.csv", *lines))
    assert "one label an item" in refused("judge", "agree", good)
    assert "given twice" in refused("judge", "agree", good, good)
    assert "does not exist" in refused("judge", "agree", good, "none.csv")
    assert "unknown kind of table" in refused("judge", "agree", good, write("x.txt", "item"))


def test_correlations_are_over_the_models_that_both_columns_have(curate, write, tmp_path):
    arena = write("arena.csv", "model,size,elo,mmlu", "a,7B,1100,", "b,,1000,50", "c,,900,40", "gpt-4,,800,45")
    bench = write(
        "bench.csv",
        "slice,model,score,ci95_low,rank",
        "overall,A,70,1,1",
        "overall,b,60,1,1",
        "overall,c,65,1,2",
        "overall,GPT4,1,1,4",
        "x,a,1,1,1",
    )
    renames = write("renames.yaml", "A: a")
    code, out, err = curate("correlate", arena, bench, "--renames", renames, "--json", "--svg", tmp_path / "map.svg")
    assert code == 0
    assert "names that only one table has look alike: 'GPT4' and 'gpt-4'" in err
    rows = {(row["a"], row["b"]): row for row in map(json.loads, out.splitlines())}
    assert {pair: row["models"] for pair, row in rows.items()} == {
        ("elo", "mmlu"): 3,
        ("elo", "score"): 3,
        ("mmlu", "score"): 2,
    }
    assert rows["elo", "score"]["spearman"] == pytest.approx(0.5)
    assert (rows["mmlu", "score"]["kendall"], rows["mmlu", "score"]["pearson"]) == pytest.approx((-1, -1))
    svg = (tmp_path / "map.svg").read_text(encoding="utf-8")
    assert svg.startswith("<svg") and ">elo<" in svg and ">50<" in svg


def test_two_tables_with_one_column_name_are_told_apart_and_names_are_escaped(curate, write, tmp_path):
    one = write("one.csv", "model,score,<b>&x", "a,1,1", "b,2,2")
    two = write("two.csv", "model,score", "a,2", "b,1")
    code, out, _ = curate("correlate", one, two, "--json", "--svg", tmp_path / "map.svg")
    assert code == 0
    assert json.loads(out.splitlines()[1])["b"] == "two:score"
    assert "<b>" not in (tmp_path / "map.svg").read_text(encoding="utf-8")


def test_bad_score_tables_are_one_line(refused, write):
    good = write("good.csv", "model,score", "GPT-4o,1", "Claude-3-Opus,2")
    for name, lines, told in (
        (
            "far",
            ("model,mmlu", "gpt-4o,1", "claude3opus,2"),
            "near names: 'claude3opus' and 'Claude-3-Opus', 'gpt-4o' and 'GPT-4o'; --re",
        ),
        ("apart", ("model,mmlu", "x,1"), "no names are near (here 'x' …, elsewhere 'Claude-3-Opus', 'GPT-4o' …)"),
        ("twice", ("model,mmlu", "GPT-4o,1", "GPT-4o,2"), "has model 'GPT-4o' twice"),
        ("text", ("model,mmlu", "GPT-4o,1", "b,2", "c,soon"), "column 'mmlu': 'soon' is no number (model 'c')"),
        ("bare", ("name_of,mmlu", "GPT-4o,1"), "lacks a column model"),
        ("words", ("model,mmlu", "GPT-4o,x"), "no column of numbers"),
        ("gap", ("model,mmlu", ",3"), "a row without a model"),
    ):
        assert told in refused("correlate", write(f"{name}.csv", *lines), good), name
    assert "needs two" in refused("correlate", good)
    assert "--column 'x'. Known: score." in refused("correlate", good, "--column", "x")
    assert "ends in .svg" in refused("correlate", write("w.csv", "model,a,b", "x,1,2"), "--svg", "a.png")


REFERENCES = ["a red bus on a wet road", "two cats sleep on the old sofa"]


class Letters:
    """An encoder that counts letters; it remembers what it was asked."""

    version = "letters"

    def __init__(self):
        self.asked = []

    def embed_texts(self, texts):
        self.asked += texts
        counts = np.array([[text.count(letter) for letter in "abcdefghijklmnopqrstuvwxyz"] for text in texts], float)
        return (counts / np.linalg.norm(counts, axis=1, keepdims=True)).astype(np.float32)


def test_known_values_of_each_metric():
    known = text_metrics(REFERENCES, Letters(), 0)
    same, other = REFERENCES[0], "nothing like it"
    score = {name.split("_letters")[0]: metric.score for name, metric in known.items()}
    assert [round(score[name](same, same), 2) for name in ("bleu_4", "rouge_l", "cider_d")] == [100, 1, 10]
    assert score["meteor_exact_stem"](same, same) == pytest.approx(1, abs=0.01)
    assert score["bertscore_words"](same, same) == pytest.approx(1)
    assert score["meteor_exact_stem"]("two cats sleep", "two cat slept") > 0.5  # by the stem
    assert all(score[n](same, other) < score[n](same, same) / 2 for n in ("bleu_4", "rouge_l", "cider_d"))
    assert score["length"]("", other) == 3
    assert score["rouge_l"](same, "a red bus") == pytest.approx(2 * 1 * (3 / 7) / (1 + 3 / 7))
    assert all(metric.score(same, "") == 0 for name, metric in known.items() if metric.needs_reference)


def test_cider_weighs_rare_words_and_lengths_as_its_paper():
    cider = Cider(REFERENCES)  # "on" and "a"... in both references weigh nothing
    assert cider.score(REFERENCES[0], "on") == 0
    full = cider.score(REFERENCES[0], REFERENCES[0])
    longer = cider.score(REFERENCES[0], f"{REFERENCES[0]} {' '.join(['on'] * 6)}")
    assert 0 < longer < full * np.exp(-36 / 72) + 1e-9


@pytest.fixture
def votes(tmp_path):
    """Five votes on three comparisons, with answers and a reference."""
    rows = [
        (item, *(("x", "y") if rater % 2 else ("y", "x")), winner, rater)
        for item, wins in (("i", 5), ("j", 4), ("k", 3))
        for rater in range(5)
        for winner in ["model_a" if (rater < wins) == bool(rater % 2) else "model_b"]
    ]
    file = tmp_path / "votes.csv"
    with file.open("w", newline="") as out:
        csv.writer(out).writerows([("item", "model_a", "model_b", "winner", "rater"), *rows])
    return file


ANSWERS = {(item, model): text for item in "ijk" for model, text in (("x", "a red bus"), ("y", "two"))}


def test_bins_shares_and_ties_as_half_and_a_text_is_scored_once(votes):
    rows = read_comparisons(votes, 5).rows
    assert rows.select("item", "a_wins", "bin").rows() == [("i", True, "5/5"), ("j", True, "4/5"), ("k", True, "3/5")]
    letters = Letters()
    known = text_metrics(REFERENCES, letters, 0)
    references = dict.fromkeys("ijk", REFERENCES[0])
    said = {name: scored(metric, rows, ANSWERS, references) for name, metric in known.items()}
    assert len(letters.asked) == len({*letters.asked}) == 7  # the words of one reference and two answers
    shares = {row.bin: row.reproduced for row in reproduced("rouge_l", said["rouge_l"], rows, 50, 0)}
    assert shares == {"5/5": 1, "4/5": 1, "3/5": 1, "all": 1}
    winners = {("i", "x", "y"): "tie", ("j", "x", "y"): "model_b"}
    (five, four, *_, every) = reproduced("judge", judged(winners, rows), rows, 50, 0)
    assert (five.reproduced, five.ties, four.reproduced) == (0.5, 1, 0)
    assert (every.bin, every.comparisons, every.missing, every.reproduced) == ("all", 2, 1, 0.25)
    board = board_agreement("judge", judged(winners, rows), rows)
    assert (board.models, board.comparisons, round(board.spearman)) == (2, 2, -1)


def test_a_rater_who_votes_twice_and_too_few_votes_end_with_one_line(votes):
    with pytest.raises(CurateError, match="none of its 3 comparisons has 7 votes"):
        read_comparisons(votes, 7)
    votes.write_text(votes.read_text() + "i,y,x,model_a,0\n")
    with pytest.raises(CurateError, match="rater '0' votes twice on 'x' and 'y' at item 'i'"):
        read_comparisons(votes, 5)


def test_the_command_prints_shares_and_boards_and_says_what_it_could_not_score(votes, tmp_path, curate):
    answers = tmp_path / "answers.jsonl"
    lines = [{"question_id": item, "model": model, "output": text} for (item, model), text in ANSWERS.items()]
    answers.write_text("\n".join(map(json.dumps, lines)))
    code, out, err = curate("judge", "metrics", votes, "--answers", answers, "--json")
    rows = [json.loads(line) for line in out.splitlines()]
    assert code == 0 and "without a reference" in err
    lengths = {row["bin"]: row["reproduced"] for row in rows if row["metric"] == "length" and "bin" in row}
    assert lengths == {"5/5": 1, "4/5": 1, "3/5": 1, "all": 1}
    assert {"random", "length"} == {row["metric"] for row in rows}


def test_on_llmfao_people_who_agree_prefer_the_shorter_answer():
    rows = read_comparisons(PUBLISHED / "llmfao-votes.csv", 5).rows.filter(bin="5/5")
    lengths = pl.read_csv(PUBLISHED / "llmfao-answer-lengths.csv").select("prompt", "name", "words")
    answers = {(str(prompt), name): "word " * words for prompt, name, words in lengths.iter_rows()}
    length = text_metrics([], Letters(), 0)["length"]
    (five, _) = reproduced("length", scored(length, rows, answers, {}), rows, 200, 0)
    assert (five.comparisons, round(five.reproduced, 3)) == (117, 0.197)
    assert five.ci95_low < 0.197 < five.ci95_high
