"""`curate judge board`: boards, what they rest on, and one clear line for what cannot be."""

import json
import re
from functools import partial

import polars as pl
import pytest

from schemas.benches.judging import STAND_IN, Answer, BoardMethod
from schemas.rating import StylePreset
from tasks.judging.boards.judge_board import judge_boards, style_controlled, style_of_answers
from tasks.judging.questions import bench_of_store
from tasks.signals.rules.texts import markdown
from tests.asked_bench import PUBLIC, benched
from tests.builders import store_with, verdict

COLUMNS = {
    "model", "score", "win_rate", "reward", "much_better", "better", "tie", "worse", "much_worse", "no_verdict",
    "mean_tokens", "rating", "ci95_low", "ci95_high", "rank", "coverage",
}  # fmt: skip


@pytest.fixture
def curate(curate):
    """Run `curate judge board`: (exit status, stdout, stderr)."""
    return partial(curate, "judge", "board")


@pytest.fixture
def files(tmp_path):
    """Judgements of two models, in both orders, with one failure."""
    texts = {"good": ["[[B>A]]", "[[B>>A]]", "$ERROR$"], "bad": ["[[A>B]]", "[[A=B]]", "[[A>B]]"]}
    for model, own in texts.items():
        rows = [
            {"question_id": f"q{n}", "model": model, "judge": "gpt-4o", "games": [{"judgment": t, "score": "A=B"}]}
            for n, t in enumerate(own)
        ]
        (tmp_path / f"{model}.jsonl").write_text("\n".join(map(json.dumps, rows)))
    answers = [
        {"question_id": f"q{n}", "model": m, "token_len": 10 * n} for n in range(3) for m in ("base", "good", "bad")
    ]
    (tmp_path / "answers").mkdir()
    (tmp_path / "answers" / "all.jsonl").write_text("\n".join(map(json.dumps, answers)))
    return tmp_path


def rows(out):
    return [json.loads(line) for line in out.splitlines()]


def test_a_board_of_files_has_the_stable_columns_and_says_what_it_rests_on(curate, files):
    status, out, err = curate(
        files / "good.jsonl", files / "bad.jsonl", "--baseline", "base", "--answers", files / "answers", "--json"
    )
    found = {row["model"]: row for row in rows(out)}
    assert status == 0
    assert found["good"].keys() >= COLUMNS
    assert (found["good"]["score"], found["base"]["score"], found["good"]["mean_tokens"]) == (100, 50, 10)
    assert found["bad"]["score"] == pytest.approx(100 / 6)
    assert found["good"]["flags"] == ["low_coverage", "only_wins", "few_votes"]
    assert "judgements 6, labels 5, conflicting 0, error marks 1" in err
    assert "stored as tie 1" in err
    assert curate(files / "good.jsonl", "--baseline", "base")[1].split()[:3] == ["rank", "model", "score"]


SPACED = {"[[B>A]]": "[[B > A]]", "[[B>>A]]": "[[B » A]]", "[[A>B]]": "[[A &gt; B]]", "[[A=B]]": "[[ A = B ]]"}


def test_judgements_without_labels_are_one_clear_line_and_no_empty_board(curate, files):
    file = files / "bad.jsonl"
    file.write_text(file.read_text().replace("[[A>B]]", "I choose [[first]]."))
    asked = [files / "good.jsonl", file, "--baseline", "base"]
    assert curate(*asked) == (
        2,
        "",
        "curate: judgements of 'bad': 1 of 3 have a label ([[A>>B]], [[A>B]], [[A=B]], [[B>A]], [[B>>A]]); one "
        "without has '[[first]]'. Leave that file out, or count what all hold with --table parsed\n",
    )
    assert curate(*asked, "--table", "parsed")[0] == 0


def test_answers_whose_files_state_no_length_are_counted(curate, files):
    lines = [json.dumps({"question_id": f"q{n}", "model": "base", "text": "A red bus."}) for n in range(3)]
    (files / "answers" / "all.jsonl").write_text("\n".join(lines))
    asked = [files / "good.jsonl", "--baseline", "base", "--answers", files / "answers", "--json"]
    assert {row["model"]: row["mean_tokens"] for row in rows(curate(*asked)[1])} == {"base": 4, "good": None}


def test_labels_as_printed_give_the_same_board_and_the_policy_for_no_verdict_can_be_chosen(curate, files):
    asked = [files / "good.jsonl", "--baseline", "base", "--json", "--no-verdict", "tie", "--strong-weight", "1"]
    good = rows(curate(*asked)[1])[0]
    assert (good["score"], good["tie"], good["no_verdict"]) == (pytest.approx(250 / 3), 1, 1)
    asked = [files / "good.jsonl", files / "bad.jsonl", "--baseline", "base", "--json"]
    before = curate(*asked)
    for file in asked[:2]:
        file.write_text(re.sub(r"\[\[[^]]*\]\]", lambda mark: SPACED[mark[0]], file.read_text()))
    assert curate(*asked) == before


