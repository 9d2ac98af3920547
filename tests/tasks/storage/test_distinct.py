"""A set of ids that takes 8 bytes each."""

import polars as pl
import pytest

from tasks.storage.content_id import Distinct


def of(*ids: str | None) -> Distinct:
    made = Distinct(7)
    made.add(pl.Series(ids, dtype=pl.String))
    return made


def test_it_holds_what_was_added_in_however_many_shares():
    made = Distinct(7)
    for start in range(0, 600_000, 50_000):
        made.add(pl.Series([f"{number:032x}" for number in range(start, start + 50_000)]))
    asked = pl.Series([f"{number:032x}" for number in range(599_000, 601_000)])
    assert made.has(asked).to_list() == [True] * 1000 + [False] * 1000
    assert made._known.nbytes == 8 * 600_000


@pytest.mark.parametrize("ids", [(), ("a",)])
def test_null_is_never_in_it(ids):
    rows = pl.DataFrame({"id": [None, "a"]}, schema={"id": pl.String})
    assert rows.select(of(*ids, None).hold(pl.col("id")))["id"].to_list() == [False, "a" in ids]


def test_of_lists_all_must_be_in_it():
    rows = pl.DataFrame({"ids": [["a", "b"], ["a", "c"], []]}, schema={"ids": pl.List(pl.String)})
    assert rows.select(of("a", "b").hold_all(pl.col("ids")))["ids"].to_list() == [True, False, True]
