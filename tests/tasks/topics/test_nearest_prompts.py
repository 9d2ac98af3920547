"""The shipped text encoder puts a question beside itself in another language, which words cannot (docs/concepts.md).

The questions are `text-language` of the data that `tests/places.py` names.
"""

from benchmarks.topics import mates
from tests.places import DATA, needs_data

pytestmark = needs_data


def test_the_nearest_english_question_is_the_same_one():
    encoder, words = mates(str(DATA), ["questions in 12 languages"])
    assert encoder["share"] > 0.9
    assert words["engine"] == "TF-IDF" and words["share"] < 0.4
