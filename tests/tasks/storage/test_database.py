"""Joins larger than memory: what goes in comes out, and errors of the tables stay what they are."""

import polars as pl
import pytest

from schemas.errors import StoreUnwell
from tasks.storage.database import TemporaryDatabase

ROWS = pl.DataFrame({"id": ["a\0b", "𐀀", "", None], "vector": [[1.0, 2.0], None, [], [0.5]]})


def test_rows_come_back_as_they_were_in_their_order():
    database = TemporaryDatabase()
    database.load("signals/x", [ROWS[:0], ROWS[:2], ROWS[2:]])
    assert database.read('SELECT * EXCLUDE place FROM "signals/x" ORDER BY place').equals(ROWS)
    batches = database.read_batches('SELECT id FROM "signals/x" ORDER BY place', 3)
    assert pl.concat(batches)["id"].to_list() == ROWS["id"].to_list()


def test_an_error_of_the_store_is_not_made_another_one():
    def lost():
        yield ROWS
        raise StoreUnwell("the store is damaged")

    with pytest.raises(StoreUnwell, match="damaged"):
        TemporaryDatabase().load("rows", lost())
