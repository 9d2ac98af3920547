"""The hidden split: reserved by what was asked and when, drawn for a month, and retired after some."""

from datetime import UTC, datetime

import pytest

from schemas.items.topic import TopicMember
from schemas.settings import BenchSettings, Settings
from tasks.bench.steps import draw_bench
from tasks.storage.tables import Store
from tests.builders import VERSIONS, conversation, decision, gathered_rows, measure_clean, store_with

MONTHS = ("2024-05", "2024-06", "2024-07", "2024-08", "2024-09")
HALF = {"hidden_fraction": 0.5, "hidden_months": 2}


def _asked(month, number, **changes):
    year, _, name = month.partition("-")
    about = {
        "image_ids": [f"{MONTHS.index(month)}{number:031x}"],
        "tstamp": datetime(int(year), int(name), 10, tzinfo=UTC),
    }
    return conversation(f"{month}-{number:02}", f"Prompt {month} {number}?", "Yes.", **about | changes)


def _arena(folder, months=MONTHS, more=()):
    """Twenty prompts a month in two topics."""
    items = [_asked(month, number) for month in months for number in range(20)] + list(more)
    documents = {item.document_id: number % 2 for number, item in enumerate(items)}
    topics = [
        TopicMember(document_id=d, topic=t, probability=1.0, name="t", x=0.0, y=0.0) for d, t in documents.items()
    ]
    store = store_with(folder, conversations=items, decisions=[decision(item) for item in items], topics=topics)
    measure_clean(store, items)
    return store


def _draw(store, seed=0, **bench):
    report = draw_bench.fn(Settings(store=store.root, seed=seed, bench=BenchSettings(**HALF | bench)), VERSIONS)
    return report.counts


def _released(store, **bench):
    return gathered_rows(store, BenchSettings(**HALF | bench))


def _hidden(store, only_drawn=True):
    rows = store.read("hidden")
    return set(rows.filter("drawn")["document_id"] if only_drawn else rows["document_id"])


@pytest.fixture(scope="module")
def split(tmp_path_factory):
    """A store with a benchmark and a hidden split, and the counts of their draw. Do not write to it."""
    store = _arena(tmp_path_factory.mktemp("split"))
    return store, _draw(store, size=40, hidden_size=8)


def test_as_many_prompts_as_asked_for_are_hidden(split):
    assert split[1]["hidden"] == 8


def test_more_prompts_than_are_hidden_are_reserved(split):
    store, counts = split
    assert 8 < len(_hidden(store, only_drawn=False)) == counts["reserved"] < 35


def test_nothing_reserved_is_in_the_benchmark(split):
    store, _ = split
    assert not _hidden(store, only_drawn=False) & set(store.read("bench")["document_id"])


def test_nothing_reserved_is_released(split):
    store, _ = split
    secret = set(store.read("conversations").filter(_on(_hidden(store, only_drawn=False)))["conversation_id"])
    rows = _released(store).rows
    assert not secret & {*rows["chat"]["conversation_id"], *rows["bench"]["question_id"]}


def test_all_that_is_not_reserved_is_released(split):
    store, _ = split
    rows = _released(store).rows
    assert rows["chat"].height + rows["bench"].height + len(_hidden(store, only_drawn=False)) == 100


@pytest.mark.parametrize("late", ["came in", "was let in"])
def test_a_prompt_that_will_be_reserved_is_in_no_release_before_the_next_sample(tmp_path, late):
    store = _arena(tmp_path)
    if late == "came in":  # after the sample
        _draw(_arena(tmp_path / "before", MONTHS[:4]))
        hidden = Store.open(str(tmp_path / "before" / "store")).read("hidden")
    else:  # by a policy that is wider than that of the sample
        _draw(store)
        hidden = store.read("hidden")[::2]
    store.replace("hidden", hidden)
    out = _released(store).rows["chat"]["conversation_id"]
    _draw(store)
    secret = store.read("conversations").filter(_on(_hidden(store, only_drawn=False)))["conversation_id"]
    assert secret.len() > hidden.height
    assert not set(secret) & set(out)


def _on(documents):
    import polars as pl

    return pl.col("document_id").is_in(list(documents))


def test_the_hidden_split_takes_as_many_from_one_topic_as_from_another(split):
    assert sorted(split[0].read("hidden").filter("drawn")["topic"].to_list()) == [0] * 4 + [1] * 4


