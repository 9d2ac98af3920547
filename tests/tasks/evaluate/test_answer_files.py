"""Answers that were made elsewhere, in the shapes in which they are published."""

import json
from pathlib import Path

import pytest

from schemas.errors import BadInput
from tasks.evaluate.answer_files import read_answers
from tasks.evaluate.questions import Question
from tasks.evaluate.steps import collect_answers
from tests.asked_bench import benched, evaluating

QUESTIONS = [Question("q00", "One?", ()), Question("q01", "Two?", ())]
REAL = Path(__file__).parents[4] / "shared" / "data" / "judge-wildvision"
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


@pytest.mark.skipif(not REAL.is_dir(), reason="real data is not on this machine")
def test_wildvision_benchs_own_files_are_read():
    rows = [json.loads(line) for line in (REAL / "questions.jsonl").read_text().splitlines()]
    read = read_answers(REAL / "answers", [Question(row["question_id"], row["instruction"], ()) for row in rows])
    assert len(read.answers) + read.failed.total() == 11 * 498
    failed = {"claude-3-sonnet-20240229": 16, "claude-3-opus-20240229": 16, "gemini-pro-vision": 10}
    assert read.failed == failed | {"gpt-4-vision-preview": 7}
    empty = [answer.model for answer in read.answers if answer.state == "empty"]
    assert sorted(set(empty)) == ["deepseek-ai/deepseek-vl-7b-chat", "gemini-pro-vision"]
    assert len(empty) == 10