def test_boards_are_compared_with_another_with_renamed_models(curate, files):
    board = "model,score,ci_lower_offset,ci_upper_offset\nGood,80,-5,5\nbase,50,0,0\nbad,20,-5,5\n"
    (files / "other.csv").write_text(board)
    (files / "names.yaml").write_text("good: Good\n")
    asked = ["--agreement", files / "other.csv", "--renames", files / "names.yaml", "--json"]
    _, out, err = curate(files / "good.jsonl", files / "bad.jsonl", "--baseline", "base", *asked)
    (found,) = rows(out)
    assert err == ""
    assert (found["models"], found["spearman"], found["kendall"], found["separability_reference"]) == (3, 1, 1, 1)
    (same,) = rows(curate(files / "other.csv", "--agreement", files / "other.csv", "--json")[1])
    assert (same["models"], same["pearson"]) == (3, pytest.approx(1))
    without = curate(files / "good.jsonl", files / "bad.jsonl", "--baseline", "base", *asked[:2])
    assert f"only here: good; only in {str(files / 'other.csv')!r}: Good; --renames FILE" in without[2]


def test_a_store_gives_a_board_and_the_bias_of_its_judge(curate, tmp_path):
    both = [verdict(), verdict(model_a="m", model_b="base", label="A>B"), verdict(question_id="q2", label="A>B")]
    store = store_with(tmp_path, verdicts=both).root
    found = {row["model"]: row for row in rows(curate("--store", store, "--json")[1])}
    assert (found["m"]["better"], found["m"]["worse"], found["m"]["score"]) == (2, 1, pytest.approx(200 / 3))
    (bias,) = rows(curate("--store", store, "--table", "bias", "--json")[1])
    assert (bias["judge"], bias["both_orders"], bias["flipped"]) == ("judge", 1, 0)


