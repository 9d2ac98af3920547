"""The step from kept conversations to the `topics` table."""

import shutil

import numpy as np
import polars as pl
import pytest

from schemas.errors import BadInput
from schemas.items.reject import TakenDownKind, Tombstone
from schemas.settings import Settings, TopicSettings
from tasks.providers import Providers
from tasks.report.content import topic_counts, topic_tree_part
from tasks.storage.content_id import text_id
from tasks.storage.tables import Store, frame_of
from tasks.topics.fit import TABLE
from tasks.topics.steps import find_topics
from tests.builders import NOON, VERSIONS, conversation, decision, measure_clean, store_with

PROVIDERS = Providers()
ONE_TOPIC = "one topic: clustering needs at least 15 different documents"
WORDS = ("giraffe savanna", "receipt total", "triangle angle")


def _conversations(count):
    return [
        conversation(f"c{n:03d}", f"{WORDS[n % 3]} {n}", "Yes.", image_ids=[f"{n:032x}"], user_id=text_id(f"{n}"))
        for n in range(count)
    ]


def _planted(conversations):
    """Vectors of prompts around one direction for each of the three subjects."""
    random = np.random.default_rng(0)
    axes = np.eye(8)
    vectors = {}
    for number, each in enumerate(conversations):
        vector = axes[number % 3] + random.normal(scale=0.05, size=8)
        vectors[each.prompt_id] = {"vector": (vector / np.linalg.norm(vector)).tolist()}
    return vectors


def _topics(folder, conversations, seed=0, vectors=None, reasons=None):
    reasons = reasons or {}
    decisions = [decision(each, *reasons.get(each.conversation_id, ())) for each in conversations]
    store = store_with(folder, conversations=conversations, decisions=decisions)
    same = {each.image_ids[0]: {"vector": [1.0, 0.0]} for each in conversations if each.image_ids}
    measure_clean(store, conversations, text_embedding=vectors or _planted(conversations), image_embedding=same)
    return _find(store, seed)


class _Chosen(Providers):
    """The embedded providers, but for some."""

    def __init__(self, **chosen) -> None:
        super().__init__()
        self._chosen_here = chosen

    def __getitem__(self, capability):
        return self._chosen_here.get(capability) or super().__getitem__(capability)


class _NamesPeople(type(PROVIDERS["topic_names"])):
    """Names that hold personal data."""

    def name_topics(self, asked):
        return ["ask ann.lee@acme.com", "Ask Margaret Hamilton", "+44 20 7946 0958"][: len(asked)]


class _Listens(type(PROVIDERS["text_pii"])):
    """Keeps what it is asked."""

    def __init__(self) -> None:
        super().__init__()
        self.texts = []

    def find_pii(self, texts):
        self.texts.extend(texts)
        return super().find_pii(texts)


def _find(store, seed=0, providers=PROVIDERS):
    settings = Settings(store=store.root, seed=seed, topics=TopicSettings(neighbours=8, dimensions=2))
    report = find_topics.fn(settings, providers, VERSIONS)
    return report, store.read("topics")


@pytest.fixture(scope="module")
def sixty(tmp_path_factory):
    """Sixty prompts that are kept, and six that were asked and are not."""
    folder = tmp_path_factory.mktemp("sixty")
    reasons = {f"c{n:03d}": ("face",) for n in range(60, 66)}
    report, topics = _topics(folder, _conversations(66), reasons=reasons)
    return folder, report.counts, topics


def test_prompts_of_one_subject_share_a_topic_and_another_seed_gives_another_map(sixty, tmp_path):
    folder, counts, topics = sixty
    assert counts["documents"] == topics.height == 60
    assert counts["topics"] == 3
    assert counts["outliers"] == topics.filter(topic=-1).height
    names = set(topics.filter(pl.col("topic") >= 0)["name"])
    assert {tuple(sorted(name.split(", "))) for name in names} == {tuple(sorted(words.split())) for words in WORDS}
    store = Store(str(shutil.copytree(folder / "store", tmp_path / "store")))
    assert not _find(store, seed=1)[1]["x"].equals(topics["x"])


