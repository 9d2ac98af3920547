"""The tables `sightings` and `picture_files` of a store -> `conversations` and `battles`."""

import hashlib
import json
import multiprocessing
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from typing import cast

import polars as pl

from tasks.ingest.assemble import battles, last_sightings, vote_sides, with_conversation_ids
from tasks.ingest.conversation_parts import PartWriter, slices, with_pictures
from tasks.parallel import map_in_pool
from tasks.tables import Store

SIGHTINGS_AT_ONCE = 500_000
CONVERSATIONS_ALONE = 100_000
"""As many are written in this process sooner than others have started."""
_MADE_FROM = "ingest/assembled_from"
_COLUMNS = [
    "source", "line", "side", "record_type", "tstamp", "conv_id", "opening_id", "model", "num_messages", "pictures",
    "picture_problems", "user_id", "anonymous", "winner",
]  # fmt: skip


def assemble_store(store: Store, workers: int) -> dict[str, int]:
    """Write both tables, unless they were made from just these parts. Returns how many rows they have."""
    parts = store.parts("sightings")
    made_from = hashlib.blake2b(json.dumps([parts, store.parts("picture_files")]).encode()).hexdigest().encode()
    if store.read_bytes(_MADE_FROM) != made_from:
        last, sides = _last_sightings(store, parts)
        store.replace("battles", battles(sides, last))
        store.list_parts("conversations", _conversation_parts(store, parts, last, workers))
        store.write_bytes(_MADE_FROM, made_from)
    return {table: _height(store, table) for table in ("conversations", "battles")}


def _height(store: Store, table: str) -> int:
    return sum(part.height for part in store.read_parts(table, ["line"]))


def _last_sightings(store: Store, parts: list[str]) -> tuple[pl.DataFrame, pl.DataFrame]:
    """(`last_sightings`, `vote_sides`) of all sightings, some conv_ids at a time."""
    rounds = 1 + _height(store, "sightings") // SIGHTINGS_AT_ONCE
    repeated = [pl.col(name).cast(_values(store, name)) for name in ("source", "model")]
    last, sides = [], []
    for share in range(rounds):
        identified = with_conversation_ids(pl.concat(_light(store, parts, share, rounds)).with_columns(repeated))
        last.append(_compact(last_sightings(identified)))
        sides.append(_compact(vote_sides(identified)))
    return pl.concat(last), pl.concat(sides)


def _values(store: Store, column: str) -> pl.Enum:
    """The values of a column that repeats few of them: 4 bytes a row instead of the text. In text order."""
    found = {value for part in store.read_parts("sightings", [column]) for value in part[column].unique()}
    return pl.Enum(sorted(found))


def _compact(frame: pl.DataFrame) -> pl.DataFrame:
    """The same rows without the buffers of the rows they were chosen from, which polars' strings keep alive."""
    return cast(pl.DataFrame, pl.from_arrow(frame.to_arrow(compat_level=pl.CompatLevel.oldest())))


def _light(store: Store, parts: list[str], share: int, rounds: int) -> Iterator[pl.DataFrame]:
    """Sightings of a share of the conv_ids, without texts, with the part and the row they stand in."""
    for number, part in enumerate(parts):
        rows = store.read_part("sightings", part, _COLUMNS).with_row_index("row")
        if rounds > 1:
            rows = _compact(rows.filter(pl.col("conv_id").hash() % rounds == share))
        yield rows.with_columns(part=pl.lit(number, pl.UInt32))
    if not parts:
        yield store.read("sightings", _COLUMNS).with_columns(row=pl.lit(0, pl.UInt32), part=pl.lit(0, pl.UInt32))


def _conversation_parts(store: Store, parts: list[str], last: pl.DataFrame, workers: int) -> list[str]:
    picture_files = store.read("picture_files").unique("name", keep="last")
    writer = PartWriter(store.root, parts)
    ready = (with_pictures(rows, picture_files) for rows in slices(last))
    if workers == 1 or last.height <= CONVERSATIONS_ALONE:
        return [writer.write(rows) for rows in ready]
    with ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn")) as pool:
        return list(map_in_pool(pool, writer.write, ready, 2 * workers))
