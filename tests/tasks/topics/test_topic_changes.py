"""What became of the old topics, which topics are alike, and names that are asked for once."""

import numpy as np
import polars as pl

from tasks.providers.capabilities import Failed, TopicEvidence
from tasks.storage.tables import Store
from tasks.topics.descriptions import topic_names, topic_tree
from tasks.topics.fit import changes_in_words, topic_changes


def _table(labels):
    ids = [str(n) for n in range(len(labels))]
    return pl.DataFrame({"document_id": ids, "topic": labels}, schema_overrides={"topic": pl.Int32})


def test_topics_that_only_changed_their_numbers_have_moved_nobody():
    old, new = _table([0, 0, 0, 1, 1, -1]), _table([1, 1, 1, 0, 0, -1])
    changes = topic_changes(old, new)
    assert changes.filter("successor").select("old_topic", "new_topic").rows() == [(0, 1), (1, 0)]
    said = changes_in_words(changes, new)
    assert "0.0 % of 6 documents moved; 2 topics continue, 0 ended, 0 are new, 0 split" in said


def test_a_topic_that_split_one_that_ended_and_one_that_is_new_are_counted():
    old = _table([0, 0, 0, 0, 0, 0, 1, 1, 2, 2])
    new = _table([0, 0, 0, 0, 1, 1, -1, -1, 2, 2])
    new = pl.concat([new, pl.DataFrame({"document_id": ["new"], "topic": [3]}, schema=new.schema)])
    changes = topic_changes(old, new)
    assert changes["documents"].sum() == 10
    assert changes.filter("successor").select("old_topic", "new_topic").rows() == [(0, 0), (2, 2)]
    said = changes_in_words(changes, new)
    assert "40.0 % of 10 documents moved; 2 topics continue, 1 ended, 2 are new, 1 split" in said


def test_like_topics_merge_first_and_the_root_holds_all():
    vectors = np.array([[1, 0, 0], [1, 0.1, 0], [0, 0, 1], [0, 0, 1], [0, 1, 0]], np.float32)
    tree = topic_tree(vectors, np.array([0, 1, 2, 2, -1], np.int32))
    assert tree.select("node", "left", "right", "documents").rows() == [(3, 0, 1, 2), (4, 2, 3, 4)]
    assert tree["distance"].is_sorted()
    assert topic_tree(vectors, np.zeros(5, np.int32)).is_empty()


def test_a_topic_without_documents_has_no_place_in_the_tree():
    vectors = np.array([[1, 0, 0], [1, 0.1, 0], [0, 0, 1], [0, 0, 1], [0, 1, 0]], np.float32)
    tree = topic_tree(vectors, np.array([1, 2, 4, 4, -1], np.int32))
    assert tree.select("node", "left", "right", "documents").rows() == [(5, 1, 2, 2), (6, 4, 5, 4)]
    assert topic_tree(vectors, np.full(5, 3, np.int32)).is_empty()


class _Namer:
    """Counts what it is asked."""

    version = "1"

    def __init__(self):
        self.asked = []

    def name_topics(self, topics):
        self.asked += [topic.keywords for topic in topics]
        return [Failed("refused") if "bad" in topic.keywords else topic.keywords[0].title() for topic in topics]


def test_a_provider_is_shown_the_same_evidence_once_and_a_failure_again(tmp_path):
    store, namer = Store.open(str(tmp_path / "store")), _Namer()
    ids, labels = pl.Series(["a", "b", "c"]), np.array([0, 0, 1], np.int32)
    evidence = [TopicEvidence(("cat",), ("A cat?",)), TopicEvidence(("bad", "dog"), ())]
    for _ in range(2):
        names = topic_names(store, evidence, ids, labels, namer)
        assert names == {0: "Cat", 1: "bad, dog", -1: "outliers"}
    assert namer.asked == [("cat",), ("bad", "dog"), ("bad", "dog")]
    assert store.read("topic_names")["document_ids"].to_list() == [["a", "b"]]
    topic_names(store, [TopicEvidence(("cat",), ("Another?",))], ids, labels, namer)
    assert namer.asked[3:] == [("cat",)]
    assert store.read("topic_names").height == 1
