"""The step from topics to the benchmark: who is eligible, how many are drawn, and that nobody else ever is."""

from datetime import timedelta

import pytest

from schemas.items.topic import TopicMember
from schemas.settings import BenchSettings, Settings
from tasks.bench.steps import draw_bench
from tasks.storage.content_id import text_id
from tests.builders import NOON, VERSIONS, conversation, decision, measure_clean, store_with

INELIGIBLE = {
    "two turns": {"texts": ("First?", "Yes.", "Second?", "No.")},
    "no picture": {"image_ids": []},
    "preset": {"preset_dataset": "newyorker"},
    "other language": {"language": "de"},
    "language not measured": {"language": None},
    "dropped": {"reasons": ("face",)},
    "outlier": {"topic": -1},
    "not clustered": {"topic": None},
}


def _arena(folder, count=60, topics=3, **odd_ones):
    """`count` eligible prompts over topics of falling size, and one ineligible prompt for each of `odd_ones`."""
    plain = [(f"c{n:02d}", {"topic": min(n % (topics + 1), topics - 1)}) for n in range(count)]
    conversations, decisions, members, languages = [], [], [], {}
    for number, (name, about) in enumerate(plain + list(odd_ones.items())):
        about = {"topic": 0, "language": "en", "reasons": (), "preset_dataset": None} | about
        texts = about.get("texts", (f"Prompt {name}?", "Answer."))
        images = about.get("image_ids", [f"{number:032x}"])
        item = conversation(
            name,
            *texts,
            image_ids=images,
            tstamp=NOON + timedelta(seconds=number),
            user_id=about.get("user", text_id(name)),
        )
        conversations.append(item)
        decisions.append(decision(item, *about["reasons"], preset_dataset=about["preset_dataset"]))
        languages[item.prompt_id] = None if about["language"] is None else {"language": about["language"]}
        if about["topic"] is not None:
            members.append(_member(item, about["topic"]))
    store = store_with(folder, conversations=conversations, decisions=decisions, topics=members)
    measure_clean(store, conversations, language=languages)
    return store


def _member(item, topic):
    return TopicMember(document_id=item.document_id, topic=topic, probability=1.0, name=f"t{topic}", x=0.0, y=0.0)


def _draw(store, seed=0, **bench):
    bench = BenchSettings(**{"hidden_size": 0} | bench)
    report = draw_bench.fn(Settings(store=store.root, seed=seed, bench=bench), VERSIONS)
    return report.counts, store.read("bench")


@pytest.mark.parametrize("why", INELIGIBLE)
def test_an_ineligible_prompt_is_never_drawn(tmp_path, why):
    store = _arena(tmp_path, count=8, odd=INELIGIBLE[why])
    counts, bench = _draw(store, size=100)
    assert (counts["drawn"], counts["asked"], counts["short"], counts["topics"]) == (8, 100, 92, 3)
    assert "odd" not in bench["conversation_id"].to_list()


def test_any_language_is_eligible_when_none_is_asked_for(tmp_path):
    store = _arena(tmp_path, count=4, german=INELIGIBLE["other language"], unknown=INELIGIBLE["language not measured"])
    assert _draw(store, size=100, language=None)[0]["drawn"] == 6
    assert _draw(store, size=100, language="de")[1]["conversation_id"].to_list() == ["german"]


@pytest.mark.parametrize("size", [0, 1, 7, 30, 60])
def test_exactly_as_many_as_asked_are_drawn_and_evenly(tmp_path, size):
    counts, bench = _draw(_arena(tmp_path), size=size)
    assert counts["drawn"] == bench.height == size
    assert bench["document_id"].n_unique() == size
    pool = {0: 15, 1: 15, 2: 30}
    drawn = {topic: bench.filter(topic=topic).height for topic in pool}
    assert all(drawn[topic] >= max(drawn.values()) - 1 for topic in pool if drawn[topic] < pool[topic])


def test_seats_go_by_the_size_of_topics_where_that_is_asked_for(tmp_path):
    bench = _draw(_arena(tmp_path), size=20, seats="proportional")[1]
    assert {topic: bench.filter(topic=topic).height for topic in range(3)} == {0: 5, 1: 5, 2: 10}


def test_without_a_size_a_fifth_of_the_pool_is_drawn(tmp_path):
    counts, _ = _draw(_arena(tmp_path, count=59))
    assert (counts["per_user_max"], counts["asked"], counts["drawn"]) == (59, 11, 11)


def test_a_prompt_asked_twice_is_drawn_once_as_its_first_conversation(tmp_path):
    first = conversation("z", "Same?", "One.", image_ids=["1" * 32])
    later = conversation("a", "Same?", "Two.", image_ids=["1" * 32], tstamp=NOON + timedelta(hours=1))
    store = store_with(
        tmp_path, conversations=[later, first], decisions=[decision(first), decision(later)], topics=[_member(first, 0)]
    )
    measure_clean(store, [first, later])
    assert _draw(store, size=5)[1]["conversation_id"].to_list() == ["z"]


def test_the_seed_decides_and_nothing_else_does(tmp_path):
    store = _arena(tmp_path)
    drawn = _draw(store, size=12, seed=4)[1]
    assert _draw(store, size=12, seed=4)[1].equals(drawn)
    assert not _draw(store, size=12, seed=5)[1].equals(drawn)
    for table in ("conversations", "topics", "decisions"):
        rows = store.read(table).sample(fraction=1.0, shuffle=True, seed=1)
        store.replace(table, rows[:0])
        for start in range(0, rows.height, 7):
            store.append(table, rows[start : start + 7])
    assert _draw(store, size=12, seed=4)[1].equals(drawn)


@pytest.mark.parametrize("topics", [[], [-1]])
def test_without_topics_the_benchmark_is_empty(tmp_path, topics):
    item = conversation("c", image_ids=["1" * 32])
    members = [_member(item, topic) for topic in topics]
    store = store_with(tmp_path, conversations=[item], decisions=[decision(item)], topics=members)
    measure_clean(store, [item])
    counts, bench = _draw(store, size=3)
    assert (counts["drawn"], counts["asked"], counts["short"], counts["topics"]) == (0, 3, 3, 0)
    assert bench.is_empty()
