"""What a person would script to release a store's rows: read the parts, join the pictures to the rows, write."""

from collections.abc import Sequence
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq


def by_script(rows: pl.DataFrame, parts: Sequence[str], folder: Path, shard_rows: int) -> None:
    """Shards with pyarrow's defaults. Memory holds one, so a script at least as careful as most."""
    held = [pq.read_table(part, columns=["image_id"])["image_id"] for part in parts]
    for number, some in enumerate(rows.iter_slices(shard_rows)):
        ids = pa.array(some["image_ids"].list.first().to_list())
        wanted = [part for part, there in zip(parts, held, strict=True) if pc.any(pc.is_in(there, ids)).as_py()]
        read = pa.concat_tables(pq.read_table(part, columns=["image_id", "bytes", "format"]) for part in wanted)
        taken = read.take(pc.index_in(ids, read["image_id"])).combine_chunks()
        names = pc.binary_join_element_wise(taken["image_id"], taken["format"], ".").chunk(0)
        pictures = pa.StructArray.from_arrays([taken["bytes"].chunk(0), names], ["bytes", "path"])
        images = pa.ListArray.from_arrays(pa.array(range(len(ids) + 1), pa.int32()), pictures)
        table = some.drop("image_ids").to_arrow().append_column("images", images)
        pq.write_table(table, folder / f"{number}.parquet")
