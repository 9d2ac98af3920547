"""Vectors are arrays of one size on disk; models of several sizes still share a table."""

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tasks.tables import Store
from tests.builders import facts_frame

TABLE = "signals/image_embedding"


def facts(size, version, *content_ids):
    return facts_frame("image_embedding", {each: {"vector": [1.0] * size} for each in content_ids}, version)


def stored_types(store):
    return [pq.read_schema(store.at(f"tables/{TABLE}/{part}")).field("vector").type for part in store.parts(TABLE)]


@pytest.mark.parametrize("size", [1, 512, 1280])
def test_vectors_are_stored_as_arrays_of_one_size(tmp_path, size):
    store = Store.open(str(tmp_path))
    store.append(TABLE, facts(size, "1", "a", "b"))
    assert stored_types(store) == [pa.list_(pa.float32(), size)]
    assert store.read(TABLE).equals(facts(size, "1", "a", "b"))
    assert pl.concat(store.read_slices(TABLE, rows=1)).equals(facts(size, "1", "a", "b"))


def test_two_models_share_a_table(tmp_path):
    store = Store.open(str(tmp_path))
    store.append(TABLE, facts(512, "one", "a"))
    store.append(TABLE, facts(1280, "other", "a"))
    assert store.read(TABLE).group_by("version").agg(pl.col("vector").list.len().first()).sort("version").rows() == [
        ("one", 512),
        ("other", 1280),
    ]


def test_vectors_of_several_sizes_in_one_part_are_stored_as_they_are(tmp_path):
    store = Store.open(str(tmp_path))
    mixed = pl.concat([facts(2, "one", "a"), facts(3, "other", "a")])
    store.append(TABLE, mixed)
    assert stored_types(store) == [pa.list_(pa.float32())]
    assert store.read(TABLE).equals(mixed)
