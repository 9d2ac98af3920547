"""Frames as Parquet: declared columns and types, laid out for the Hub; joins larger than memory keep them."""

from pathlib import Path

import polars as pl
import pyarrow as pa
import pytest

from schemas.items.image import Image
from schemas.items.reject import Reject
from schemas.release import ReleasedConversation
from schemas.row import arrow_schema
from tasks.storage.parquet import (
    FRAME_BYTES,
    compact,
    conform,
    encode_parquet,
    parquet_options,
    parquet_writer,
    read_parquet_groups,
    read_parquet_schema,
    together,
)
from tasks.storage.tables import frame_of
from tests.builders import drawn_image, image

SCHEMA = arrow_schema(Reject)


TAKEN = {"number": [1, None, 3], "text": ["a" * 50, None, ""], "list": [[1, 2], [], None], "flag": [True] * 3}


def test_a_compact_frame_has_the_rows_it_was_made_of():
    taken = pl.DataFrame(TAKEN)
    copied = compact(taken)
    assert copied.equals(taken) and copied.schema == taken.schema


def test_a_compact_frame_shares_no_memory_with_what_it_was_made_of():
    taken = pl.DataFrame(TAKEN)
    buffers = [
        {each.address for column in frame.to_arrow().columns for each in column.chunk(0).buffers() if each}
        for frame in (taken, compact(taken))
    ]
    assert buffers[0].isdisjoint(buffers[1])


def _frame(**columns) -> pl.DataFrame:
    rows = {"source": ["a.json"], "line": [1], "reason": ["not_json"], "evidence": [""]}
    return pl.DataFrame(rows | columns)


def test_a_frame_gets_the_declared_types_in_the_declared_order():
    table = conform(_frame(line=pl.Series([1], dtype=pl.Int8)).select("evidence", "line", "source", "reason"), SCHEMA)
    assert table.schema.equals(SCHEMA, check_metadata=True)


def test_a_missing_column_is_an_error():
    with pytest.raises(pl.exceptions.ColumnNotFoundError, match="reason"):
        conform(_frame().drop("reason"), SCHEMA)


@pytest.mark.parametrize("line", [["one"], [1.5]])
def test_a_value_that_does_not_fit_is_an_error(line):
    with pytest.raises(pa.ArrowInvalid):
        conform(_frame(line=line), SCHEMA)


def test_encoding_twice_gives_the_same_bytes():
    table = conform(frame_of(Image, [image(drawn_image(seed)) for seed in range(3)]), arrow_schema(Image))
    assert encode_parquet(table) == encode_parquet(table)


LEAVES = {
    "images.list.element.bytes": "none",
    "images.list.element.path": "zstd",
    "conversation.list.element.content": "zstd",
}
"""Column of released rows -> how it is compressed."""


@pytest.mark.parametrize("leaf", LEAVES)
def test_everything_but_the_bytes_of_images_is_compressed(leaf):
    assert parquet_options(arrow_schema(ReleasedConversation))["compression"][leaf] == LEAVES[leaf]


@pytest.mark.parametrize("leaf", ["images.list.element.bytes", "conversation.list.element.content"])
def test_long_values_are_in_no_dictionary_or_statistics(leaf):
    options = parquet_options(arrow_schema(ReleasedConversation))
    assert leaf not in options["use_dictionary"] + options["write_statistics"]


def test_small_frames_of_the_same_columns_are_joined_in_order():
    small, other = [_frame(line=[number]) for number in range(5)], _frame().drop("evidence")
    (joined, last) = together([*small, other])
    assert joined.equals(pl.concat(small)) and last.equals(other)


def test_large_frames_are_not_joined():
    large = [_frame(line=[number], evidence=["x" * (FRAME_BYTES + 1)]) for number in range(3)]
    assert [each["line"].to_list() for each in together(large)] == [[0], [1], [2]]


def test_no_frames_are_joined_to_none():
    assert list(together([])) == []


@pytest.fixture
def two_groups(tmp_path) -> Path:
    """A file of rejects in two groups."""
    path = tmp_path / "x.parquet"
    with parquet_writer(path, SCHEMA) as file:
        for lines in ([1, 2], [3]):
            file.write(conform(frame_of(Reject, [_reject(line) for line in lines]), SCHEMA))
    return path


def test_a_file_is_read_in_the_groups_it_was_written_in(two_groups):
    assert [group["line"].to_list() for group in read_parquet_groups(two_groups, ["line"])] == [[1, 2], [3]]


def test_a_file_keeps_its_schema(two_groups):
    assert read_parquet_schema(two_groups).equals(SCHEMA, check_metadata=True)


def _reject(line: int) -> Reject:
    return Reject(source="a.json", line=line, reason="not_json", evidence="")