def test_row_order_of_the_tables_does_not_change_topics(sixty, tmp_path):
    folder, _, topics = sixty
    store = Store.open(str(folder / "store"))
    shuffled = Store.open(str(tmp_path / "shuffled"))
    for table in (
        "conversations",
        "decisions",
        "signals/text_embedding",
        "signals/image_embedding",
        "signals/text_pii",
    ):
        rows = store.read(table)
        order = np.random.default_rng(7).permutation(rows.height)
        for start in range(0, rows.height, 7):
            shuffled.append(table, rows[order[start : start + 7]])
        assert not shuffled.read(table).equals(rows)
    assert _find(shuffled)[1].equals(topics)


def test_vectors_of_another_version_enter_no_topic(sixty, tmp_path):
    folder, _, topics = sixty
    store = Store.open(str(tmp_path))
    for table in ("conversations", "decisions", "signals/text_embedding", "signals/image_embedding"):
        rows = Store.open(str(folder / "store")).read(table)
        if "version" in rows.columns:  # the same vectors turned round, as of a model in other numbers
            turned = pl.col("vector").list.reverse()
            store.append(table, rows.with_columns(turned, version=pl.col("version") + "-other"))
        store.append(table, rows)
    store.append("signals/text_pii", Store.open(str(folder / "store")).read("signals/text_pii"))
    assert _find(store)[1].equals(topics)


def test_a_takedown_of_a_whole_topic_leaves_the_others_as_they_are(sixty, tmp_path):
    folder, _, topics = sixty
    store = Store(str(shutil.copytree(folder / "store", tmp_path / "store")))
    gone = topics.filter(topic=1)["document_id"]
    conversations = store.read("conversations")
    theirs = conversations.filter(pl.col("document_id").is_in(gone.implode()))["conversation_id"]
    store.replace("conversations", conversations.filter(~pl.col("conversation_id").is_in(theirs.implode())))
    for table, key, ids in (
        ("decisions", "item_id", theirs),
        ("topics", "document_id", gone),
        (TABLE, "document_id", gone),
    ):
        store.replace(table, store.read(table).filter(~pl.col(key).is_in(ids.implode())))
    tombstone = Tombstone(key="k", kind=TakenDownKind.IMAGE, taken_down_at=NOON)
    store.replace("takedowns", frame_of(Tombstone, [tombstone]))
    report, after = _find(store)
    columns = ["document_id", "topic", "x", "y"]
    assert after.select(columns).equals(topics.filter(pl.col("topic") != 1).select(columns))
    assert report.counts["topics"] == store.read("topic_names").height == 2
    assert store.read("topic_tree").select("node", "left", "right").rows() == [(3, 0, 2)]
    part = topic_tree_part(store, topic_counts(store))
    assert part is not None
    assert all(f"{n} {after.filter(topic=n)['name'][0]}" in part.figure.svg for n in (0, 2))


def _decide(store, policy, kept):
    """Another policy keeps these conversations, by number."""
    names = [f"c{n:03d}" for n in kept]
    keep = pl.col("item_id").is_in(names)
    store.replace("decisions", store.read("decisions").with_columns(keep=keep, policy_hash=pl.lit(policy)))


@pytest.mark.parametrize("seed", range(4))
def test_another_policy_adds_what_it_lets_in_and_changes_nothing_else(sixty, tmp_path, seed):
    folder, _, topics = sixty
    store = Store(str(shutil.copytree(folder / "store", tmp_path / "store")))
    random = np.random.default_rng(seed)
    dropped, came = random.choice(60, 2 * seed, replace=False), range(60, 60 + 3 * (seed % 3))
    _decide(store, "b" * 12, {*range(60), *came} - {*dropped.tolist()})
    report, after = _find(store)
    assert report.counts["documents"] == 60 - len(dropped) + len(came)
    assert topics.join(after, on="document_id", how="semi").equals(after.join(topics, on="document_id", how="semi"))
    new = after.join(topics, on="document_id", how="anti")
    assert set(new["name"]) <= set(topics["name"]) and new["x"].null_count() == 0
    (fit,) = store.read("topic_fits").iter_rows(named=True)
    assert (fit["policy_hash"], fit["in_use"]) == ("0" * 12, True)
    stays = f"topics stay as fitted under policy {'0' * 12}"
    assert [note[: len(stays)] for note in report.notes if note.startswith("topics")] == [stays] * bool(seed)
    assert not any("fitted again" in note for note in report.notes)
    _decide(store, "0" * 12, range(60))
    undone, back = _find(store)
    assert back.equals(topics) and not [note for note in undone.notes if note.startswith("topics")]


