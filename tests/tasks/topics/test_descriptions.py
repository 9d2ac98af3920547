"""What a topic is about, what it is called, and what became of it: words, central documents, names, changes."""

import math
import tracemalloc
from collections import Counter
from datetime import date

import numpy as np
import polars as pl
import pytest
from sklearn.feature_extraction.text import CountVectorizer

from schemas.items.topic import TopicFit, TopicMember
from schemas.signals import PiiSpan
from tasks.providers.capabilities import Failed, TopicEvidence
from tasks.providers.embedded.texts import Keywords
from tasks.storage.tables import Store, frame_of
from tasks.topics.descriptions import (
    EXEMPLARS_A_TOPIC,
    WORDS,
    names_that_stay,
    personal_names,
    topic_evidence,
    topic_names,
    topic_tree,
)
from tasks.topics.fit import Fit, changes_in_words, topic_changes
from tasks.topics.words import words

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


def test_outliers_stop_words_and_numbers_describe_nothing_and_words_of_any_script_count():
    evidence = _evidence(TEXTS, LABELS, _flat(5))
    assert len(evidence) == 2
    assert not any("zebra" in each.keywords or TEXTS[4] in each.exemplars for each in evidence)
    (only,) = _evidence(["what is the x of 1234, a giraffe, 7 in it"], np.zeros(1, np.int32), _flat(1))
    assert only.keywords == ("giraffe",)
    (only,) = _evidence(["бабочка бабочка 蝴蝶"], np.zeros(1, np.int32), _flat(1))
    assert only.keywords == ("бабочка", "蝴蝶")


@pytest.mark.parametrize("texts", [["", ""], ["1 2 3", "?"], ["the the", "is"]])
def test_a_topic_without_words_has_none(texts):
    (only,) = _evidence(texts, np.zeros(2, np.int32), _flat(2))
    assert only.keywords == ()


def test_exemplars_are_the_nearest_distinct_prompts_and_a_bounded_number():
    angles = np.deg2rad([0, 50, 10, 10, -12])
    vectors = np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)  # their mean points to 11 degrees
    texts = ["at 0", "at 50", "at 10", "at 10", "at -12"]
    (only,) = _evidence(texts, np.zeros(5, np.int32), vectors)
    assert only.exemplars == ("at 10", "at 0", "at -12", "at 50")
    texts = [f"word{chr(97 + n)} other{chr(97 + n)}" for n in range(20)]
    (only,) = _evidence(texts, np.zeros(20, np.int32), _flat(20))
    assert len(only.keywords) == WORDS
    assert len(only.exemplars) == EXEMPLARS_A_TOPIC


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


TOKEN = "eyJhbGciOiJIUzI" * 135
SCHEMA = {"text": pl.String, "person": pl.String, "language": pl.String, "tags": pl.List(pl.String)}


def _written(texts, people=None, language="en", tags=()):
    people = people or [f"user {n}" for n in range(len(texts))]
    rows = [(text, who, language, list(tags)) for text, who in zip(texts, people, strict=True)]
    documents = pl.DataFrame(rows, SCHEMA, orient="row")
    return topic_evidence(documents, np.zeros(len(texts), np.int32), np.ones((len(texts), 2), np.float32))[0]


def _names(folder, evidence, namer=None):
    labels = np.arange(len(evidence), dtype=np.int32)
    ids = pl.Series([f"d{n}" for n in labels])
    return topic_names(Store.open(str(folder)), evidence, ids, labels, namer or Keywords())


@pytest.mark.parametrize("secret", [TOKEN, "xqzptlk", "user_4711", "a7f9c2"])
def test_what_one_person_typed_in_every_prompt_names_no_topic(secret):
    texts = [f"Which lighthouse is this? {secret}"] * 8 + ["The lighthouse of which harbour? Any harbour."] * 2
    found = _written(texts, people=["one"] * 8 + ["two", "three"])
    assert found.keywords == ("lighthouse", "harbour")


@pytest.mark.parametrize("text", ["What does the figure show?", "Please describe this image.", "1 2 3", "?"])
def test_words_of_every_prompt_say_nothing_and_tags_name_the_topic(tmp_path, text):
    found = _written([text] * 4, tags=["Animals", "captioning"])
    assert found.keywords == ()
    assert _names(tmp_path, [found])[0] == "Animals, captioning"


