"""The step from topics to the benchmark: who is eligible, by which filter, how many are drawn, and nobody else ever."""

import math
from datetime import timedelta

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.errors import BadInput
from schemas.items.conversation import Conversation
from schemas.items.decision import Decision
from schemas.items.topic import TopicMember
from schemas.settings import BenchSettings, Settings
from schemas.tables import SIGNALS
from tasks.bench.draw import draw
from tasks.bench.pool import capped, first_of_alike
from tasks.bench.steps import draw_bench, find_failures
from tasks.storage.content_id import text_id
from tasks.storage.tables import Store, frame_of
from tests.builders import NOON, VERSIONS, conversation, decision, measure_clean, sides, store_with

INELIGIBLE = {
    "two turns": {"texts": ("First?", "Yes.", "Second?", "No.")}, "no picture": {"image_ids": []},
    "preset": {"preset_dataset": "newyorker"}, "other language": {"language": "de"},
    "language not measured": {"language": None}, "dropped": {"reasons": ("face",)}, "outlier": {"topic": -1},
    "not clustered": {"topic": None},
}  # fmt: skip


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


def _draw(store, seed=0, redraw=False, **bench):
    bench = BenchSettings(**{"hidden_size": 0} | bench)
    report = draw_bench.fn(Settings(store=store.root, seed=seed, redraw=redraw, bench=bench), VERSIONS)
    return report.counts, store.read("bench")


@pytest.mark.parametrize("why", INELIGIBLE)
def test_an_ineligible_prompt_is_never_drawn(tmp_path, why):
    store = _arena(tmp_path, count=8, odd=INELIGIBLE[why])
    counts, bench = _draw(store, size=100)
    assert (counts["drawn"], counts["asked"], counts["short"], counts["topics"]) == (8, 100, 92, 3)
    assert "odd" not in bench["conversation_id"].to_list()


@pytest.fixture
def of_three_languages(tmp_path) -> Store:
    """Four English prompts, a German one, and one whose language was not measured."""
    return _arena(tmp_path, count=4, german=INELIGIBLE["other language"], unknown=INELIGIBLE["language not measured"])


def test_any_language_is_eligible_when_none_is_asked_for(of_three_languages):
    assert _draw(of_three_languages, size=100, language=None)[0]["drawn"] == 6


def test_only_the_language_that_is_asked_for_is_eligible(of_three_languages):
    assert _draw(of_three_languages, size=100, language="de")[1]["conversation_id"].to_list() == ["german"]


@pytest.fixture(scope="module", params=[0, 1, 7, 30, 60])
def drawn_of(tmp_path_factory, request):
    """A size, the counts of a draw of that size, and its rows."""
    return request.param, *_draw(_arena(tmp_path_factory.mktemp("drawn")), size=request.param)


def test_exactly_as_many_prompts_as_asked_for_are_drawn(drawn_of):
    size, counts, bench = drawn_of
    assert counts["drawn"] == bench.height == size
    assert bench["document_id"].n_unique() == size


def test_prompts_are_drawn_evenly_over_topics(drawn_of):
    _, _, bench = drawn_of
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


@pytest.fixture
def of_seed_4(tmp_path):
    """A store, and what was drawn in it with seed 4."""
    store = _arena(tmp_path)
    return store, _draw(store, size=12, seed=4)[1]


def test_the_same_seed_draws_the_same(of_seed_4):
    store, drawn = of_seed_4
    assert _draw(store, size=12, seed=4)[1].equals(drawn)


def test_another_seed_draws_others(of_seed_4):
    store, drawn = of_seed_4
    assert not _draw(store, size=12, seed=5)[1].equals(drawn)


def test_neither_the_order_of_rows_nor_their_parts_change_a_draw(of_seed_4):
    store, drawn = of_seed_4
    for table in ("conversations", "topics", "decisions"):
        rows = store.read(table).sample(fraction=1.0, shuffle=True, seed=1)
        store.replace(table, rows[:0])
        for start in range(0, rows.height, 7):
            store.append(table, rows[start : start + 7])
    assert _draw(store, size=12, seed=4)[1].equals(drawn)


