"""Rows of a configuration -> Parquet shards that `datasets` and the Hub's viewer open as they are."""

import os
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pyarrow as pa
from datasets import Features, Image, List

from schemas.release import CONFIGS
from schemas.row import arrow_schema
from tasks.parallel import map_ordered
from tasks.release.spool import SpooledImages
from tasks.tables import ParquetFile

SHARD_BYTES = 256 * 1024 * 1024
ROW_GROUP_BYTES = 32 * 1024 * 1024
THREADS = min(4, os.cpu_count() or 1)
"""Shards that are written at once. Each holds one row group twice, as a table and as pages."""
ROW_BYTES = 2_000
"""What a row weighs beside its pictures, roughly: enough to plan shards with."""


def shards(folder: Path, config: str) -> list[Path]:
    """The Parquet files of a configuration, in order."""
    return sorted((folder / config / "data").glob("train-*.parquet"))


def features(config: str) -> Features:
    """The `datasets` features of a configuration, from its declared row."""
    described = Features.from_arrow_schema(arrow_schema(CONFIGS[config]))
    described["images"] = List(Image())
    return described


def shard_schema(config: str) -> pa.Schema:
    """Arrow schema of a shard, with the metadata that lets `datasets` decode the pictures."""
    return features(config).arrow_schema


def write_shards(config: str, rows: pl.DataFrame, images: SpooledImages, folder: Path) -> list[Path]:
    """Write `train-00000-of-0000N.parquet` files; one file, without rows, when there are none."""
    sizes = [ROW_BYTES + sum(images.size(i) for i in ids) for ids in rows["image_ids"].to_list()]
    shards = list(_cut(sizes, 0, len(sizes), SHARD_BYTES)) or [(0, 0)]
    folder.mkdir(parents=True, exist_ok=True)
    schema = shard_schema(config)

    def write(number: int) -> Path:
        path = folder / f"train-{number:05d}-of-{len(shards):05d}.parquet"
        with ParquetFile(path, schema) as file:
            for first, last in _cut(sizes, *shards[number], ROW_GROUP_BYTES):
                file.write(_with_images(rows[first:last], images, schema))
        return path

    return list(map_ordered(write, range(len(shards)), THREADS))


def _cut(sizes: list[int], start: int, end: int, limit: int) -> Iterator[tuple[int, int]]:
    """Consecutive stretches of rows whose sizes add up to about `limit`."""
    first, total = start, 0
    for row in range(start, end):
        if total and total + sizes[row] > limit:
            yield first, row
            first, total = row, 0
        total += sizes[row]
    if first < end:
        yield first, end


def _with_images(rows: pl.DataFrame, images: SpooledImages, schema: pa.Schema) -> pa.Table:
    pictures = images.column(rows["image_ids"], schema.field("images").type)
    filled = rows.drop("image_ids").to_arrow().append_column(schema.field("images"), pictures)
    return filled.select(schema.names).cast(schema)