@pytest.mark.parametrize(
    ("text", "language", "expected"),
    [
        ("请详细描述这张照片中的建筑风格和历史背景", "zh", {"建筑", "风格", "历史"}),
        ("この画像に写っている三角形の面積を計算してください。", "ja", {"三角", "面積", "計算"}),
        ("ช่วยอธิบายรายละเอียดของอาหารในภาพ", "th", {"อาหาร"}),
        ("이 건물의 건축 양식은 무엇입니까?", "ko", {"건축"}),
        ("यह हिंदी किताब कौन सी है?", "hi", {"हिंदी", "किताब"}),
        ("¿Cuál es el perímetro de la figura y por qué?", "es", {"perímetro"}),
    ],
)
def test_every_script_is_cut_into_words_without_function_words(text, language, expected):
    found = words(text, language)
    assert expected <= set(found)
    assert max(map(len, found)) <= 10
    assert not set(found) & {"この", "画像", "ください", "图片", "ภาพ", "cuál", "por", "है", "यह"}


def test_a_topic_without_words_is_named_by_the_prompt_that_several_people_wrote():
    evidence = _written(["What is this?", " What  is\nthis?", "What is that?"])
    assert evidence.keywords == ()
    assert evidence.name_of(()) == "What is this?"


@pytest.mark.parametrize("texts", [["What is this?"] * 3, ["What is this? " * 9] * 3], ids=["one person", "long"])
def test_no_prompt_of_one_person_or_over_60_characters_names_a_topic(texts):
    people = ["one"] * 3 if len(texts[0]) < 60 else None
    evidence = _written([*texts, "What is that?"], people=[*people, "two"] if people else None)
    assert evidence.name_of(()) == "few words in common"


def test_names_are_unique_and_have_at_most_60_characters(tmp_path):
    alike = TopicEvidence(("fish", "river"), ("Which fish?",))
    long = TopicEvidence(tuple(f"{'immeasurably'}{chr(97 + n)}{'rocks'}" for n in range(6)), ())
    names = _names(tmp_path, [alike, TopicEvidence(("fish", "river", "lake"), ("Which fish?",)), alike, long, long])
    assert len(set(names.values())) == 6
    assert max(map(len, names.values())) <= 60
    assert all("fish" in names[n] for n in range(3))


class _Unable:
    """A service that is down."""

    version = "down"

    def name_topics(self, topics):
        return [Failed("timeout") for _ in topics]


def test_a_topic_without_words_is_named_by_its_tags_when_the_service_fails(tmp_path):
    assert _names(tmp_path, [TopicEvidence((), (), ("Plants",))], _Unable()) == {0: "Plants", -1: "outliers"}


def test_words_of_a_name_are_near_the_prompts_and_unlike_each_other():
    mmr = pytest.importorskip("bertopic.representation._mmr").mmr
    from tasks.providers.embedded.embeddings import sentence_encoder
    from tasks.providers.embedded.texts import DIVERSITY

    candidates = ("dog", "dogs", "breed", "puppy", "leash", "canine", "park")
    prompt = "Which breed is this dog, and is it a puppy?"
    embed = sentence_encoder().embed_texts
    theirs = mmr(embed([prompt]), embed(candidates), list(candidates), DIVERSITY, 4)
    (ours,) = Keywords().name_topics([TopicEvidence(candidates, (prompt,))])
    assert ours.split(", ") == theirs


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (r"Find the area of $\triangle ABC$ if $\overline{CD} = 4\mathrm{cm}$ and \(\mathrm{cd} \le x\).", ["area"]),
        (r"The speed is \[ v = \frac{ds}{dt} \text{ for the cyclist} \] in $\mathbb{R}$", ["speed", "cyclist"]),
        (
            "\\begin{align*}\n\\mathrm{cd} &= \\mathbf{ab}\n\\end{align*}\nProve the \\textbf{inequality}.",
            ["prove", "inequality"],
        ),
        (r"\section{Results} \includegraphics[width=3cm]{plot_of_rain} Rain \cite{smith}", ["results", "rain"]),
        ("A square ABCD costs $5 or $6 in the shop", ["square", "costs", "shop"]),
        ("Fix the parser:\n```python\ndef spam(eggs):\n    return eggs\n```", ["fix", "parser"]),
        ("Sort wolves\nfor wolf in pack:\n    print(wolf.age)\nint main() {\n  return 0;\n}", ["sort", "wolves"]),
        ('<div class="nav"><a href="https://shop.example/x">Opening hours</a></div>&nbsp;', ["opening", "hours"]),
        ("Why does elif need a nullptr here?", []),
        ("For whom, and in which class, is the return ticket?", ["class", "return", "ticket"]),
    ],
)
def test_latex_code_and_html_give_no_words(text, expected):
    assert words(text) == expected


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