def _decide(store, policy, dropped=()):
    """Another policy keeps all conversations but these."""
    keep = ~pl.col("item_id").is_in(list(dropped))
    store.replace("decisions", store.read("decisions").with_columns(keep=keep, policy_hash=pl.lit(policy)))


def _names(bench):
    return set(bench["conversation_id"])


def _by_topic(bench):
    return bench["topic"].value_counts().sort("topic").rows()


def _take_away(store, name):
    keys = {"conversations": "conversation_id", "bench": "conversation_id", "decisions": "item_id"}
    for table, key in keys.items():
        store.replace(table, store.read(table).filter(pl.col(key) != name))


@pytest.mark.parametrize(("seed", "seats"), [(0, "even"), (1, "proportional"), (4, "even")])
def test_another_policy_replaces_only_the_drawn_prompts_that_it_drops_each_from_its_topic(tmp_path, seed, seats):
    store, random, every = _arena(tmp_path), np.random.default_rng(seed), [f"c{n:02d}" for n in range(60)]
    _decide(store, "a" * 12, random.choice(every, 3 * seed, replace=False))
    drawn = _draw(store, size=12, seats=seats)[1]
    for policy in ("b" * 12, "c" * 12):  # two fixes in a row
        dropped = set(random.choice(every, 4 + seed, replace=False).tolist())
        _decide(store, policy, dropped)
        after = _draw(store, size=12, seats=seats)[1]
        assert _names(drawn) - dropped <= _names(after) and not _names(after) & dropped
        assert _by_topic(after) == _by_topic(drawn)
        assert _draw(store, size=12, seats=seats)[1].equals(after)
        drawn = after


@pytest.mark.parametrize(("seed", "seats"), [(0, "even"), (1, "proportional"), (4, "even")])
def test_drawing_anew_draws_as_a_new_store_would(tmp_path, seed, seats):
    store, random, every = _arena(tmp_path), np.random.default_rng(seed), [f"c{n:02d}" for n in range(60)]
    _draw(store, size=12, seats=seats)
    _decide(store, "b" * 12, random.choice(every, 4 + seed, replace=False).tolist())
    redrawn = _draw(store, size=12, seats=seats, redraw=True)[1]
    store.replace("bench_draws", store.empty("bench_draws"))
    assert _draw(store, size=12, seats=seats)[1].equals(redrawn)


def test_a_policy_that_is_undone_gives_the_draw_of_before(tmp_path):
    store = _arena(tmp_path)
    before = _draw(store, size=12)[1]
    _decide(store, "b" * 12, sorted(_names(before))[:5])
    assert not _draw(store, size=12)[1].equals(before)
    _decide(store, "0" * 12)
    assert _draw(store, size=12)[1].equals(before)


def test_seats_of_a_topic_that_another_policy_drops_go_to_those_with_fewest(tmp_path):
    store = _arena(tmp_path, topics=4)
    before = _draw(store, size=12)[1]
    members = {f"c{n:02d}" for n in range(60) if n % 5 == 1}
    _decide(store, "b" * 12, members)
    after = _draw(store, size=12)[1]
    assert (_by_topic(before), _by_topic(after)) == ([(0, 3), (1, 3), (2, 3), (3, 3)], [(0, 4), (2, 4), (3, 4)])
    assert _names(before) - members < _names(after)


def test_a_drawn_prompt_that_is_taken_down_is_replaced_under_another_policy_too(tmp_path):
    store = _arena(tmp_path)
    before = _draw(store, size=12)[1]
    _decide(store, "b" * 12)
    gone = before["conversation_id"][4]
    _take_away(store, gone)
    after = _draw(store, size=12)[1]
    assert (_by_topic(after), len(_names(after) - _names(before))) == (_by_topic(before), 1)
    assert _names(before) - {gone} < _names(after)


