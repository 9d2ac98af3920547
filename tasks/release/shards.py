"""Writes the rows of a configuration to Parquet shards that `datasets` and the Hub's viewer can open.

Which row starts a shard is decided by a checksum of its id, so that rows that come, go or change leave all other shards
as they were. A shard whose rows an earlier release has is not written again.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator
from functools import cache, lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol
from zlib import crc32

import polars as pl
import pyarrow as pa

from schemas.release import CONFIGS, ROW_KEYS
from schemas.row import arrow_schema
from tasks.images.decode import released_file
from tasks.storage.parquet import compact, parquet_writer, read_parquet_groups
from tasks.storage.queries.signals import GROUPS_IN_MEMORY
from tasks.storage.tables import Store

if TYPE_CHECKING:  # takes 0.4 seconds to load, and who reads a release needs it not
    from datasets import Features

RELEASE_LAYOUT = 12
"""Version of the file layout, for the manifest; raised when the same rows give other bytes, cards other sections, or
reports another page, style and words included."""
SHARDS, SHARD_ROWS_MAX = 128, 4096
"""A configuration has about so many shards, so that a night changes a small share of it; see `shard_rows`."""
FEW = SHARD_ROWS_MAX // 2
"""A configuration with fewer rows is one shard. With images of 125 KB they fill one file of `SHARD_BYTES`, and writing
them anew takes a CPU second, half of which goes into finding out which of 128 shards changed."""
SHARD_BYTES = 256 * 1024 * 1024
"""Rows of a shard that take more are written as several files."""
ROW_GROUP_BYTES = 32 * 1024 * 1024
PLAIN_ROW_BYTES = 1_000
"""Rough size of a row without its images and messages, to plan row groups with; raise `RELEASE_LAYOUT` with it."""
METADATA_KEY = b"huggingface"
"""Key of the Parquet metadata in which `datasets` looks for the column types."""
_IMAGE_TABLES = ("images", "redacted_images")


def shard_files(folder: Path, config: str) -> list[Path]:
    """The Parquet files of a configuration, in order; a pipe, which would be read for ever, is none."""
    return sorted(path for path in (folder / config / "data").glob("train-*.parquet") if path.is_file())


def released_prompts(folder: Path) -> Iterator[str]:
    """Ids of the prompts of `bench` in a folder of a release."""
    for shard in shard_files(folder, "bench"):
        for group in read_parquet_groups(shard, ["question_id"]):
            yield from group["question_id"]


def features(config: str) -> "Features":
    """The `datasets` features of a configuration, from its row type."""
    return features_of(arrow_schema(CONFIGS[config]))


def features_of(schema: pa.Schema) -> "Features":
    """The `datasets` features of an Arrow schema with a column `images`."""
    from datasets import Features, Image, List

    described = Features.from_arrow_schema(schema.remove_metadata())
    described["images"] = List(Image())
    return described


def shard_schema(config: str) -> pa.Schema:
    """Arrow schema of a shard, with the metadata that lets `datasets` decode the images."""
    return feature_schema(features(config))


def feature_schema(described: "Features") -> pa.Schema:
    """Arrow schema of these columns with the metadata that lets `datasets` decode the images.

    Lists are written as JSON lists of one element, which all versions of `datasets` read; versions before 4 refuse
    files with `List`.
    """
    words = json.dumps({"info": {"features": _older(described.to_dict())}})
    return described.arrow_schema.with_metadata({METADATA_KEY: words})


def _older(described: Any) -> Any:
    if not isinstance(described, dict):
        return described
    if described.get("_type") == "List":
        return [_older(described["feature"])]
    return {name: _older(feature) for name, feature in described.items()}


class ReleasedImages:
    """Reads the images of rows from a store. Memory: 64 bytes for each image, and the row groups that were read last.

    Unlike `StoredImages`, whose index is a dict, it stays small with millions of images.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        # a part is one of the stored images, or of their redacted forms; its number is `part` of the index
        self._parts = [(table, part) for table in _IMAGE_TABLES for part in store.parts(table)]
        # rows and bytes of each part, in the same order
        sizes = [size for table in _IMAGE_TABLES for size in store.part_sizes(table)]
        kinds = {"image_id": pl.String, "format": pl.String, "part": pl.UInt32}
        kinds |= {"group": pl.UInt32, "mean_bytes": pl.UInt32}
        frames = [pl.DataFrame(schema=kinds)]
        # a row of the index is one image: its format, where it lies, and the mean size of images of its part
        for number, (table_and_part, (count, total)) in enumerate(zip(self._parts, sizes, strict=True)):
            mean = pl.lit(total // max(1, count), pl.UInt32)
            image_rows = store.read_part(*table_and_part, ["image_id", "format"])
            image_rows = image_rows.with_columns(
                part=pl.lit(number, pl.UInt32), group=store.group_of_rows(*table_and_part), mean_bytes=mean
            )
            frames.append(image_rows)
        self._index = pl.concat(frames)
        self._group = lru_cache(GROUPS_IN_MEMORY)(self._read_group)

    def formats(self, image_ids: pl.Series) -> list[str]:
        """The format in which each image of some rows is stored, ordered by id."""
        return self._of(image_ids).sort("image_id")["format"].to_list()

    def _of(self, image_ids: pl.Series) -> pl.DataFrame:
        """The places of these images; `image_ids` has a list of ids a row."""
        distinct_ids = image_ids.explode().drop_nulls().unique()
        return self._index.filter(pl.col("image_id").is_in(distinct_ids.implode())).unique("image_id", keep="first")

    def stretches(self, rows: pl.DataFrame) -> Iterator[tuple[pl.DataFrame, dict[str, dict[str, Any]]]]:
        """Split rows with `image_ids` into slices with about a row group of images each; yields (slice, images by id).

        Images are as `datasets` stores them: {"bytes": content, "path": "CONTENT_ID.FORMAT"}. Raises KeyError for an
        image that is not stored.
        """
        places = self._of(rows["image_ids"])
        weights = dict(places.select("image_id", "mean_bytes").iter_rows())
        stretch, total = [], 0
        for image_ids in rows["image_ids"].to_list():
            total += sum(weights.get(image_id, 0) for image_id in image_ids)
            stretch.append(total // ROW_GROUP_BYTES)
        # a frame is the rows of one stretch, in order, with about a row group of images
        for rows_of_stretch in rows.with_columns(stretch=pl.Series(stretch)).partition_by(
            "stretch", maintain_order=True
        ):
            yield (
                rows_of_stretch.drop("stretch"),
                self._read(rows_of_stretch["image_ids"].explode().drop_nulls().unique(), places),
            )

    def _read(self, image_ids: pl.Series, places: pl.DataFrame) -> dict[str, dict[str, Any]]:
        images_by_id: dict[str, dict[str, Any]] = {}
        needed_places = places.filter(pl.col("image_id").is_in(image_ids.implode()))
        # a group is one row group of a part, read once for all images that are needed of it
        for (part, group), places_of_group in needed_places.sort("part", "group").group_by(
            "part", "group", maintain_order=True
        ):
            images = self._group(int(str(part)), int(str(group))).join(places_of_group, on="image_id", how="semi")
            for image_id, form, content in images.iter_rows():
                file, kind = released_file(content, form)
                images_by_id[image_id] = {"bytes": file, "path": f"{image_id}.{kind}"}
        if missing := sorted({*image_ids} - images_by_id.keys()):
            raise KeyError(missing[0])
        return images_by_id

    def _read_group(self, part: int, group: int) -> pl.DataFrame:
        return self._store.read_group(*self._parts[part], group, ["image_id", "format", "bytes"])


class EarlierShards(Protocol):
    """Shards that were written before."""

    def take(self, key: str, folder: Path, first: int) -> list[Path]:
        """Put the files with these rows into `folder`, numbered from `first`; none when there are none."""
        ...


def shard_rows(expected: int) -> int:
    """Rows of a shard, of which one has half to twice as many; a power of two, so that it seldom changes.

    `expected`: rows of the configuration, about.
    """
    if expected < FEW:
        return SHARD_ROWS_MAX  # no shard ends before half of it
    return min(SHARD_ROWS_MAX, 1 << (expected // SHARDS | 1).bit_length() - 1)


def write_shards(
    config: str,
    frames: Iterable[pl.DataFrame],
    images: ReleasedImages,
    folder: Path,
    shard_size: int = SHARD_ROWS_MAX,
    earlier: EarlierShards | None = None,
) -> dict[Path, str]:
    """Write or take over `train-00000-of-0000N.parquet`; without rows, one empty file. Returns file -> key of its rows.

    `frames` are in the order of the release; `shard_size`: see `shard_rows`. Memory holds one frame, the rows
    of a shard without their images, and about two row groups.
    """
    folder.mkdir(parents=True, exist_ok=True)
    schema, key_of_file = shard_schema(config), dict[Path, str]()
    for rows_of_shard in _cut(config, frames, shard_size):
        key = _key(schema, rows_of_shard, images)
        files = earlier.take(key, folder, len(key_of_file)) if earlier else []
        if not files:
            files = _write(schema, rows_of_shard, images, folder, len(key_of_file))
        key_of_file |= dict.fromkeys(files, key)
    if not key_of_file:
        parquet_writer(folder / "00000.parquet", schema).close()
        key_of_file[folder / "00000.parquet"] = ""
    # files have their names once it is known how many there are
    key_of_shard = dict[Path, str]()
    for path, key in key_of_file.items():
        key_of_shard[path.rename(folder / f"train-{path.stem}-of-{len(key_of_file):05d}.parquet")] = key
    return key_of_shard


def _cut(config: str, frames: Iterable[pl.DataFrame], shard_size: int) -> Iterator[pl.DataFrame]:
    """The rows of each shard.

    A shard ends before a row by whose id it may, once it has half of `shard_size` rows, or when it has twice as many.
    """
    waiting: list[pl.DataFrame] = []
    count = 0
    for frame in frames:
        first = 0
        for row, name in enumerate(frame[ROW_KEYS[config]]):
            # a shard ends before this row when it is full, or long enough and the checksum of the id says so
            if count == 2 * shard_size or (count >= shard_size // 2 and crc32(name.encode()) % shard_size == 0):
                yield pl.concat([*waiting, frame[first:row]])
                waiting, first, count = [], row, 0
            count += 1
        waiting.append(compact(frame[first:]))
    if count:
        yield pl.concat(waiting)


def _key(schema: pa.Schema, rows: pl.DataFrame, images: ReleasedImages) -> str:
    """Digest of all that the bytes of a shard depend on: rows, images by id, columns, and the software that writes."""
    made_by = [RELEASE_LAYOUT, SHARD_BYTES, ROW_GROUP_BYTES, *_versions()]
    digest = hashlib.blake2b(repr(made_by).encode(), digest_size=16)
    digest.update(schema.serialize())
    digest.update(
        rows.select("image_ids", *(name for name in schema.names if name != "images")).write_ndjson().encode()
    )
    digest.update(" ".join(images.formats(rows["image_ids"])).encode())
    return digest.hexdigest()


@cache
def _versions() -> list[str]:
    return [*map(version, ("arena-curation", "pyarrow", "pillow"))]


def _write(schema: pa.Schema, rows: pl.DataFrame, images: ReleasedImages, folder: Path, first: int) -> list[Path]:
    """Write the rows of one shard as files numbered from `first`."""
    paths = [folder / f"{first:05d}.parquet"]
    tables = (
        (_with_images(rows_of_stretch, images_by_id, schema), _row_bytes(rows_of_stretch, images_by_id))
        for rows_of_stretch, images_by_id in images.stretches(rows)
    )
    writer = parquet_writer(paths[0], schema)
    for starts_file, group in _row_groups(tables):
        if starts_file:
            writer.close()
            paths.append(folder / f"{first + len(paths):05d}.parquet")
            writer = parquet_writer(paths[-1], schema)
        writer.write(group)
    writer.close()
    return paths


def _row_groups(tables: Iterable[tuple[pa.Table, Iterable[int]]]) -> Iterator[tuple[bool, pa.Table]]:
    """Rows of each row group, and whether it starts another file; from tables with the bytes of their rows.

    A row group or file ends before the row that would exceed its size limit.
    """
    waiting: list[pa.Table] = []
    file_bytes = group_bytes = 0
    starts_file = False
    for table, sizes in tables:
        first = 0
        for row, size in enumerate(sizes):
            file_is_full = file_bytes > 0 and file_bytes + size > SHARD_BYTES
            if file_is_full or (group_bytes and group_bytes + size > ROW_GROUP_BYTES):
                yield starts_file, pa.concat_tables([*waiting, table[first:row]])
                waiting, first, starts_file, group_bytes = [], row, file_is_full, 0
            file_bytes = size if file_is_full else file_bytes + size
            group_bytes += size
        waiting.append(table[first:])
    if group_bytes:
        yield starts_file, pa.concat_tables(waiting)


def _with_images(rows: pl.DataFrame, images_by_id: dict[str, dict[str, Any]], schema: pa.Schema) -> pa.Table:
    field = schema.field("images")
    listed = pa.array(
        [[images_by_id[image_id] for image_id in image_ids] for image_ids in rows["image_ids"].to_list()], field.type
    )
    # A row is a released row: its images take the place of their ids, and columns get the order of the schema.
    return pa.table(rows.drop("image_ids")).append_column(field, listed).select(schema.names).cast(schema)


def _row_bytes(rows: pl.DataFrame, images_by_id: dict[str, dict[str, Any]]) -> Iterator[int]:
    """Approximate bytes of each row in memory."""
    # a column is the bytes of all messages of a row in one column of messages
    messages = [
        pl.col(name).list.eval(pl.element().struct.field("content").str.len_bytes()).list.sum()
        for name, kind in rows.schema.items()
        if kind == pl.List(pl.Struct)
    ]
    texts = rows.select(pl.sum_horizontal(pl.lit(0), *messages)).to_series()
    for image_ids, text in zip(rows["image_ids"].to_list(), texts, strict=True):
        yield PLAIN_ROW_BYTES + text + sum(len(images_by_id[image_id]["bytes"]) for image_id in image_ids)
