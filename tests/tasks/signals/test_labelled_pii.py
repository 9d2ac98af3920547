"""On 1,500 labelled sentences, patterns find what has a form and nothing else.

The sentences are presidio-research's. Tests read them from the folder that CURATE_TEST_DATA names, or from
`shared/data` beside the repository, and are skipped where there is none.
"""

import json
import os
from collections import Counter
from pathlib import Path

import pytest

from tasks.providers.embedded.pii.patterns import find_patterns

BESIDE = Path(__file__).parents[4] / "shared" / "data"
FILE = Path(os.environ.get("CURATE_TEST_DATA", BESIDE)) / "text-pii" / "labelled.jsonl"
pytestmark = pytest.mark.skipif(not FILE.is_file(), reason="the labelled sentences are not on this machine")

RECALL_MIN = {
    "EMAIL_ADDRESS": 1.0,
    "US_SSN": 1.0,
    "IP_ADDRESS": 1.0,
    "CREDIT_CARD": 1.0,
    "IBAN_CODE": 1.0,
    "PHONE_NUMBER": 1.0,
}
"""Label -> share of its spans that some pattern touches. Measured, and not to be lost again."""


@pytest.fixture(scope="module")
def sentences():
    rows = [json.loads(line) for line in FILE.read_text(encoding="utf-8").splitlines()]
    return [(row["spans"], list(find_patterns(row["full_text"]))) for row in rows]


def touch(label, span):
    return span.start < label["end_position"] and label["start_position"] < span.end


def test_what_has_a_form_is_found(sentences):
    of_type, found = Counter(), Counter()
    for labels, spans in sentences:
        for label in labels:
            of_type[label["entity_type"]] += 1
            found[label["entity_type"]] += any(touch(label, span) for span in spans)
    assert {name: found[name] / of_type[name] >= least for name, least in RECALL_MIN.items()} == dict.fromkeys(
        RECALL_MIN, True
    )


def test_every_finding_is_labelled(sentences):
    assert [span for labels, spans in sentences for span in spans if not any(touch(x, span) for x in labels)] == []


def test_no_date_is_taken_for_a_number(sentences):
    dates = [(x, spans) for labels, spans in sentences for x in labels if x["entity_type"] == "DATE_TIME"]
    assert len(dates) > 100
    assert [span for label, spans in dates for span in spans if touch(label, span)] == []
