"""Answers and judgements that were made elsewhere are read in the shapes in which they are published."""

import json

import pytest

from schemas.errors import BadInput
from tasks.judging.files.answer_files import read_answers
from tasks.judging.files.judgement_files import parsed, read_judgements
from tasks.judging.questions import BenchQuestion
from tasks.judging.steps import collect_answers
from tests.asked_bench import benched, evaluating
from tests.places import DATA, needs_data

QUESTIONS = [BenchQuestion("q00", "One?", ()), BenchQuestion("q01", "Two?", ())]
REAL = DATA / "judge-wildvision"
LINES = {
    "ours": {"question_id": "q00", "model": "m", "text": "Yes.", "state": "truncated", "version": "x", "tokens": 2},
    "wildvision": {"question_id": "q00", "instruction": "One?", "output": "Yes.", "model": "m", "token_len": 2},
    "arena-hard v0.1": {"question_id": "q00", "model_id": "m", "choices": [{"turns": [{"content": "Yes."}]}]},
    "arena-hard v2.0": {"uid": "q00", "model": "m", "messages": [{}, {"content": {"answer": "Yes."}}]},
    "lmms-eval": {"doc_id": 0, "doc": {"question_id": "q00"}, "resps": [["Yes."]], "filtered_resps": ["Yes."]},
}


def _file(folder, *rows):
    path = folder / "m" / "answers.jsonl"
    path.parent.mkdir(exist_ok=True)
    path.write_text("\n".join(row if isinstance(row, str) else json.dumps(row) for row in rows))
    return path.parent


@pytest.mark.parametrize("shape", LINES)
def test_every_published_shape_gives_the_same_answer(tmp_path, shape):
    (answer,) = read_answers(_file(tmp_path, LINES[shape]), QUESTIONS).answers
    assert (answer.question_id, answer.model, answer.text) == ("q00", "m", "Yes.")
    assert answer.state == LINES[shape].get("state", "complete")
    assert answer.tokens == (2 if shape in ("ours", "wildvision") else None)


def _written(folder, name, content):
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


PREDICTIONS = [{"index": "q00", "prediction": "Yes."}, {"index": "q01", "prediction": float("nan")}]
TABLE = (
    '"index"\t"question"\t"prediction"\n"q00"\t"One?"\t"Yes,\n""sure""."\n'
    '"q01"\t"Two?"\t"Failed to obtain answer via API."\n'
)


def test_vlmevalkits_predictions_are_read_once_and_its_other_files_are_passed_over(tmp_path):
    table = _written(tmp_path, "m/T20260101-101010/m_bench.tsv", TABLE)
    (tmp_path / "m" / "m_bench.tsv").symlink_to(table)
    _written(tmp_path, "m/T20260101-101010/status.json", {"m": "done"})
    _written(tmp_path, "m/T20260101-101010/m_bench_acc.tsv", "split\tscore\nall\t1\n")
    _written(tmp_path, "other/other_bench.json", json.dumps(PREDICTIONS))
    read = read_answers(tmp_path, QUESTIONS)
    assert [(each.model, each.question_id, each.text) for each in read.answers] == [
        ("m", "q00", 'Yes,\n"sure".'),
        ("other", "q00", "Yes."),
    ]
    assert read.failed == {"m": 1, "other": 1}


def _sample(name, content, stop_reason="stop", **more):
    choice = {"message": {"role": "assistant", "content": content}, "stop_reason": stop_reason}
    return {"id": name, "epoch": 1, "output": {"model": "m", "choices": [choice], "usage": {"output_tokens": 7}}} | more


def test_logs_of_inspect_ai_keep_the_state_and_a_failed_sample_is_no_answer(tmp_path):
    parts = [{"type": "reasoning", "reasoning": "Hm."}, {"type": "text", "text": "Yes."}]
    samples = [_sample("q00", parts, "max_tokens"), _sample("q01", "", error={"message": "timed out"})]
    log = _written(tmp_path, "log.json", {"version": 2, "eval": {"model": "openai/m"}, "samples": samples})
    read = read_answers(log, QUESTIONS)
    (answer,) = read.answers
    assert (answer.model, answer.text, answer.state, answer.tokens) == ("openai/m", "Yes.", "truncated", 7)
    assert read.failed == {"openai/m": 1}


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("log.eval", "PK", "log.eval: a packed log of inspect_ai; unpack it with `inspect log convert --to json`"),
        ("m/m_bench.xlsx", "PK", "no reader of .xlsx is installed|cannot be read as a table"),
        ("x/m_bench.json", PREDICTIONS, "put it into a folder with the model's name"),
        ("m/m_bench.json", [{"prediction": "Yes."}], "m_bench.json:row 1: no question_id or index"),
        ("log.json", {"eval": {}, "samples": [{}]}, "log.json:sample 1: no known shape"),
        ("log.json", "{", "log.json: not JSON"),
        ("log.json", {"a": 1}, "log.json' holds no answers"),
        ("t.tsv", "", "t.tsv' holds no answers"),
    ],
)
def test_a_runners_file_that_cannot_be_read_is_one_line(tmp_path, name, content, told):
    with pytest.raises(BadInput, match=told) as stopped:
        read_answers(_written(tmp_path, name, content), QUESTIONS)
    assert "\n" not in str(stopped.value)


