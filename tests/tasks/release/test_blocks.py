"""Joining some conversations at a time gives what joining all at once gives."""

import polars as pl
import pytest

from tasks.storage.queries import blocks
from tasks.storage.queries.blocks import Blocks, battle_blocks
from tests.builders import gathered_rows
from tests.small_store import small_store
from tests.tasks.bench.contamination.test_guard import ALIKE, alike_store

PARTED = ("conversations", "battles", "decisions", "topics", "signals/tokens", "signals/language", "signals/refusal")


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """The small store with votes on several days."""
    made = small_store(tmp_path_factory.mktemp("blocks"))
    made.replace("battles", _on_days(made.read("battles")))
    return made


def _on_days(battles):
    days = pl.duration(days=pl.int_range(pl.len(), dtype=pl.Int64).shuffle(seed=1))
    return battles.with_columns(tstamp=pl.col("tstamp") + days)


@pytest.fixture(scope="module")
def whole(store):
    return gathered_rows(store)


@pytest.mark.parametrize("block_rows", [2, 9])
def test_blocks_of_any_size_give_the_same_rows_in_the_same_order(store, whole, block_rows):
    found = gathered_rows(store, block_rows=block_rows)
    assert found.withheld_for_bench == whole.withheld_for_bench == 3
    for config, rows in whole.rows.items():
        assert found.rows[config].equals(rows), config


def test_parts_in_any_order_and_number_give_the_same_rows(tmp_path, whole):
    store = small_store(tmp_path)
    store.replace("battles", _on_days(store.read("battles")))
    for table in PARTED:
        rows = store.read(table).sample(fraction=1, shuffle=True, seed=3)
        store.replace(table, rows[:0])
        for some in rows.iter_slices(4):
            store.append(table, some)
    found = gathered_rows(store, block_rows=5)
    for config, rows in whole.rows.items():
        assert found.rows[config].equals(rows), config


def test_few_votes_do_not_read_all_conversations_at_once(store):
    (block,) = battle_blocks(store, 10)
    assert block.read("conversations").height == 2 * block.read("battles").height < store.read("conversations").height


def test_blocks_of_long_conversations_hold_fewer_and_give_the_same_rows(store, whole, monkeypatch):
    """A block's memory is bounded however long conversations are."""
    before = Blocks(store, "conversations", 8).number
    assert Blocks(store, "battles", 4).number == 2
    ((rows, size),) = store.part_sizes("conversations")
    monkeypatch.setattr(blocks, "ROW_BYTES", size / rows / 4)
    assert Blocks(store, "conversations", 8).number > before
    assert Blocks(store, "battles", 4).number == store.height("battles")
    found = gathered_rows(store, block_rows=8)
    for config, frame in whole.rows.items():
        assert found.rows[config].equals(frame), config


def test_a_store_without_rows_is_one_block(tmp_path):
    store = small_store(tmp_path)
    store.replace("battles", store.read("battles")[:0])
    assert [block.read("battles").height for block in battle_blocks(store)] == [0]
    assert gathered_rows(store).rows["battle"].is_empty()


@pytest.mark.parametrize("hidden", [False, True], ids=["public", "hidden"])
@pytest.mark.parametrize("what", ALIKE)
def test_what_is_alike_to_a_prompt_of_another_block_is_withheld(tmp_path, what, hidden):
    store = alike_store(tmp_path, *ALIKE[what], hidden=hidden)
    found = gathered_rows(store, block_rows=1)
    assert Blocks(store, "conversations", 1).number == 2
    assert found.rows["chat"].is_empty()
    assert found.rows["battle"]["in_bench"].all()
