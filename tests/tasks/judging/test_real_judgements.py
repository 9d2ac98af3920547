"""The published judgements of GPT-4o on WildVision-Bench, parsed and judged again without a call.

They lie in `judge-wildvision` of the data that `tests/places.py` names.
"""

import csv
import json

import pytest

from tasks.judging.files.judgement_files import parsed, read_judgements
from tasks.judging.protocols import AnswerPair, protocol
from tests.places import DATA, needs_data

FOLDER = DATA / "judge-wildvision"
BASELINE = "claude-3-sonnet-20240229"

pytestmark = needs_data


def lines(folder):
    return [
        json.loads(line)
        for file in sorted((FOLDER / folder).glob("*.jsonl"))
        for line in file.read_bytes().splitlines()
    ]


@pytest.fixture(scope="module")
def judgements():
    return read_judgements([FOLDER / "judgements"])


def test_every_label_is_the_one_that_the_notes_say_and_failures_are_no_ties(judgements):
    notes = csv.DictReader((FOLDER / "verdict-label-notes.csv").read_text().splitlines())
    expected = {
        (row["question_id"], row["model"]): row["label_parsed"] for row in notes if row["row_in_judgements"] == "yes"
    }
    rows = judgements.verdicts.select("question_id", "model", "label").rows()
    assert {(question, model): label or "" for question, model, label in rows} == expected
    assert (judgements.judge, judgements.baseline) == ("gpt-4o", BASELINE)
    counted = [row.model_dump() for row in parsed(judgements)]
    total = {name: sum(row[name] for row in counted) for name in counted[0] if name != "model"}
    assert total == {
        "judgements": 5478,
        "labels": 5384,
        "conflicting": 0,
        "error_marks": 70,
        "without_label": 18,
        "empty": 6,
        "stored_differs": 0,
        "stored_as_tie": 74,
    }


def test_the_published_prompts_are_built_again_to_the_letter():
    answers = {(row["question_id"], row["model"]): row for row in lines("answers")}
    wildvision, built = protocol("wildvision"), 0
    for row in lines("judgements"):
        sent = row["games"][0]["user_prompt"]
        if sent is None:
            continue
        baseline, own = (answers[row["question_id"], model] for model in (BASELINE, row["model"]))
        found = wildvision.prompt(AnswerPair({}, own["instruction"], baseline["output"], own["output"]))
        assert found.fenced_marks == 0
        assert found.messages[1].text == sent[0]["text"]
        built += 1
    assert built == 10 * 498