def test_marks_of_failed_calls_are_no_answers_and_are_counted(tmp_path):
    rows = [LINES["wildvision"] | {"output": "$ERROR$"}, LINES["wildvision"] | {"question_id": "q01", "output": None}]
    read = read_answers(_file(tmp_path, *rows), QUESTIONS)
    assert read.answers == []
    assert read.failed == {"m": 2}


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([LINES["wildvision"] | {"question_id": "q7"}], "answers.jsonl:1: 'q7' is no question of this benchmark"),
        ([LINES["wildvision"], "", LINES["arena-hard v2.0"]], "answers.jsonl:3: a second answer of 'm' to 'q00'"),
        (['{"question_id": "q00"'], "answers.jsonl:1: not a JSON object"),
        ([{"question_id": "q00", "model": "m"}], "answers.jsonl:1: no known shape"),
        ([LINES["wildvision"] | {"output": ["Yes."]}], "answers.jsonl:1: model, question and answer must be texts"),
    ],
)
def test_a_line_that_cannot_be_used_is_named_and_nothing_is_stored(tmp_path, rows, message):
    store = benched(tmp_path)
    with pytest.raises(BadInput, match=message):
        collect_answers.fn(evaluating(store, models=str(_file(tmp_path, *rows))))
    assert store.read("answers").is_empty()


def test_the_same_files_are_taken_in_once_and_other_content_is_another_version(tmp_path):
    store = benched(tmp_path)
    for rows in ([LINES["wildvision"]], [LINES["wildvision"]], [LINES["wildvision"] | {"output": "No."}]):
        collect_answers.fn(evaluating(store, models=str(_file(tmp_path, *rows))))
    answers = store.read("answers")
    assert answers["text"].sort().to_list() == ["No.", "Yes."]
    assert answers["version"].n_unique() == 2


@needs_data
def test_wildvision_benchs_own_files_are_read():
    rows = [json.loads(line) for line in (REAL / "questions.jsonl").read_text().splitlines()]
    read = read_answers(REAL / "answers", [BenchQuestion(row["question_id"], row["instruction"], ()) for row in rows])
    assert len(read.answers) + read.failed.total() == 11 * 498
    failed = {"claude-3-sonnet-20240229": 16, "claude-3-opus-20240229": 16, "gemini-pro-vision": 10}
    assert read.failed == failed | {"gpt-4-vision-preview": 7}
    empty = [answer.model for answer in read.answers if answer.state == "empty"]
    assert sorted(set(empty)) == ["deepseek-ai/deepseek-vl-7b-chat", "gemini-pro-vision"]
    assert len(empty) == 10


SAME = [{"type": "text", "text": "".join(f"<|The Start of Assistant {s}'s Answer|>\nx\n<|The End of" for s in "AB")}]


def line(question="q1", model="m", *games, **more):
    return {"question_id": question, "model": model, "judge": "j", "games": list(games)} | more


def game(text, score=None, key="judgment"):
    return {key: text, "score": score}


def write(folder, *rows, name="m.jsonl"):
    (folder / name).write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder / name


def test_arena_hard_lines_have_two_games_and_the_model_is_first_in_the_second(tmp_path):
    second = {"answer": "so [A>>B]"}
    row = line("q1", "m", game("[[A>B]]", "A>B"), game(second, "A>>B"), uid="q1", baseline="base", category="hard")
    del row["question_id"]
    found = read_judgements([write(tmp_path, row)])
    assert found.baseline == "base"
    shown = found.verdicts.select("question_id", "model_a", "model_b", "label", "category:hard").rows()
    assert shown == [("q1", "base", "m", "A>B", True), ("q1", "m", "base", "A>>B", True)]


def test_the_text_decides_and_not_the_stored_score(tmp_path):
    rows = [
        line("q1", "m", game("[[A>B]]", "A=B")),
        line("q2", "m", game("$ERROR$\n$ERROR$", "A=B", "judgement")),
        line("q3", "m", game("[[A>B]] [[B>A]]", None)),
        line("q4", "m", game("on and on", "A=B")),
        line("q5", "m", game("", "")),
        line("q6", "m", None),
        line("q7", "m", {"score": "B<A"}),
    ]
    found = read_judgements([write(tmp_path, *rows)], "base")
    assert found.verdicts["label"].to_list() == ["A>B", *[None] * 5, "A>B"]
    (counted,) = parsed(found)
    assert counted.model_dump(exclude={"model"}) == {
        "judgements": 7,
        "labels": 2,
        "conflicting": 1,
        "error_marks": 1,
        "without_label": 1,
        "empty": 2,
        "stored_differs": 1,
        "stored_as_tie": 2,
    }


def test_the_baseline_is_found_in_the_folder_or_as_the_model_compared_with_itself(tmp_path):
    folder = tmp_path / "judge_j_reference_base"
    folder.mkdir()
    write(folder, line("q1", "m", game("[[A>B]]")))
    assert read_judgements([folder]).baseline == "base"
    own = line("q1", "me", game("[[A=B]]") | {"user_prompt": SAME})
    other = line("q1", "m", game("[[A=B]]") | {"user_prompt": None})
    assert read_judgements([write(tmp_path, own, other)]).baseline == "me"


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        ([{"question_id": "q1", "model": "m"}], ":1 has no list of games"),
        ([line(None, "m", game("[[A>B]]"))], ":1 has no question_id"),
        ([line("q1", "", game("[[A>B]]"))], ":1 has no model"),
        ([line("q1", "m")], ":1 has 0 games"),
        ([line("q1", "m", {"score": "C"})], "unknown label 'C'. Known: A=B, A>>B, A>B, B>>A, B>A"),
        ([line("q1", "m", game("[[A>B]]")), line("q2", "m", game(""), judge="k")], r"2 judges \(j, k\)"),
        ([line("q1", "m", game(""), baseline="other")], "base.*, but the files were compared with other"),
        (["x"], ":1: not a JSON object"),
        ([], "no judgement"),
    ],
)
def test_bad_files_are_one_clear_line(tmp_path, rows, told):
    with pytest.raises(BadInput, match=told):
        read_judgements([write(tmp_path, *rows)], "base")