def test_a_prompt_of_the_draw_that_nobody_answered_lowers_the_coverage(curate, tmp_path):
    store = benched(tmp_path)
    draw = bench_of_store(store, hidden=False).draw
    for name, coverage in ((draw, 0.5), ("1.0.0", 1)):
        judged = [verdict(question_id=f"q{n:02d}", draw=name) for n in range(PUBLIC // 2)]
        store.replace("verdicts", pl.DataFrame([row.model_dump() for row in judged], store.empty("verdicts").schema))
        found = {row["model"]: row for row in rows(curate("--store", store.root, "--json")[1])}
        assert found["m"]["coverage"] == coverage
        assert ("low_coverage" in found["m"]["flags"]) == (coverage < 1)


def test_a_board_by_the_embedded_judge_says_that_it_is_a_stand_in(curate, tmp_path):
    store = store_with(tmp_path, verdicts=[verdict(judge=STAND_IN)]).root
    status, out, err = curate("--store", store, "--json")
    assert (status, {row["judge"] for row in rows(out)}) == (0, {"embedded stand-in"})
    assert "curate: the judge is the embedded stand-in: " in err
    assert "stand-in" not in curate("--store", store_with(tmp_path / "other", verdicts=[verdict()]).root)[2]


def _long_wins(number):
    """Answers to a question, the longer one with a list, and the verdict for it; every fifth is for the shorter."""
    long, short = f"Well, {'and so on, ' * 9}{number}.\n- One\n- Two", f"{number}."
    said = {"m": long, "base": short} if number % 2 else {"m": short, "base": long}
    return said, "B>A" if (number % 2 == 1) != (number % 5 == 0) else "A>B"


def test_style_control_gives_files_and_a_store_one_board_on_which_length_does_not_win(curate, tmp_path):
    drawn = {f"q{n}": _long_wins(n) for n in range(30) if n % 3}  # the longer one is m's in half of them
    drawn |= {f"r{n}": _long_wins(2 * n + 1) for n in range(10)}  # and always here
    answers = [
        Answer(question_id=q, model=m, text=text, state="complete", version="1", tokens=None)
        for q, (said, _) in drawn.items()
        for m, text in said.items()
    ]
    store = store_with(
        tmp_path / "s", verdicts=[verdict(question_id=q, label=v) for q, (_, v) in drawn.items()], answers=answers
    )
    games = [
        {"question_id": q, "model": "m", "judge": "j", "games": [{"judgment": f"[[{v}]]"}]}
        for q, (_, v) in drawn.items()
    ]
    (tmp_path / "games.jsonl").write_text("\n".join(map(json.dumps, games)))
    told = [{"question_id": a.question_id, "model": a.model, "output": a.text, "token_len": 1} for a in answers]
    (tmp_path / "answers.jsonl").write_text("\n".join(map(json.dumps, told)))
    of_files = (tmp_path / "games.jsonl", "--baseline", "base", "--answers", tmp_path / "answers.jsonl", "--json")
    found = {}
    for table in ("board", "style_control", "style_coefficients"):
        of_store = rows(curate("--store", store.root, "--json", "--table", table)[1])
        status, out, err = curate(*of_files, "--table", table)
        assert status == 0, err
        for row, other in zip(rows(out), of_store, strict=True):
            told = {name: value for name, value in other.items() if name not in ("mean_tokens", "judge", "flags")}
            assert {name: row[name] for name in told} == pytest.approx(told)
        found[table] = of_store
    plain, controlled = ({row["model"]: row for row in found[table]} for table in ("board", "style_control"))
    assert plain["m"]["score"] > 55 > controlled["m"]["score"]
    assert controlled["m"]["score_ci95_low"] < controlled["m"]["score"] < controlled["m"]["score_ci95_high"]
    assert (controlled["base"]["score"], controlled["m"]["better"]) == (50, plain["m"]["better"])
    assert {row["covariate"] for row in found["style_coefficients"]} == {"tokens", "headers", "list_items", "bold"}


def test_style_control_of_a_slice_is_fitted_on_its_own_verdicts():
    drawn = [_long_wins(n) for n in range(60) if n % 3]
    verdicts = pl.DataFrame(
        [{"question_id": f"q{n}", "model_a": "base", "model_b": "m", "label": v} for n, (_, v) in enumerate(drawn)]
    ).with_columns(pl.Series("topic:maps", [n % 2 == 0 for n in range(len(drawn))]))
    texts = [(model, f"q{n}", text) for n, (said, _) in enumerate(drawn) for model, text in said.items()]
    style = style_of_answers(texts, lambda some: [len(text) for text in some], markdown)
    method = BoardMethod(baseline="base")

    def controlled(of, *slices):
        plain = judge_boards(of, method, "j", {}, slices)
        return style_controlled(plain, of, style, method, StylePreset.FASTCHAT)

    board, effects, left_out = controlled(verdicts, "overall", "topic:maps")
    alone, own, _ = controlled(verdicts.filter("topic:maps"))
    of_slice = [row for row in board if row.slice == "topic:maps"]
    same = {"slice": "", "flags": []}  # a slice of so few prompts says so
    assert [row.model_copy(update=same) for row in of_slice] == [row.model_copy(update=same) for row in alone]
    assert [row.coefficient for row in effects if row.slice == "topic:maps"] == [row.coefficient for row in own]
    assert {row.slice for row in board} == {"style_control", "topic:maps"} and left_out == 0


GOOD = "good.jsonl --baseline base"


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ("far.csv", "'far.csv' is a finished board; give it alone with --agreement BOARD"),
        ("good.jsonl far.csv --agreement far.csv", "'far.csv' is a finished board; give it alone"),
        (f"{GOOD} --table style_control", "style control needs the judged answers"),
        (f"{GOOD} --table style_control --resampled rows", "style control resamples whole prompts"),
        ("", "give either judgement files or --store DIR"),
        ("good.jsonl", "the files do not name the baseline; give it with --baseline MODEL"),
        ("good.jsonl --baseline bass --answers answers", "no answers of the baseline 'bass'. Known:"),
        (f"{GOOD} --table boards", "--table 'boards'. Known: bias, board, fragility, parsed"),
        (f"{GOOD} --strong-weight -1", "--strong-weight -1.0: give a number above 0"),
        (f"{GOOD} --slice topic:x", "no verdicts in slice 'topic:x'. Known: overall"),
        (f"{GOOD} --agreement far.csv", "share 1 models; agreement needs at least two (one has base, good …, the"),
        (f"{GOOD} --agreement far.csv --renames no.yaml", "cannot be read"),
        (f"{GOOD} --agreement far.csv --renames good.jsonl", "write one `our model"),
        (f"{GOOD} --renames no.yaml", "--renames needs --agreement"),
        (f"{GOOD} --agreement far.csv --slice all", "give one --slice, or none"),
        (f"{GOOD} --draw 1.0.0", "--draw chooses from the verdicts of a store"),
        ("gone.jsonl --baseline base", "'gone.jsonl' cannot be read"),
        (f"{GOOD} --answers few", "question 'q1' is judged, but 2 such questions"),
        (f"{GOOD} --answers twice", "model 'base' answers question 'q0' twice"),
    ],
)
def test_bad_input_is_one_clear_line(refused, files, monkeypatch, asked, told):
    (files / "far.csv").write_text("model,rating,ci95_low,ci95_high\nbase,1,0,2\nother,2,1,3\n")
    for name, count in (("few", 1), ("twice", 2)):
        (files / name).mkdir()
        (files / name / "a.jsonl").write_text('{"question_id": "q0", "model": "base", "token_len": 1}\n' * count)
    monkeypatch.chdir(files)
    assert told in refused(*asked.split())
