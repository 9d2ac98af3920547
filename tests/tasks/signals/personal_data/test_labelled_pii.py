"""On labelled sentences and public chats, what has a form is found, and few chats are dropped for nothing.

The sentences are presidio-research's, the chats those of `benchmarks.privacy_unseen`; `tests/places.py` names the data.
"""

import json
from collections import Counter

import pytest

from benchmarks.privacy_unseen import SENTENCES, chats, false_alarms, findings, labels
from tasks.providers import Providers
from tasks.providers.embedded.pii.patterns import find_patterns
from tasks.review.alarms import text_hash
from tests.places import DATA, needs_data

FILE = DATA / "text-pii" / "labelled.jsonl"
pytestmark = needs_data

RECALL_MIN = {
    "EMAIL_ADDRESS": 1.0, "US_SSN": 1.0, "IP_ADDRESS": 1.0, "CREDIT_CARD": 1.0, "IBAN_CODE": 1.0, "PHONE_NUMBER": 1.0,
}  # fmt: skip
"""Label -> share of its spans that some pattern touches. Measured, and not to be lost again."""


@pytest.fixture(scope="module")
def sentences():
    rows = [json.loads(line) for line in FILE.read_text(encoding="utf-8").splitlines()]
    return [(row["spans"], find_patterns([row["full_text"]])[0]) for row in rows]


def touch(label, span):
    return span.start < label["end_position"] and label["start_position"] < span.end


def test_what_has_a_form_is_found_every_finding_is_labelled_and_no_date_is_a_number(sentences):
    of_type, found = Counter(), Counter()
    for told, spans in sentences:
        for label in told:
            of_type[label["entity_type"]] += 1
            found[label["entity_type"]] += any(touch(label, span) for span in spans)
    assert {name: found[name] / of_type[name] >= least for name, least in RECALL_MIN.items()} == dict.fromkeys(
        RECALL_MIN, True
    )
    assert [span for told, spans in sentences for span in spans if not any(touch(x, span) for x in told)] == []
    dates = [(x, spans) for told, spans in sentences for x in told if x["entity_type"] == "DATE_TIME"]
    assert len(dates) > 100
    assert [span for label, spans in dates for span in spans if touch(label, span)] == []


FALSE_SHARE_MAX = 0.1


@pytest.fixture(scope="module")
def read():
    """Chats with a text in which a finding was read, of this version of the finder or an earlier one."""
    known = labels()
    return [chat for chat in chats(DATA) if any(text_hash(text) in known for text in chat.messages)]


def test_at_most_one_in_ten_dropped_chats_is_dropped_for_nothing(read):
    given = [chat for chat in read if chat.source != SENTENCES]
    name, false, dropped, _ = next(iter(false_alarms(given, Providers()["text_pii"], labels())))
    assert (name, dropped >= 30) == ("dropped, false alarms", True)
    assert false <= FALSE_SHARE_MAX * dropped


def test_every_text_with_somebodys_data_is_still_found(read):
    known = labels()
    personal = {name for name, told in known.items() if any(yes for *_, yes in told)}
    texts = sorted({text for chat in read for text in chat.messages if text_hash(text) in personal})
    found = findings(texts, Providers()["text_pii"], known)
    kept = [text for text in texts if not any(finding.personal for finding in found.get(text, ()))]
    assert len(texts) > 30 and kept == []