SEVEN = {f"c{n}" for n in range(7)}


@pytest.fixture
def with_earlier_ones(tmp_path) -> Store:
    """A store in which seven prompts are drawn; of two, earlier forms were dropped, which another policy keeps."""
    again = [_asked("again-1", "Prompt 3?", 0, image="3"), _asked("again-2", "PROMPT 4?", 0, image="4")]
    items = [*again, *(_asked(f"c{n}", f"Prompt {n}?", n + 1, image=f"{n}", user_id="u") for n in range(8))]
    store = _store(tmp_path, items)
    _decide(store, "a" * 12, ["again-1", "again-2", "c7"])
    assert _drawn(store, size=7, per_user_max=7)[1] == SEVEN
    return store


def test_no_earlier_form_of_a_drawn_prompt_that_comes_in_takes_its_place(with_earlier_ones):
    _decide(with_earlier_ones, "b" * 12)
    assert _drawn(with_earlier_ones, size=7, per_user_max=7)[1] == SEVEN


def test_a_drawn_prompt_that_is_dropped_stays_in_another_conversation_that_asked_it(with_earlier_ones):
    _decide(with_earlier_ones, "b" * 12)
    _drawn(with_earlier_ones, size=7, per_user_max=7)
    _decide(with_earlier_ones, "c" * 12, ["c3"])
    assert _drawn(with_earlier_ones, size=7, per_user_max=7)[1] == SEVEN - {"c3"} | {"again-1"}


@pytest.fixture
def after_a_night(tmp_path):
    """A store, what was drawn in it, and what was drawn after a night with new prompts."""
    store = _arena(tmp_path)
    before = _draw(store, size=12)[1]
    new = [_asked(f"n{n}", f"New {n}?", 500 + n, image_ids=[f"{900 + n:032x}"]) for n in range(40)]
    store.append("conversations", frame_of(Conversation, new))
    store.append("decisions", frame_of(Decision, map(decision, new)))
    store.append("topics", frame_of(TopicMember, [_member(item, n % 3) for n, item in enumerate(new)]))
    measure_clean(store, new, language={item.prompt_id: {"language": "en"} for item in new})
    return store, _names(before), _draw(store, size=12)[1]


def test_new_prompts_compete_with_the_drawn_ones(after_a_night):
    _, before, night = after_a_night
    assert _names(night) - before


def test_another_policy_keeps_the_new_prompts_that_are_drawn(after_a_night):
    store, _, night = after_a_night
    _decide(store, "b" * 12, sorted(_names(night))[:1])
    assert len(_names(_draw(store, size=12)[1]) & _names(night)) == 11


def test_another_size_draws_as_many_under_another_policy(after_a_night):
    store, _, night = after_a_night
    _decide(store, "b" * 12, sorted(_names(night))[:1])
    _draw(store, size=12)
    assert _draw(store, size=14)[0]["drawn"] == 14


def test_another_seed_draws_anew_under_another_policy(after_a_night):
    store, _, night = after_a_night
    _decide(store, "b" * 12, sorted(_names(night))[:1])
    after = _draw(store, size=12)[1]
    assert not _draw(store, size=12, seed=3)[1].equals(after)


@pytest.mark.parametrize("topics", [[], [-1]])
def test_without_topics_the_benchmark_is_empty(tmp_path, topics):
    item = conversation("c", image_ids=["1" * 32])
    members = [_member(item, topic) for topic in topics]
    store = store_with(tmp_path, conversations=[item], decisions=[decision(item)], topics=members)
    measure_clean(store, [item])
    counts, bench = _draw(store, size=3)
    assert (counts["drawn"], counts["asked"], counts["short"], counts["topics"]) == (0, 3, 3, 0)
    assert bench.is_empty()