def test_a_topic_whose_fitted_prompts_are_all_dropped_leaves_the_others_and_the_prompts_near_it_say_so(sixty, tmp_path):
    folder, _, topics = sixty
    store = Store(str(shutil.copytree(folder / "store", tmp_path / "store")))
    number = topics.filter(document_id=_conversations(1)[0].document_id)["topic"][0]
    of_subject = {n for n in range(60) if n % 3 == 0}
    _decide(store, "b" * 12, {*range(66)} - of_subject)
    after = _find(store)[1]
    others = topics.filter(pl.col("topic") != number)
    assert after.join(others, on="document_id", how="semi").equals(others)
    assert set(after.filter(topic=number)["name"]) == {f"like prompts that were dropped ({number})"}
    assert set(after.filter(topic=number)["document_id"]) == {_conversations(66)[n].document_id for n in (60, 63)}


def test_a_name_does_not_outlive_the_words_of_the_prompts_that_another_policy_drops(tmp_path):
    chats = [
        conversation(f"c{n:03d}", f"{'zeus' if n < 5 else 'lantern'} harbour {n}", "Yes.", user_id=text_id(f"{n}"))
        for n in range(30)
    ]
    vectors = {chat.prompt_id: {"vector": [1.0, n / 1000]} for n, chat in enumerate(chats)}
    store = store_with(tmp_path, conversations=chats, decisions=[decision(chat) for chat in chats])
    measure_clean(store, chats, text_embedding=vectors)
    before = _find(store)[1]
    assert any("zeus" in name for name in before["name"])
    _decide(store, "b" * 12, range(5, 30))
    report, after = _find(store)
    assert any(note.startswith("topics stay") for note in report.notes)
    assert set(after["topic"]) <= set(before["topic"]) and not any("zeus" in name for name in after["name"])


@pytest.mark.parametrize(("count", "note"), [(0, "no documents: no topics"), (1, ONE_TOPIC), (3, ONE_TOPIC)])
def test_few_prompts_are_one_topic_and_the_report_says_so(tmp_path, count, note):
    report, topics = _topics(tmp_path, _conversations(count))
    assert report.counts == {"documents": count, "topics": min(count, 1), "outliers": 0, "fitted": count}
    assert report.notes == [note]
    assert topics["topic"].to_list() == [0] * count


def test_identical_prompts_on_different_images_are_one_topic(tmp_path):
    alike = [conversation(f"c{n}", "What is this?", "A cat.", image_ids=[f"{n:032x}"]) for n in range(20)]
    report, topics = _topics(tmp_path, alike, vectors={alike[0].prompt_id: {"vector": [0.6, 0.8]}})
    assert report.counts == {"documents": 20, "topics": 1, "outliers": 0, "fitted": 20}
    assert report.notes == [ONE_TOPIC]
    assert set(topics["name"]) == {"few words in common"}


def test_the_same_prompt_and_image_asked_twice_is_one_document(tmp_path):
    twice = [conversation(f"c{n}", "A giraffe?", f"Answer {n}.", image_ids=["1" * 32]) for n in range(2)]
    report, topics = _topics(tmp_path, twice)
    assert report.counts["documents"] == 1
    assert topics["document_id"].to_list() == [twice[0].document_id]


def test_dropped_and_unmeasured_prompts_have_no_topic(tmp_path):
    several = _conversations(4)
    unmeasured = _planted(several) | {several[3].prompt_id: None}
    report, topics = _topics(tmp_path, several, vectors=unmeasured, reasons={"c001": ("face",)})
    assert report.counts["documents"] == 2
    assert "1 kept documents have no embedding and no topic: run `curate measure`" in report.notes
    assert set(topics["document_id"]) == {several[0].document_id, several[2].document_id}


