"""Frames that wait on disk come back as they were."""

import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.distinct import Distinct
from tasks.store.spooled_frames import SpooledFrames

SCHEMA = {"name": pl.String, "share": pl.Int64, "turns": pl.List(pl.Struct({"role": pl.String, "n": pl.Int32}))}
TEXTS = st.none() | st.text(max_size=30)
TURNS = st.none() | st.lists(st.fixed_dictionaries({"role": TEXTS, "n": st.none() | st.integers(0, 9)}), max_size=3)
ROWS = st.lists(st.fixed_dictionaries({"name": TEXTS, "share": st.integers(0, 3), "turns": TURNS}), max_size=8)


@settings(max_examples=50)
@given(batches=st.lists(ROWS, max_size=4))
def test_rows_come_back_by_number_in_the_order_they_were_added(batches):
    frames = [pl.DataFrame(rows, schema=SCHEMA) for rows in batches]
    spooled = SpooledFrames(pl.DataFrame(schema=SCHEMA).drop("share"))
    for frame in frames:
        spooled.add_parts(frame, "share")
    whole = pl.concat([pl.DataFrame(schema=SCHEMA), *frames])
    for number in range(4):
        wanted = whole.filter(share=number).drop("share")
        assert spooled.read(number).equals(wanted)
        assert spooled.read(number, ["name"]).equals(wanted.select("name"))


@given(st.lists(st.none() | st.sampled_from("abcdefgh"), max_size=40), st.integers(1, 7))
def test_different_texts_are_counted_once_however_they_come(values, size):
    counted = Distinct()
    for start in range(0, len(values), size):
        counted.add(pl.Series(values[start : start + size], dtype=pl.String))
    assert len(counted) == len({value for value in values if value is not None})
