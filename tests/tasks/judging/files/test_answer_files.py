"""Answers that were made elsewhere, in the shapes in which they are published."""

import json

import pytest

from schemas.errors import BadInput
from tasks.judging.files.answer_files import read_answers
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
