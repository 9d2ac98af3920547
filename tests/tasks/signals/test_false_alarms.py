"""Of public chats in which a finding was read, few are dropped for nothing, and what is somebody's stays found.

The chats are those of `benchmarks.privacy_unseen`, in the folder that CURATE_TEST_DATA names, or in `shared/data`
beside the repository; the tests are skipped where there is none.
"""

import os
from pathlib import Path

import pytest

from benchmarks.privacy_unseen import SENTENCES, chats, false_alarms, findings, labels, text_hash
from tasks.providers import Providers

BESIDE = Path(__file__).parents[4] / "shared" / "data"
DATA = Path(os.environ.get("CURATE_TEST_DATA", BESIDE))
pytestmark = pytest.mark.skipif(not (DATA / "visit-bench").is_dir(), reason="no public chats on this machine")
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
