"""The tables `sightings` and `picture_files` of a store -> `conversations` and `battles`."""

import hashlib
import json
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import cast

import polars as pl
import pyarrow as pa

from schemas.conversation import Conversation
from tasks.ingest.assemble import battles, last_sightings, vote_sides, with_conversation_ids
from tasks.ingest.conversation_parts import PartWriter, slices, with_pictures
from tasks.running.parallel import map_ordered
from tasks.store.spooled_frames import compact
from tasks.tables import Store

SIGHTINGS_AT_ONCE = 150_000
_MADE_FROM = "ingest/assembled_from"
_COLUMNS = [
    "source", "line", "side", "record_type", "tstamp", "conv_id", "opening_id", "model", "num_messages", "pictures",
    "picture_problems", "user_id", "anonymous", "winner",
]  # fmt: skip


def assemble_store(store: Store, workers: int) -> dict[str, int]:
    """Write both tables, unless they were made from just these parts. Returns how many rows they have."""
    parts, columns = store.parts("sightings"), list(Conversation.model_fields)
    seen = json.dumps([parts, store.parts("picture_files"), columns])
    made_from = hashlib.blake2b(seen.encode()).hexdigest().encode()
    if store.read_bytes(_MADE_FROM) != made_from:
        last = _write_battles(store, parts)
        store.list_parts("conversations", _conversation_parts(store, parts, last, workers))
        store.write_bytes(_MADE_FROM, made_from)
    return {table: store.height(table) for table in ("conversations", "battles")}


def _write_battles(store: Store, parts: list[str]) -> pl.DataFrame:
    """Write the `battles` table; returns `last_sightings`. Some conv_ids at a time."""
    last, sides = [], []
    repeated = _as_numbers(store, ["source", "model"])
    with TemporaryDirectory() as folder:
        for sightings in _shares(_light(store, parts), 1 + store.height("sightings") // SIGHTINGS_AT_ONCE, folder):
            identified = with_conversation_ids(sightings.with_columns(repeated))
            last.append(compact(last_sightings(identified)))
            sides.append(compact(vote_sides(identified)))
    whole = pl.concat(last)
    last.clear()
    store.replace("battles", battles(pl.concat(sides), whole))
    return whole


def _as_numbers(store: Store, columns: Sequence[str]) -> list[pl.Expr]:
    """Columns that repeat few values, with 4 bytes a row instead of the text. In text order."""
    found: dict[str, set[str]] = {name: set() for name in columns}
    for part in store.read_parts("sightings", columns):
        for name, values in found.items():
            values.update(part[name].unique())
    return [pl.col(name).cast(pl.Enum(sorted(values))) for name, values in found.items()]


def _arrow(frame: pl.DataFrame) -> pa.Table:
    return frame.to_arrow(compat_level=pl.CompatLevel.oldest())


def _light(store: Store, parts: list[str]) -> Iterator[pl.DataFrame]:
    """Sightings without texts, with the part and the row they stand in."""
    for number, part in enumerate(parts):
        yield _placed(store.read_part("sightings", part, _COLUMNS), number)
    if not parts:
        yield _placed(store.read("sightings", _COLUMNS), 0)


def _placed(rows: pl.DataFrame, part: int) -> pl.DataFrame:
    return rows.with_row_index("row").with_columns(part=pl.lit(part, pl.UInt32))


def _shares(sightings: Iterator[pl.DataFrame], count: int, folder: str) -> Iterator[pl.DataFrame]:
    """All sightings in `count` shares of about one size; those of a conv_id are in one share.

    Several shares wait in `folder`, so that memory holds one at a time and every part is read once.
    """
    if count == 1:
        yield pl.concat(sightings)
        return
    first = next(sightings)
    schema = _arrow(first).schema
    paths = [Path(folder, str(share)) for share in range(count)]
    with ExitStack() as closing:
        files = [closing.enter_context(pa.ipc.new_stream(path, schema)) for path in paths]
        for rows in chain([first], sightings):
            shares = rows.with_columns(share=pl.col("conv_id").hash() % count)
            for (share,), some in shares.partition_by("share", as_dict=True, include_key=False).items():
                files[share].write_table(_arrow(some))
    for path in paths:
        with pa.memory_map(str(path)) as mapped, pa.ipc.open_stream(mapped) as stream:
            yield cast(pl.DataFrame, pl.from_arrow(stream.read_all()))


def _conversation_parts(store: Store, parts: list[str], last: pl.DataFrame, workers: int) -> list[str]:
    picture_files = store.read("picture_files").unique("name", keep="last")
    writer = PartWriter(store.root, parts)
    ready = (with_pictures(rows, picture_files) for rows in slices(last))
    return list(map_ordered(writer.write, ready, workers))
