"""The shipped text encoder puts a question beside itself in another language, which words cannot (docs/topics.md).

The questions are `text-language` of the folder that CURATE_TEST_DATA names, or of `shared/data` beside the repository;
the test is skipped where there is none.
"""

import pytest

from benchmarks.topics import mates
from tests.places import SHARED_DATA as DATA

pytestmark = pytest.mark.skipif(not (DATA / "text-language").is_dir(), reason="no questions on this machine")


def test_the_nearest_english_question_is_the_same_one():
    encoder, words = mates(str(DATA), ["questions in 12 languages"])
    assert encoder["share"] > 0.9
    assert words["engine"] == "TF-IDF" and words["share"] < 0.4