def test_like_topics_merge_first_the_root_holds_all_and_empty_ones_have_no_place():
    vectors = np.array([[1, 0, 0], [1, 0.1, 0], [0, 0, 1], [0, 0, 1], [0, 1, 0]], np.float32)
    tree = topic_tree(vectors, np.array([0, 1, 2, 2, -1], np.int32))
    assert tree.select("node", "left", "right", "documents").rows() == [(3, 0, 1, 2), (4, 2, 3, 4)]
    assert tree["distance"].is_sorted()
    assert topic_tree(vectors, np.zeros(5, np.int32)).is_empty()
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


class _Silent(_Unable):
    """A service that answers with spaces."""

    def name_topics(self, topics):
        return [" " for _ in topics]


def test_a_topic_is_named_by_its_tags_when_the_service_answers_nothing(tmp_path):
    assert _names(tmp_path, [TopicEvidence((), (), ("Plants",))], _Silent()) == {0: "Plants", -1: "outliers"}


def test_a_name_whose_number_is_taken_by_a_name_that_stays_gets_another(tmp_path):
    store, labels = Store.open(str(tmp_path / "store")), np.array([0, 1, 2], np.int32)
    evidence = [TopicEvidence(("cats",), ())] * 3
    names = topic_names(store, evidence, pl.Series(["a", "b", "c"]), labels, Keywords(), {0: "cats (1)", 2: "cats"})
    assert names[1] == "cats (2)"


class _Finder:
    """A finder that takes the whole text for one person."""

    version = "whole"

    def find_pii(self, texts):
        return [[PiiSpan(start=0, end=len(text), type="person", confidence=1.0)] for text in texts]


@pytest.mark.parametrize(
    ("name", "is_personal"),
    [
        ("Anna Schmidt", True), ("Anna Schmidt, Paul Weber", True), ("savanna, Anna Schmidt", True),
        ("giraffe, savanna", False), ("giraffe", False), ("Schmidt , Weber", False),
    ],
)  # fmt: skip
def test_a_name_with_a_person_of_two_words_is_personal_wherever_commas_stand(tmp_path, name, is_personal):
    assert personal_names(Store.open(str(tmp_path)), {0: name}, _Finder()) == ({0} if is_personal else set())


STORED_TOPICS = [("d1", 0, "cats"), ("d2", 1, "dogs")]


@pytest.mark.parametrize(
    ("fitted_topics", "names"),
    [({"d1": 0, "d2": 1}, {0: "cats", 1: "dogs"}), ({"d1": 1, "d2": 0}, {})],
    ids=["of this fit", "of the fit before"],
)
def test_names_stay_only_where_the_stored_topics_are_of_the_fit_that_stays(tmp_path, fitted_topics, names):
    """A run may be killed after it wrote a new fit and before it wrote the topics that have the names."""
    store, day = Store.open(str(tmp_path)), date(2024, 6, 1)
    about = TopicFit(model="m", fit_day=day, drift_day=day, asked="", decided_by="", policy_hash="", in_use=True)
    store.replace("topic_fits", frame_of(TopicFit, [about]))
    members = [
        TopicMember(document_id=document, topic=topic, name=name, probability=1.0, x=0.0, y=0.0)
        for document, topic, name in STORED_TOPICS
    ]
    store.replace("topics", frame_of(TopicMember, members))
    table = pl.DataFrame({"document_id": list(fitted_topics), "topic": list(fitted_topics.values())})
    fit = Fit(table.cast({"topic": pl.Int32}), np.array([0, 1]), about, stands=True)
    evidence = [TopicEvidence(("cats",), ()), TopicEvidence(("dogs",), ())]
    assert names_that_stay(store, fit, table["document_id"], evidence) == names


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


def test_a_topic_named_by_a_prompt_is_named_anew_when_another_prompt_is_the_one_that_several_wrote(tmp_path):
    store, ids, labels = Store.open(str(tmp_path)), pl.Series(["a", "b"]), np.array([0, 0], np.int32)
    for prompt in ("What is this?", "Who is this?"):
        evidence = [TopicEvidence((), ("What is this?", "Who is this?"), (), prompt)]
        assert topic_names(store, evidence, ids, labels, Keywords())[0] == prompt