def _store(folder, items, presets=()):
    decisions = [decision(i, preset_dataset="newyorker" if i.conversation_id in presets else None) for i in items]
    topics = {
        i.document_id: TopicMember(document_id=i.document_id, topic=0, probability=1, name="t", x=0, y=0) for i in items
    }
    store = store_with(folder, conversations=items, decisions=decisions, topics=topics.values())
    measure_clean(store, items)
    return store


def _asked(name, text, number=0, image="1", **changes):
    about = {"image_ids": [image * 32], "tstamp": NOON + timedelta(seconds=number), "user_id": None}
    return conversation(name, text, "Yes.", **about | changes)


def _drawn(store, **bench):
    settings = Settings(store=store.root, bench=BenchSettings(**{"size": 50, "hidden_size": 0} | bench))
    return draw_bench.fn(settings, VERSIONS).counts, set(store.read("bench")["conversation_id"])


def test_the_report_says_what_every_filter_left(tmp_path):
    items = [_asked(f"c{n}", f"Prompt {n}?", n, image=f"{n}") for n in range(6)]
    items += [_asked("text", "Only text?", 6, image_ids=[]), _asked("preset", "Funny?", 7, image="a")]
    items += [conversation("two", "One?", "Yes.", "Two?", "No.", image_ids=["b" * 32], user_id=None)]
    counts, drawn = _drawn(_store(tmp_path, items, presets={"preset"}))
    assert drawn == {f"c{n}" for n in range(6)}
    steps = ["kept", "single_turn", "with_image", "no_preset", "language_en", "in_a_topic", "no_repeat", "not_reserved"]
    assert [counts[step] for step in [*steps, "per_user_max", "drawn"]] == [9, 8, 7, 6, 6, 6, 6, 6, 6, 6]
    assert (counts["asked"], counts["short"]) == (50, 44)


@pytest.mark.parametrize(
    ("bench", "name"),
    [({"single_turn": False}, "two"), ({"needs_image": False}, "text"), ({"presets": True}, "preset")],
)
def test_every_filter_is_a_setting(tmp_path, bench, name):
    items = [_asked("text", "Only text?", image_ids=[]), _asked("preset", "Funny?", 1, image="a")]
    items += [conversation("two", "One?", "Yes.", "Two?", "No.", image_ids=["b" * 32], user_id=None)]
    assert _drawn(_store(tmp_path, items, presets={"preset"}), **bench)[1] == {name}


@pytest.mark.parametrize(
    ("settings", "names"),
    [({}, {"first", "long", "other"}), ({"repeats": True}, {"first", "words", "long", "longer", "other"})],
    ids=["usual", "repeats"],
)
def test_a_prompt_that_repeats_an_earlier_one_is_drawn_only_where_a_setting_says_so(tmp_path, settings, names):
    long = "In the triangle shown here two sides are equal and one angle has forty degrees, find the others"
    items = [
        _asked("first", "What is this?"),
        _asked("words", "WHAT is this", 1),
        _asked("long", long, 2, image="2"),
        _asked("longer", f"Please tell me. {long}", 3, image="3"),
        _asked("other", "What is this?", 4, image="4"),
    ]
    assert _drawn(_store(tmp_path, items), **settings)[1] == names


def test_reading_texts_a_few_rows_at_a_time_draws_the_same(tmp_path, monkeypatch):
    long = "In the triangle shown here two sides are equal and one angle has forty degrees, find the others"
    items = [_asked(f"c{n:02}", f"{long}, number {n // 2} of them?", n, image=f"{n % 7}") for n in range(30)]
    store = _store(tmp_path, [*items, *sides("vote", "Why?", "So.", image_ids=["a" * 32])])
    written = ("bench", "bench_funnel", "bench_measures", "hidden", "failure_rates")

    def drawn():
        settings = Settings(store=store.root, bench=BenchSettings(size=9, hidden_fraction=0.5))
        draw_bench.fn(settings, VERSIONS)
        find_failures.fn(settings, VERSIONS)
        return [whole(store, table).rows() for table in written]

    def some(self, table, columns=None):
        assert table not in ("conversations", "signals/text_embedding", "signals/language")
        return whole(self, table, columns)

    whole, slices = Store.read, Store.read_slices
    first = drawn()
    assert first[0] and first[3]
    monkeypatch.setattr(Store, "read", some)
    monkeypatch.setattr(Store, "read_slices", lambda self, table, columns=None, *_: slices(self, table, columns, 2))
    monkeypatch.setattr("tasks.bench.contamination.prompt_index.INDEXED_BYTES", 100)
    assert drawn() == first


