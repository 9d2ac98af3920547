"""Rows of a configuration -> Parquet shards that `datasets` and the Hub's viewer open as they are."""

import os
from collections.abc import Iterable, Iterator
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl
import pyarrow as pa
from datasets import Features, Image, List

from schemas.release import CONFIGS
from schemas.row import arrow_schema
from tasks.release.feature_words import feature_schema
from tasks.release.picture_parquet import Group, PictureParquet, encode_group
from tasks.release.picture_places import Numbers, PicturePlaces
from tasks.running.parallel import map_ordered

LAYOUT = 4
"""Of the files, for the manifest; another one where the same rows would become other bytes."""
SHARD_BYTES = 256 * 1024 * 1024
ROW_GROUP_BYTES = 32 * 1024 * 1024
THREADS = min(4, os.cpu_count() or 1)
"""Row groups whose texts are encoded while pictures of another are written; twice as many wait in memory."""
ROW_BYTES = 1_000
"""What a row weighs beside its pictures and messages, roughly: enough to plan shards with."""


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
    return feature_schema(features(config))


class _Stretch(NamedTuple):
    """Some rows that follow each other, such as those of a row group."""

    rows: pl.DataFrame
    shown: Numbers
    """Pictures of each row."""
    places: Numbers
    """Where these are, one row's after the other's."""
    shard: int = 0


def write_shards(config: str, frames: Iterable[pl.DataFrame], pictures: PicturePlaces, folder: Path) -> list[Path]:
    """Write `train-00000-of-0000N.parquet` files; one file, without rows, when there are none.

    Frames follow each other in the order of the release. Memory holds one of them, and a few row groups without
    their pictures.
    """
    folder.mkdir(parents=True, exist_ok=True)
    schema = shard_schema(config)

    def encode(stretch: _Stretch) -> tuple[_Stretch, Group]:
        rows = _without_pictures(stretch, pictures, schema)
        return stretch, encode_group(rows, stretch.shown, pictures.sizes(stretch.places))

    written: list[Path] = []
    encoded = map_ordered(encode, _stretches(frames, pictures), THREADS)
    for number, groups in groupby(encoded, key=lambda each: each[0].shard):
        written.append(folder / f"{number:05d}.parquet")
        with PictureParquet(written[-1], schema) as file:
            for stretch, group in groups:
                file.write(group, pictures.pieces(stretch.places))
    if not written:
        written.append(folder / "00000.parquet")
        PictureParquet(written[-1], schema).close()
    return [path.rename(folder / f"train-{path.stem}-of-{len(written):05d}.parquet") for path in written]


def _stretches(frames: Iterable[pl.DataFrame], pictures: PicturePlaces) -> Iterator[_Stretch]:
    """All rows, cut where a shard or a row group would grow beyond its size; each has one row at least."""
    waiting: list[_Stretch] = []
    shard = shard_bytes = group_bytes = 0
    for rows in frames:
        frame, first = _placed(rows, pictures), 0
        for row, size in enumerate(_row_bytes(frame, pictures)):
            closes = shard_bytes > 0 and shard_bytes + size > SHARD_BYTES
            if closes or (group_bytes and group_bytes + size > ROW_GROUP_BYTES):
                yield _joined([*waiting, _between(frame, first, row)], shard)
                waiting, first, group_bytes = [], row, 0
            if closes:
                shard, shard_bytes = shard + 1, 0
            shard_bytes += size
            group_bytes += size
        if first < rows.height:
            waiting.append(_between(frame, first, rows.height))
    if waiting:
        yield _joined(waiting, shard)


def _placed(rows: pl.DataFrame, pictures: PicturePlaces) -> _Stretch:
    ids = rows["image_ids"]
    return _Stretch(
        rows,
        ids.list.len().to_numpy().astype(np.int64),
        pictures.places(ids.explode(empty_as_null=False).to_list()),
    )


def _between(frame: _Stretch, first: int, last: int) -> _Stretch:
    ends = np.concatenate([[0], np.cumsum(frame.shown)])
    return _Stretch(frame.rows[first:last], frame.shown[first:last], frame.places[ends[first] : ends[last]])


def _joined(stretches: list[_Stretch], shard: int) -> _Stretch:
    rows, shown, places, _ = zip(*stretches, strict=True)
    return _Stretch(pl.concat(rows), np.concatenate(shown), np.concatenate(places), shard)


def _row_bytes(frame: _Stretch, pictures: PicturePlaces) -> list[int]:
    """What each row weighs in memory, roughly."""
    ends = np.concatenate([[0], np.cumsum(pictures.sizes(frame.places))])
    shown = np.diff(ends[np.concatenate([[0], np.cumsum(frame.shown)])])
    sizes: list[int] = (ROW_BYTES + shown + _message_bytes(frame.rows)).tolist()
    return sizes


def _message_bytes(rows: pl.DataFrame) -> Numbers:
    """Of each row, the bytes of all messages as UTF-8."""
    columns = [pl.lit(0, pl.UInt32)]
    for name, kind in rows.schema.items():
        if kind == pl.List(pl.Struct):
            columns.append(pl.col(name).list.eval(pl.element().struct.field("content").str.len_bytes()).list.sum())
    return rows.select(pl.sum_horizontal(columns).cast(pl.Int64)).to_series().to_numpy()


def _without_pictures(stretch: _Stretch, pictures: PicturePlaces, schema: pa.Schema) -> pa.Table:
    """Rows as `datasets` stores them, lists of images with empty bytes."""
    field = schema.field("images")
    names = pa.array(pictures.names(stretch.places), pa.string())
    nothing = pa.array([b""] * len(names), pa.binary())
    listed = pa.StructArray.from_arrays([nothing, names], fields=list(field.type.value_type))
    ends = np.concatenate([[0], np.cumsum(stretch.shown)]).astype(np.int32)
    images = pa.ListArray.from_arrays(pa.array(ends), listed, type=field.type)
    others = pa.table(stretch.rows.drop("image_ids"))  # polars' own conversion takes longer
    return others.append_column(field, images).select(schema.names).cast(schema)
