"""`curate judge agree` and `curate correlate`: what they print, and one clear line for what cannot be."""

import json

import pytest


@pytest.fixture
def write(tmp_path):
    def write(name, *lines):
        (tmp_path / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
        return tmp_path / name

    return write


def refused(curate, *arguments):
    code, out, err = curate(*arguments)
    assert (code, out, err.count("\n")) == (2, "", 1), err
    assert err.startswith("curate: ")
    return err


def test_several_judges_stand_side_by_side_and_json_is_one_object_each(curate, write):
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


def test_one_file_gives_the_agreement_of_its_raters(curate, write):
    file = write("all.csv", "item,rater,label", "1,ann,left", "1,bob,left", "2,ann,left", "2,bob,tie", "3,ann,right")
    code, out, _ = curate("judge", "agree", file, "--json")
    row = json.loads(out)
    assert (code, row["items"], row["raters"], row["pairs"], row["agreeing"]) == (0, 2, 2, 2, 1)


def test_bad_label_files_are_one_line(curate, write):
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
        assert told in refused(curate, "judge", "agree", good, write(f"{name}.csv", *lines))
    assert "one label an item" in refused(curate, "judge", "agree", good)
    assert "given twice" in refused(curate, "judge", "agree", good, good)
    assert "does not exist" in refused(curate, "judge", "agree", good, "none.csv")
    assert "unknown kind of table" in refused(curate, "judge", "agree", good, write("x.txt", "item"))


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


def test_bad_score_tables_are_one_line(curate, write):
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
        assert told in refused(curate, "correlate", write(f"{name}.csv", *lines), good), name
    assert "needs two" in refused(curate, "correlate", good)
    assert "--column 'x'. Known: score." in refused(curate, "correlate", good, "--column", "x")
    assert "ends in .svg" in refused(curate, "correlate", write("w.csv", "model,a,b", "x,1,2"), "--svg", "a.png")
