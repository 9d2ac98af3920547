"""What a topic is about: its class TF-IDF words and its most central documents."""

import math
import tracemalloc
from collections import Counter

import numpy as np
import polars as pl
import pytest
from sklearn.feature_extraction.text import CountVectorizer

from tasks.topics.descriptions import EXEMPLARS, WORDS, topic_evidence

TEXTS = ["red fish river", "red fish lake", "red chart axis", "red chart legend chart", "zebra zebra zebra"]
LABELS = np.array([0, 0, 1, 1, -1], np.int32)


def _evidence(texts, labels, vectors):
    """Every text is written by two people, so that all its words may name a topic."""
    texts, labels, vectors = list(texts) * 2, np.tile(labels, 2), np.tile(vectors, (2, 1))
    people = [f"{n}" for n in range(len(texts))]
    documents = {"text": texts, "person": people, "language": ["en"] * len(texts), "tags": [[]] * len(texts)}
    schema = {"text": pl.String, "person": pl.String, "language": pl.String, "tags": pl.List(pl.String)}
    return topic_evidence(pl.DataFrame(documents, schema), labels, vectors)


def _flat(count):
    return np.ones((count, 2), np.float32)


def _score(word, topic):
    """Grootendorst 2022 (arXiv 2203.05794), eq. 1, with the frequency in the topic normalised as BERTopic does."""
    topics = [Counter(" ".join(t for t, n in zip(TEXTS, LABELS, strict=True) if n == k).split()) for k in (0, 1)]
    frequency = topics[topic][word] / topics[topic].total()
    return frequency * math.log(1 + sum(t.total() for t in topics) / 2 / sum(t[word] for t in topics))


@pytest.mark.parametrize("topic", [0, 1])
def test_words_are_ranked_by_class_tf_idf(topic):
    words = _evidence(TEXTS, LABELS, _flat(5))[topic].keywords
    scores = [_score(word, topic) for word in words]
    assert len(words) == 4
    assert scores == sorted(scores, reverse=True)
    assert words[0] == ("fish", "chart")[topic]
    assert words.index("red") > 0


def test_the_words_of_a_topic_are_of_its_most_common_language():
    texts = ["blue whale sea", "blue whale sea", "blauer wal meer", "blauer wal meer", "blue whale", "qqq qqq"]
    languages = ["en", "en", "de", "de", "en", "unknown"]
    tags = pl.Series([[]] * 6, dtype=pl.List(pl.String))
    documents = pl.DataFrame({"text": texts, "person": list("abcdef"), "language": languages, "tags": tags})
    (only,) = topic_evidence(documents, np.zeros(6, np.int32), _flat(6))
    assert set(only.keywords) == {"blue", "whale", "sea"}


def test_outliers_describe_nothing():
    evidence = _evidence(TEXTS, LABELS, _flat(5))
    assert len(evidence) == 2
    assert not any("zebra" in each.keywords or TEXTS[4] in each.exemplars for each in evidence)


def test_stop_words_numbers_and_single_letters_are_no_words():
    (only,) = _evidence(["what is the x of 1234, a giraffe, 7 in it"], np.zeros(1, np.int32), _flat(1))
    assert only.keywords == ("giraffe",)


def test_words_of_any_script_count():
    (only,) = _evidence(["бабочка бабочка 蝴蝶"], np.zeros(1, np.int32), _flat(1))
    assert only.keywords == ("бабочка", "蝴蝶")


@pytest.mark.parametrize("texts", [["", ""], ["1 2 3", "?"], ["the the", "is"]])
def test_a_topic_without_words_has_none(texts):
    (only,) = _evidence(texts, np.zeros(2, np.int32), _flat(2))
    assert only.keywords == ()


def test_a_topic_has_a_bounded_number_of_words_and_exemplars():
    texts = [f"word{chr(97 + n)} other{chr(97 + n)}" for n in range(20)]
    (only,) = _evidence(texts, np.zeros(20, np.int32), _flat(20))
    assert len(only.keywords) == WORDS
    assert len(only.exemplars) == EXEMPLARS


def test_exemplars_are_the_distinct_prompts_nearest_to_the_centre():
    angles = np.deg2rad([0, 50, 10, 10, -12])
    vectors = np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)  # their mean points to 11 degrees
    texts = ["at 0", "at 50", "at 10", "at 10", "at -12"]
    (only,) = _evidence(texts, np.zeros(5, np.int32), vectors)
    assert only.exemplars == ("at 10", "at 0", "at -12", "at 50")


def test_memory_grows_with_the_words_that_are_there_and_not_with_topics_times_words():
    words = ["".join(chr(97 + n // 26**place % 26) for place in range(3)) + "x" for n in range(4000)]
    tracemalloc.start()
    found = _evidence(words, np.arange(4000, dtype=np.int32) // 4, np.ones((4000, 2), np.float32))
    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert [len(each.keywords) for each in found] == [4] * 1000
    assert peak_bytes < 16e6  # a table of 1,000 topics and 4,000 words has 32 MB


def test_words_are_those_of_bertopics_class_tf_idf():
    vectorizers = pytest.importorskip("bertopic.vectorizers")
    random = np.random.default_rng(0)
    vocabulary = [f"w{chr(97 + a)}{chr(97 + b)}" for a in range(10) for b in range(10)]
    texts, labels = [], np.repeat(np.arange(3, dtype=np.int32), 20)
    for label in labels:
        likely = np.exp(random.permutation(100)[:100] / 40 * (1 + label)) + 50 * (np.arange(100) % 3 == label)
        texts.append(" ".join(random.choice(vocabulary, 12, p=likely / likely.sum())))
    joined = [" ".join(text for text, each in zip(texts, labels, strict=True) if each == n) for n in range(3)]
    counter = CountVectorizer()
    weights = vectorizers.ClassTfidfTransformer().fit_transform(counter.fit_transform(joined)).toarray()
    found = _evidence(texts, labels, np.eye(60, dtype=np.float32))
    for topic in range(3):
        theirs = counter.get_feature_names_out()[np.argsort(-weights[topic], kind="stable")[:10]]
        assert list(found[topic].keywords) == theirs.tolist()
