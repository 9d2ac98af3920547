"""Log files that lost lines which earlier runs read: cut off, emptied, written anew, replaced by a shorter archive.

Their earlier rows stay in the tables, and nothing is released until the file is whole again, is removed, or somebody
accepts the loss. Lines that a takedown or a quarantine withdrew have no rows, so they may go from a file.
"""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path

import polars as pl

from schemas.errors import LogsHeld
from schemas.items.conversation import UNDATED_BEFORE, ShrunkFile
from tasks.storage.parts import ROWS, parts_with
from tasks.storage.tables import Store

_NOTE = "ingest/shrunk.json"
"""File of a store with the files that the last run found shrunk."""
_FILES_NAMED = 3
_STATED = ["source", "line", "conv_id", "opening_id", "record_type", "tstamp"]
_SAME_RECORD = ["conv_id", "opening_id", "record_type", "dated"]
"""Rows of `sightings` that agree in these are of the same record, wherever it stands. Rows without a time are numbered
instead, which says nothing about them."""


def read_again(kept_lines: Mapping[str, int]) -> pl.Expr:
    """Whether a row is of a line that is read again; `kept_lines`: file that is read again -> its lines that stay."""
    lines = pl.col("source").replace_strict(
        list(kept_lines), list(kept_lines.values()), default=None, return_dtype=pl.Int64
    )
    return (pl.col("line") > lines).fill_null(False)


def lost_lines(
    store: Store, kept_lines: Mapping[str, int], new_parts: Sequence[str], held: Collection[str], withdrawn: pl.Series
) -> pl.DataFrame:
    """Files that are read again and lost records: source, number of their lines without a row now, the last of these.

    `new_parts`: what was read again, not yet listed; rows of the files that are `held` do not count there. `withdrawn`:
    conv_ids that a flag withdraws, which nothing has lost.
    """
    parts, going = store.parts("sightings"), read_again(kept_lines)
    affected = parts_with(store, "sightings", parts, going) if kept_lines else {}
    going_alone = going & ~pl.col("conv_id").is_in(withdrawn.implode())
    earlier = (rows.filter(going_alone) for part in affected for rows in _records(store, part))
    empty = store.empty("sightings", _STATED).with_columns(dated="tstamp")
    lost = pl.concat([empty, *earlier])
    # lines may have moved to another file, or to another place in theirs
    not_held = ~pl.col("source").is_in(sorted(held))
    present = (rows.filter(not_held) for part in new_parts for rows in _records(store, part))
    elsewhere = (rows.filter(~going) for part in parts for rows in _records(store, part))
    for rows in chain(present, elsewhere):
        if lost.is_empty():
            break
        lost = lost.join(rows, on=_SAME_RECORD, how="anti", nulls_equal=True)
    lines = lost.select("source", "line").unique()
    return lines.group_by("source").agg(lines=pl.len(), last=pl.col("line").max()).sort("source")


def _records(store: Store, part: str) -> Iterator[pl.DataFrame]:
    dated = pl.when(pl.col("tstamp") >= UNDATED_BEFORE).then("tstamp")
    return (rows.with_columns(dated=dated) for rows in store.part_slices("sightings", part, _STATED, ROWS))


def note_shrunk(store: Store, logs: Path, whole: Sequence[str], shrunk: Sequence[ShrunkFile]) -> None:
    """Note the shrunk files. Earlier ones stay noted, but for those that are `whole` now or not there."""
    read = {file.source for file in shrunk} | {*whole}
    earlier = [file for file in shrunk_files(store) if file.source not in read and _is_there(logs, file.source)]
    if earlier or shrunk or store.read_bytes(_NOTE) is not None:
        rows = [file.model_dump() for file in (*earlier, *shrunk)]
        store.write_bytes(_NOTE, json.dumps(rows, indent=2).encode())


def _is_there(logs: Path, source: str) -> bool:
    folder = logs if logs.is_dir() else logs.parent
    return any((folder / f"{source}{end}").exists() for end in ("", ".gz", ".zst"))


def shrunk_files(store: Store) -> list[ShrunkFile]:
    """The files that the last runs found shrunk, whose earlier rows are still in the tables."""
    return [ShrunkFile(**row) for row in json.loads(store.read_bytes(_NOTE) or b"[]")]


def require_whole(store: Store) -> None:
    """Raises LogsHeld while log files are noted as shrunk."""
    files = shrunk_files(store)
    if not files:
        return
    named = "; ".join(str(file) for file in files[:_FILES_NAMED])
    others = f"; and {len(files) - _FILES_NAMED:,} more" if len(files) > _FILES_NAMED else ""
    raise LogsHeld(
        f"held before the release: {named}{others}. What was read from them stays. Put the whole file back, or remove "
        "the file, and its rows stay; or, if those lines are to go, run once with --accept-shrunk"
    )