def test_a_prompt_is_reserved_in_the_months_after_it_was_asked(split):
    september = split[0].read("hidden")
    assert set(september["first_month"]) == {"2024-08", "2024-09"}
    assert set(september["last_month"]) == {"2024-09", "2024-10"}


def test_nothing_is_reserved_once_its_months_are_over(tmp_path):
    store = _arena(tmp_path)
    _draw(store)
    _draw(store, hidden_epoch="2024-11")
    assert store.read("hidden").is_empty()


def test_what_is_hidden_tonight_was_in_no_release_of_an_earlier_night(tmp_path):
    released = set()
    for last in range(1, len(MONTHS) + 1):
        store = _arena(tmp_path / str(last), MONTHS[:last])
        _draw(store, hidden_size=5)
        assert not _hidden(store, only_drawn=False) & released
        chat = _released(store).rows["chat"]["conversation_id"]
        rows = store.read("conversations")
        released |= set(rows.filter(rows["conversation_id"].is_in(chat.implode()))["document_id"])


@pytest.fixture(scope="module")
def new_month(tmp_path_factory):
    """What was hidden in August, what is hidden in September, and the changes between them."""
    store = _arena(tmp_path_factory.mktemp("month"))
    _draw(store, hidden_size=6, hidden_epoch="2024-08")
    before = _hidden(store)
    _draw(store, hidden_size=6, hidden_epoch="2024-09")
    return before, _hidden(store), store.read("hidden_changes")


def test_a_new_month_says_what_enters(new_month):
    before, after, changes = new_month
    assert set(changes.filter(change="enters")["document_id"]) == after - before


def test_a_new_month_says_what_retires(new_month):
    before, after, changes = new_month
    assert set(changes.filter(change="retires")["document_id"]) == before - after


def test_changes_of_a_new_month_name_that_month(new_month):
    assert set(new_month[2]["epoch"]) == {"2024-09"}


@pytest.mark.parametrize("why", ["first asked in 2024-09", "asked in 2024-07: its 2 months are over"])
def test_a_new_month_says_why_a_prompt_enters_or_retires(new_month, why):
    assert why in new_month[2]["why"].to_list()


def test_the_seed_of_a_run_changes_nothing_hidden(tmp_path):
    store = _arena(tmp_path)
    _draw(store, hidden_size=6)
    before = store.read("hidden")
    _draw(store, hidden_size=6, seed=5)
    assert store.read("hidden").equals(before)


def test_a_prompt_that_was_asked_before_stays_as_old_as_it_is(tmp_path):
    again = _asked("2024-09", 90, image_ids=[f"0{1:031x}"])
    turns = _asked("2024-05", 1)
    again = turns.model_copy(update={"conversation_id": "again", "tstamp": again.tstamp, "day": again.day})
    store = _arena(tmp_path, more=[again])
    _draw(store, hidden_fraction=0.5)
    assert again.document_id not in _hidden(store, only_drawn=False)


def test_a_prompt_that_somebody_else_asked_in_other_words_is_not_hidden(tmp_path):
    store = _arena(tmp_path)
    _draw(store)
    victim = store.read("conversations").filter(_on(_hidden(store)))["conversation_id"].sort()[0]
    month, _, number = victim.rpartition("-")
    asked = _asked(month, int(number))
    alike = _asked(month, 99, image_ids=asked.image_ids)
    text = asked.turns[0].content.upper() + "!!"
    turns = [alike.turns[0].model_copy(update={"content": text}), alike.turns[1]]
    more = _arena(tmp_path / "more", more=[alike.model_copy(update={"turns": turns})])
    _draw(more)
    assert asked.document_id in _hidden(more, only_drawn=False), "it is reserved, and would be hidden otherwise"
    assert asked.document_id not in _hidden(more)


@pytest.mark.parametrize("bench", [{"hidden_size": 0}, {"hidden_fraction": 1e-9}])
def test_without_a_hidden_split_nothing_is_reserved(tmp_path, bench):
    store = _arena(tmp_path)
    counts = _draw(store, **bench)
    assert counts["reserved"] == counts["hidden"] == 0
    assert _released(store, **bench).withheld_for_bench == counts["drawn"]