def test_likeness_of_prompts_is_not_handed_on():
    prompts = pl.DataFrame({"document_id": ["a", "b", "c"]})
    pairs = pl.DataFrame({"document_id": ["b", "c"], "other_id": ["a", "b"]})
    assert first_of_alike(prompts, pairs)["document_id"].to_list() == ["a", "c"]


OF_ONE_USER = pl.DataFrame({"asked_id": list("abcd"), "user_id": ["u"] * 4, "topic": [0, 0, 0, 1]})


def test_one_user_s_prompts_are_thinned_from_the_largest_topics():
    assert "d" in capped(OF_ONE_USER, 1, 3, pl.Series(dtype=pl.String))["asked_id"]


def test_a_drawn_prompt_stays_when_its_user_s_prompts_are_thinned():
    assert capped(OF_ONE_USER, 1, 3, pl.Series(["b"]))["asked_id"].to_list() == ["b"]


@given(st.lists(st.tuples(st.sampled_from(["u", "v", None]), st.integers(0, 3)), max_size=30), st.integers(1, 5))
def test_only_what_a_user_asked_beyond_the_cap_is_lost_to_it(rows, cap):
    prompts = pl.DataFrame(
        [(f"d{n}", user, topic) for n, (user, topic) in enumerate(rows)],
        schema={"asked_id": pl.String, "user_id": pl.String, "topic": pl.Int32},
        orient="row",
    )
    left = capped(prompts, cap, 0, pl.Series(dtype=pl.String))
    for user in ("u", "v"):
        assert left.filter(user_id=user).height == min(cap, prompts.filter(user_id=user).height)
    assert left["user_id"].null_count() == prompts["user_id"].null_count()


@pytest.mark.parametrize(("size", "short"), [(8, None), (9, 1)])
def test_a_draw_is_short_only_of_what_the_cap_of_users_forbids(tmp_path, size, short):
    items = [_asked(f"c{n:02}", f"Prompt {n}?", n, user_id=f"{n % 4}") for n in range(40)]
    counts, drawn = _drawn(_store(tmp_path, items), size=size, per_user_max=2)
    assert (len(drawn), counts.get("short")) == (8, short)


def test_a_document_of_three_times_the_weight_comes_first_three_times_as_often():
    firsts = sum(draw({0: ["plain", "hard"]}, 1, seed, {"hard": 3.0})[0] == ["hard"] for seed in range(4000))
    assert abs(firsts / 4000 - 0.75) < 4 * math.sqrt(0.75 * 0.25 / 4000)


def test_harder_prompts_are_preferred_within_their_topic(tmp_path):
    items = [_asked(f"c{n:02}", f"Prompt {n}?", n) for n in range(40)]
    store = _store(tmp_path, items)
    hard = {item.document_id: dict.fromkeys(SIGNALS["criteria"].model_fields, True) for item in items[:20]}
    measure_clean(store, items, criteria=hard)
    names = {item.conversation_id for item in items[:20]}
    plain, weighted = (_drawn(store, size=20, quality_weight=weight)[1] for weight in (0.0, 5.0))
    assert len(weighted & names) == 20 > len(plain & names)


def test_quality_cannot_be_asked_for_where_nobody_measured_it(tmp_path):
    item = _asked("c", "Prompt?")
    store = _store(tmp_path, [item])
    measure_clean(store, [item], criteria={item.document_id: None})
    with pytest.raises(BadInput, match="no prompt has the signal 'criteria'"):
        _drawn(store, quality_weight=1.0)