@pytest.mark.parametrize(("lengths", "told"), [((8, 9), "have 8 and 9 dimensions"), ((0, 0), "have 0 dimensions")])
def test_vectors_of_several_lengths_or_none_under_one_version_end_the_stage(tmp_path, lengths, told):
    several = _conversations(2)
    vectors = {each.prompt_id: {"vector": [1.0] * length} for each, length in zip(several, lengths, strict=True)}
    with pytest.raises(BadInput, match=f"text_embedding: vectors of version '1' {told}; one version has one: remove"):
        _topics(tmp_path, several, vectors=vectors)


def test_only_english_single_turn_prompts_with_an_image_are_fitted_and_the_others_are_assigned(tmp_path):
    several = _conversations(60)
    others = {
        "spanish": conversation("spanish", "giraffe savanna 60", "Sí.", image_ids=["a" * 32]),
        "bare": conversation("bare", "receipt total 61", "Yes."),
        "turns": conversation("turns", "triangle angle 62", "Yes.", "Why?", "So.", image_ids=["b" * 32]),
    }
    everything = [*several, *others.values()]
    vectors = _planted(several) | {
        each.prompt_id: {"vector": np.eye(8)[axis].tolist()} for axis, each in enumerate(others.values())
    }
    language = {each.prompt_id: {"language": "en", "confidence": 1.0} for each in everything}
    language[others["spanish"].prompt_id] = {"language": "es", "confidence": 1.0}
    store = store_with(tmp_path, conversations=everything, decisions=[decision(each) for each in everything])
    images = {image: {"vector": [1.0, 0.0]} for each in everything for image in each.image_ids}
    measure_clean(store, everything, text_embedding=vectors, image_embedding=images, language=language)
    report, topics = _find(store)
    assert report.counts["fitted"] == 60
    named = dict(topics.select("document_id", "name").iter_rows())
    for each, word in zip(others.values(), ("giraffe", "receipt", "triangle"), strict=True):
        assert word in named[each.document_id]
    everyone = Settings(
        store=store.root,
        topics=TopicSettings(neighbours=8, dimensions=2, single_turn=False, needs_image=False, language=None),
    )
    assert find_topics.fn(everyone, PROVIDERS, VERSIONS).counts["fitted"] == 63


@pytest.fixture
def with_names(tmp_path) -> Store:
    """Sixty prompts with the name of a person, which was found in all but one."""
    chats = [
        conversation(f"c{n:03d}", f"quandt harbour lantern {n}", "Yes.", user_id=text_id(f"{n}")) for n in range(60)
    ]
    spans = [{"type": "person", "start": 0, "end": 6, "confidence": 1.0}]
    store = store_with(tmp_path, conversations=chats, decisions=[decision(each) for each in chats])
    found = {each.turns[0].text_id: {"types": ["person"], "spans": spans} for each in chats[1:]}
    found |= {chats[0].turns[0].text_id: None}
    measure_clean(store, chats, text_embedding=_planted(chats), text_pii=found)
    return store


def test_what_was_found_in_prompts_names_no_topic(with_names):
    _, topics = _find(with_names)
    assert set(topics.filter(pl.col("topic") >= 0)["name"].str.contains("quandt")) == {False}
    assert any("lantern" in name for name in topics["name"])


def test_what_is_found_in_a_name_is_left_out_of_it(with_names):
    report, topics = _find(with_names, providers=_Chosen(topic_names=_NamesPeople()))
    assert all(name.startswith(("words left out as personal data (", "outliers")) for name in topics["name"])
    assert any("held personal data" in note for note in report.notes)


def test_what_was_found_in_a_name_is_remembered_so_that_a_paid_finder_is_not_asked_again(with_names):
    finders = [_Listens(), _Listens()]
    tables = [_find(with_names, providers=_Chosen(topic_names=_NamesPeople(), text_pii=each))[1] for each in finders]
    assert tables[0].equals(tables[1])
    assert finders[0].texts and not finders[1].texts


def test_vectors_that_are_read_in_pieces_give_the_same_topics(sixty, tmp_path, monkeypatch):
    for module in ("tasks.storage.queries.documents", "tasks.topics.cluster", "tasks.topics.fit"):
        monkeypatch.setattr(f"{module}.DOCUMENTS_AT_ONCE", 7)
    _, pieces = _topics(tmp_path, _conversations(60))
    assert pieces.equals(sixty[2])
