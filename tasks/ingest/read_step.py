"""New bytes of a store's input -> `sightings`, `rejects`, `quarantine` and `log_files`, whatever was read before."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

import polars as pl

from schemas.conversation import LogFileRead
from schemas.reject import QuarantineCause
from tasks.ingest.log_files import LogFile
from tasks.ingest.people import store_key
from tasks.ingest.quarantine import hold, rows_without
from tasks.ingest.read_pieces import PartsRead, PieceReader, read_batches
from tasks.ingest.read_plan import FilePlan, batches, changed, plan
from tasks.ingest.taken_down import withdraw_taken_down
from tasks.running.progress import progress
from tasks.store.tombstones import UNFINISHED as UNFINISHED_TAKEDOWN
from tasks.store.tombstones import Tombstones
from tasks.tables import Store, frame_of

_UNFINISHED = "ingest/unfinished"


def read_new(store: Store, files: Sequence[tuple[LogFile, str]], logs: Path, workers: int) -> dict[str, int]:
    """Read what is new in `files`, which are (file, format). Returns counts of files, lines and rejects.

    `lines_replaced`, when there are any, are those of files that were read before and are read anew from the beginning.

    Parts are listed and the ledger is written last, so a killed run is as if it had not read anything.
    """
    ledger = {row["source"]: LogFileRead(**row) for row in store.read("log_files").iter_rows(named=True)}
    reader = PieceReader(store.root, store_key(store), logs)
    new = changed(files, ledger)
    plans: list[FilePlan] = []
    read: list[PartsRead] = []

    def planned() -> Iterator[FilePlan]:
        for file, name in new:
            plans.append(plan(file, name, ledger.get(file.source)))
            yield plans[-1]

    with progress("log megabytes", sum(file.path.stat().st_size for file, _ in new) // 1_000_000) as advance:
        for parts in read_batches(reader, batches(planned()), workers):
            read.append(parts)
            advance(parts.bytes_read // 1_000_000)
    if plans:
        _list(store, plans, read, ledger, Tombstones(store, reader.key))
    counts = {"files": len(files), "files_read": len(plans), "lines": sum(each.lines.total() for each in read)}
    anew = [ledger[each.read.source] for each in plans if each.read.source in ledger and not each.lines_kept]
    replaced = sum(row.lines for row in anew)
    counts |= {"lines_replaced": replaced} if replaced else {}
    return counts | {"rejected": sum(each.reasons.total() for each in read)}


def _list(
    store: Store,
    plans: Sequence[FilePlan],
    read: Sequence[PartsRead],
    ledger: Mapping[str, LogFileRead],
    tombstones: Tombstones,
) -> None:
    """Make what was read part of the tables: without lines read again, and without what is held or taken down."""
    interrupted = store.read_bytes(_UNFINISHED) is not None
    again = {each.read.source: each.lines_kept for each in plans if interrupted or each.read.source in ledger}
    store.write_bytes(_UNFINISHED, b"")
    lines = sum((each.lines for each in read), Counter[str]())
    sightings = _earlier(store, "sightings", again)
    rejects = _earlier(store, "rejects", again)
    new = [part for each in read for part in each.sightings]
    sightings, held, withdrawn = _quarantine(store, sightings, new, read)
    rejects += [part for each in read for part in each.rejects]
    if withdrawn.height:
        rejects.append(store.write_part("rejects", withdrawn))
    known = set() if store.read_bytes(UNFINISHED_TAKEDOWN) is not None else set(store.parts("sightings"))
    fresh = [part for part in sightings if part not in known]
    sightings, taken_down = withdraw_taken_down(store, sightings, fresh, tombstones, datetime.now(UTC))
    if taken_down is not None:
        rejects.append(store.write_part("rejects", taken_down))
    rows = dict(ledger) | {each.read.source: _ledger_row(each, lines) for each in plans}
    store.replace("quarantine", held)
    store.list_parts("sightings", list(dict.fromkeys(sightings)))
    store.list_parts("rejects", list(dict.fromkeys(rejects)))
    store.replace("log_files", frame_of(LogFileRead, rows.values()))
    store.fs.rm_file(store.at(_UNFINISHED))


def _earlier(store: Store, table: str, kept_lines: Mapping[str, int]) -> list[str]:
    """Parts of earlier runs without lines that are read again: of rewritten files, and unfinished last lines."""
    parts = store.parts(table)
    if not kept_lines:
        return parts
    limit = pl.col("source").replace_strict(
        list(kept_lines), list(kept_lines.values()), default=None, return_dtype=pl.Int64
    )
    return rows_without(store, table, parts, pl.col("line") > limit, ["source", "line"])


def _quarantine(
    store: Store, earlier: list[str], new: list[str], read: Sequence[PartsRead]
) -> tuple[list[str], pl.DataFrame, pl.DataFrame]:
    """(parts without what is quarantined, the `quarantine` table, rejects of withdrawn lines)."""
    known = store.read("quarantine")
    conversations = set[str]().union(*(each.flagged_conv_ids for each in read))
    pictures = set[str]().union(*(each.flagged_pictures for each in read))
    flagged = hold(store, earlier, new, known, QuarantineCause.FLAGGED, conversations, pictures)
    listed = hold(store, flagged[0], flagged[1], known, QuarantineCause.KNOWN_HASH)
    return listed[0] + listed[1], pl.concat([flagged[2], listed[2]]), pl.concat([flagged[3], listed[3]])


def _ledger_row(each: FilePlan, lines: Counter[str]) -> LogFileRead:
    """Files that are read as a whole are counted by their reader."""
    whole = any(piece.stop is None for piece in each.pieces)
    return each.read.model_copy(update={"lines": lines[each.read.source]}) if whole else each.read
