"""Log files that lost lines which earlier runs read: cut off, emptied, written anew, replaced by a shorter archive.

Their earlier rows stay in the tables, and nothing is released until the file is whole again, is removed, or somebody
accepts the loss. Lines that a takedown or a quarantine withdrew have no rows, so they may go from a file.

In: rows of `sightings` from earlier runs and from this one. Out: the files whose earlier records stand nowhere any more
(`lost_lines`), a note of them in the store (`note_shrunk`), and an error where they hold a release (`require_whole`).
"""

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path

import polars as pl

from schemas.errors import LogsHeld
from schemas.items.conversation import RecordType, ShrunkFile
from tasks.ingest.log_files import first_name
from tasks.runtime.times import IS_DATED
from tasks.storage.parts import PART_ROWS_MAX, parts_with
from tasks.storage.tables import Store

_NOTE = "ingest/shrunk.json"
"""File of a store with the files that the last run found shrunk."""
_FILES_NAMED = 3
"""Files in a message; more are counted."""
_COLUMNS = ["source", "line", "conv_id", "opening_id", "record_type", "tstamp"]
"""Columns of `sightings` that are read."""
_SAME_RECORD = ["conv_id", "opening_id", "record_type", "stated_time"]
"""Rows of `sightings` that agree in these are of the same record, in whichever file and line it stands."""
_VOTES = [RecordType.LEFT_VOTE, RecordType.RIGHT_VOTE, RecordType.TIE_VOTE, RecordType.BOTH_BAD_VOTE]
_SAME_TALK = ["conv_id", "opening_id", "stated_time"]


def is_read_again(kept_lines: Mapping[str, int]) -> pl.Expr:
    """Whether a row is of a line that is read again; `kept_lines`: file that is read again -> its lines that stay."""
    lines_that_stay = pl.col("source").replace_strict(
        list(kept_lines), list(kept_lines.values()), default=None, return_dtype=pl.Int64
    )
    return (pl.col("line") > lines_that_stay).fill_null(False)


def lost_lines(
    store: Store,
    kept_lines: Mapping[str, int],
    new_parts: Sequence[str],
    shrunk_sources: Collection[str],
    withdrawn_conv_ids: pl.Series,
) -> pl.DataFrame:
    """Files that are read again and lost records: source, number of their lines without a row now, the last of these.

    `kept_lines`: as in `is_read_again`. `new_parts`: what was read now, not yet listed; rows of `shrunk_sources` in
    them will not be listed, so they do not count. `withdrawn_conv_ids`: conversations that a flag withdraws from the
    tables, so that no file has lost them.
    """
    parts = store.parts("sightings")
    is_replaced = is_read_again(kept_lines)
    is_withdrawn = pl.col("conv_id").is_in(withdrawn_conv_ids.implode())
    replaced_parts = parts_with(store, "sightings", parts, is_replaced) if kept_lines else {}

    # The earlier rows that the new ones replace.
    lost_rows = store.empty("sightings", _COLUMNS).with_columns(stated_time="tstamp")
    for part in replaced_parts:
        for rows in _records(store, part):
            lost_rows.vstack(rows.filter(is_replaced & ~is_withdrawn), in_place=True)

    # Less those whose record is among the new rows, or in another file: lines may have moved.
    is_listed = ~pl.col("source").is_in(sorted(shrunk_sources))
    new_rows = (rows.filter(is_listed) for part in new_parts for rows in _records(store, part))
    rows_that_stay = (rows.filter(~is_replaced) for part in parts for rows in _records(store, part))
    for rows in chain(new_rows, rows_that_stay):
        if lost_rows.is_empty():
            break
        lost_rows = lost_rows.join(rows, on=_SAME_RECORD, how="anti", nulls_equal=True)
        # A share of a dataset is a comparison on which nobody had voted: a later export may have the vote.
        votes = rows.filter(pl.col("record_type").is_in(_VOTES))
        voted = lost_rows.filter(record_type=RecordType.SHARE).join(votes, on=_SAME_TALK, how="semi", nulls_equal=True)
        lost_rows = lost_rows.join(voted, on=["source", "line"], how="anti")

    lines = lost_rows.select("source", "line").unique()
    return lines.group_by("source").agg(lines=pl.len(), last=pl.col("line").max()).sort("source")


def _records(store: Store, part: str) -> Iterator[pl.DataFrame]:
    """Slices of a part of `sightings`, with a column `stated_time`: null where the record states none.

    Rows of such records have a number of their line as `tstamp`, which says nothing about whether they are the same.
    """
    stated_time = pl.when(IS_DATED).then("tstamp")
    for rows in store.part_slices("sightings", part, _COLUMNS, PART_ROWS_MAX):
        yield rows.with_columns(stated_time=stated_time)


def note_shrunk(
    store: Store, is_there: Callable[[str], bool], whole: Sequence[str], shrunk: Sequence[ShrunkFile]
) -> None:
    """Note the shrunk files. Earlier ones stay noted, but for those that are `whole` now or not there any more."""
    looked_at = {file.source for file in shrunk} | {*whole}
    still_shrunk = [file for file in shrunk_files(store) if file.source not in looked_at and is_there(file.source)]
    if still_shrunk or shrunk or store.read_bytes(_NOTE) is not None:
        rows = [file.model_dump() for file in (*still_shrunk, *shrunk)]
        store.write_bytes(_NOTE, json.dumps(rows, indent=2).encode())


def is_log_there(logs: Path, source: str) -> bool:
    """Whether a log file is in its folder, packed or rotated or not."""
    path = (logs if logs.is_dir() else logs.parent) / source
    if any(path.with_name(f"{path.name}{suffix}").exists() for suffix in ("", ".gz", ".zst")):
        return True
    return path.parent.is_dir() and any(first_name(sibling.name) == path.name for sibling in path.parent.iterdir())


def shrunk_files(store: Store) -> list[ShrunkFile]:
    """The files that the last runs found shrunk, whose earlier rows are still in the tables."""
    return [ShrunkFile(**row) for row in json.loads(store.read_bytes(_NOTE) or b"[]")]


def require_whole(store: Store) -> None:
    """Raises LogsHeld while log files are noted as shrunk."""
    files = shrunk_files(store)
    if not files:
        return
    named_files = "; ".join(str(file) for file in files[:_FILES_NAMED])
    more = f"; and {len(files) - _FILES_NAMED:,} more" if len(files) > _FILES_NAMED else ""
    raise LogsHeld(
        f"held before the release: {named_files}{more}. What was read from them stays. Put the whole file back, or "
        "remove the file, and its rows stay; or, if those lines are to go, run once with --accept-shrunk"
    )
