"""Reads the new bytes of a store's input into `sightings`, `rejects`, `quarantine` and `log_files`.

In: the (file, format) of a log folder, or the days of a database, which are read as files are (`database.py`); and in
`log_files` how far earlier runs read each. Out: those four tables.
New bytes are cut into pieces that can be read in parallel (`plan`, `batches`); a `PieceReader` writes the parts of each
batch; `_list` lists them. A file is in one of four cases, which `changed` and `plan` tell apart:
* unchanged, or a scrubbed copy of what was read (`scrub.py`): skipped;
* appended to, with the hash of the old bytes as it was: read from the last offset on;
* rewritten, an archive, a table or a day of a database: read from the beginning, and its earlier rows are replaced;
* one of these, but lines are lost: left as it was read before (`shrunk.py`).
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from datetime import UTC, datetime
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import BinaryIO, NamedTuple

import polars as pl
from xxhash import xxh3_128

from schemas.errors import BadInput
from schemas.items.conversation import LogFileRead, ShrunkFile
from schemas.items.reject import QuarantineCause
from tasks.ingest.log_files import LINES_BYTES, LOG_PART_BYTES, LogFile, Piece, RecordSource
from tasks.ingest.log_line import Place
from tasks.ingest.quarantine import hold, quarantined, withdraw_taken_down
from tasks.ingest.read_logs import PartsRead, PieceReader, broken_records, no_parts
from tasks.ingest.scrub import is_as_read, known_copies, scrubbed_files
from tasks.ingest.shrunk import is_log_there, is_read_again, lost_lines, note_shrunk
from tasks.runtime.parallel import map_in_processes
from tasks.runtime.progress import progress, tell
from tasks.storage.keyed_ids import UNFINISHED as UNFINISHED_TAKEDOWN
from tasks.storage.keyed_ids import Tombstones, store_key
from tasks.storage.parts import rows_without
from tasks.storage.tables import Store, frame_of

BATCHES_ALONE = 12
"""Up to this many batches are read in this process: each other process takes 1.4 CPU seconds to start."""
_UNFINISHED = "ingest/unfinished"
"""Sources that a run lists or was killed while it listed: rows of them may be there that `log_files` does not know."""


class FilePlan(NamedTuple):
    """The pieces of one file to read."""

    read: LogFileRead
    """The row of `log_files` when it has been read; files read as a whole get their lines then."""
    lines_kept: int
    """Lines that earlier runs read and that have not changed."""
    pieces: list[Piece]


def changed(
    files: Iterable[tuple[RecordSource, str]], before: Mapping[str, LogFileRead]
) -> list[tuple[RecordSource, str]]:
    """The (file, format) whose size, time or format differ from what was read before."""
    return [(file, format_name) for file, format_name in files if not _is_unchanged(file, format_name, before)]


def _is_unchanged(file: RecordSource, format_name: str, before: Mapping[str, LogFileRead]) -> bool:
    earlier = before.get(file.source)
    return is_as_read(file, earlier) and earlier is not None and earlier.format == format_name


def plan(file: RecordSource, format_name: str, earlier: LogFileRead | None) -> FilePlan:
    """Plan the reading of a source; `earlier` says how far earlier runs read it, None if none did."""
    stamp = file.stamp()
    row = LogFileRead(
        source=file.source, format=format_name, size_bytes=stamp.size_bytes, modified_ns=stamp.modified_ns,
        offset=0, lines=0, tail_lines=0, end_digest=stamp.version,
    )  # fmt: skip
    if file.is_read_whole():
        return FilePlan(row, 0, [Piece(file, format_name, 0, None, 0, None)])
    assert isinstance(file, LogFile)  # other sources are read as a whole
    with file.path.open("rb", buffering=0) as stream:
        digest = None
        if earlier is not None and earlier.format == format_name:
            digest = _digest_if_unchanged(stream, earlier)
        if earlier is not None and digest is not None:
            start, lines = earlier.offset, earlier.lines
        else:
            start, lines, digest = 0, 0, xxh3_128()
        stream.seek(start)
        return _plan_rest(stream, row, Piece(file, format_name, start, start, lines, 0), digest)


def _digest_if_unchanged(stream: BinaryIO, earlier: LogFileRead) -> xxh3_128 | None:
    """The digest of the bytes before the offset of `earlier`; None if they have changed, or there are none."""
    digest = xxh3_128()
    bytes_left = earlier.offset
    while bytes_left and (content := stream.read(min(LINES_BYTES, bytes_left))):
        digest.update(content)
        bytes_left -= len(content)
    return digest if earlier.offset and digest.hexdigest() == earlier.end_digest else None


def _plan_rest(stream: BinaryIO, row: LogFileRead, first: Piece, digest: xxh3_128) -> FilePlan:
    """Cut the rest of the file into pieces of whole lines. An unfinished last line is a piece of its own.

    `first` has the place where the rest begins; `digest` is that of all bytes before it.
    """
    pieces: list[Piece] = []
    # The next piece begins at byte `start`, after `lines` lines; `position` is how far the stream was read.
    start = position = first.start
    lines = first.lines_before
    whole_lines_digest = digest.copy()
    while content := stream.read(LINES_BYTES):
        end = content.rfind(b"\n") + 1
        if end:
            whole_lines_digest = digest.copy()
            whole_lines_digest.update(content[:end])
            count = content.count(b"\n")
            pieces.append(first._replace(start=start, stop=position + end, lines_before=lines, lines=count))
            start = position + end
            lines += count
        digest.update(content)
        position += len(content)
    has_tail = position > start
    if has_tail:
        pieces.append(first._replace(start=start, stop=position, lines_before=lines, lines=1))
    changes = {
        "size_bytes": position,
        "offset": start,
        "lines": lines,
        "tail_lines": int(has_tail),
        "end_digest": whole_lines_digest.hexdigest(),
    }
    return FilePlan(row.model_copy(update=changes), first.lines_before, pieces)


def batches(plans: Iterable[FilePlan]) -> Iterator[list[Piece]]:
    """Group pieces, also of different files, into batches of about LOG_PART_BYTES."""
    waiting: list[Piece] = []
    waiting_bytes = 0
    for piece in chain.from_iterable(file_plan.pieces for file_plan in plans):
        # How many bytes a file that is read as a whole unpacks to is not known: it is a batch of its own.
        size = LOG_PART_BYTES if piece.stop is None else piece.size_bytes
        if waiting and waiting_bytes + size > LOG_PART_BYTES:
            yield waiting
            waiting, waiting_bytes = [], 0
        waiting.append(piece)
        waiting_bytes += size
    if waiting:
        yield waiting


def _read_batches(reader: PieceReader, batches: Iterable[Sequence[Piece]], workers: int) -> Iterator[PartsRead]:
    """The result of each batch, in order; more than BATCHES_ALONE are read by `workers` processes."""
    later_batches = iter(batches)
    first_batches = list(islice(later_batches, BATCHES_ALONE + 1))
    all_batches = chain(first_batches, later_batches)
    if workers == 1 or len(first_batches) <= BATCHES_ALONE:
        yield from map(reader.read, all_batches)
    else:
        yield from map_in_processes(reader.read, all_batches, workers)


def read_new(
    store: Store,
    files: Sequence[tuple[RecordSource, str]],
    logs: Path | None,
    workers: int,
    accept_shrunk: bool = False,
    others: Set[str] = frozenset(),
) -> dict[str, int]:
    """Read the new lines of `files`, which are (file, format). Returns counts of files, lines and rejects.

    `logs` is their folder; where there is none, `others` has the names of all sources that are there.

    `lines_replaced`, if any, counts the old lines of files that are read again from the beginning, and `files_shrunk`
    those that lost lines: without `accept_shrunk` they count as not read. New parts are listed last, so a killed run
    leaves the tables as they were.
    """
    before = {row["source"]: LogFileRead(**row) for row in store.read("log_files").iter_rows(named=True)}
    log_files = [file for file, _ in files if isinstance(file, LogFile)]
    if copies := known_copies(log_files, before, scrubbed_files(store)):
        before |= copies
        store.replace("log_files", frame_of(LogFileRead, before.values()))
    reader = PieceReader(store.root, store_key(store), logs)
    changed_files = changed(files, before)
    plans: list[FilePlan] = []
    results: list[PartsRead] = []

    def plan_one_by_one() -> Iterator[FilePlan]:
        # A file is planned, which reads it once, only when its batch is next.
        for file, format_name in changed_files:
            plans.append(plan(file, format_name, before.get(file.source)))
            yield plans[-1]

    megabytes = sum(file.stamp().size_bytes for file, _ in changed_files) // 1_000_000
    with progress("log megabytes", megabytes) as advance:
        for result in _read_batches(reader, batches(plan_one_by_one()), workers):
            results.append(result)
            advance(result.bytes_read // 1_000_000)

    # Flagged lines that are no JSON object: what the record around them names is flagged.
    flagged_unread = set[Place]().union(*(result.flagged_unread for result in results))
    if flagged := _names_around(changed_files, flagged_unread):
        results.append(no_parts()._replace(flagged_conv_ids=flagged, flagged_images=flagged))

    shrunk = [] if accept_shrunk else _shrunk(store, plans, results, before)
    shrunk_sources = {file.source for file in shrunk}
    if shrunk:
        plans = [whole_plan for whole_plan in plans if whole_plan.read.source not in shrunk_sources]
        results = [_without_files(store, result, shrunk_sources) for result in results]
    whole_sources = [file.source for file, _ in files if file.source not in shrunk_sources]
    is_there = others.__contains__ if logs is None else partial(is_log_there, logs)
    note_shrunk(store, is_there, whole_sources, shrunk)
    if plans or shrunk:  # flags in a shrunk file still count
        _list(store, plans, results, before, Tombstones(store, reader.key))

    counts = {
        "files": len(files),
        "files_read": len(plans),
        "lines": sum(result.lines.total() for result in results),
    }
    lines_replaced = 0
    for file_plan in plans:
        earlier = before.get(file_plan.read.source)
        if earlier is not None and not file_plan.lines_kept:
            lines_replaced += earlier.lines
    if lines_replaced:
        counts["lines_replaced"] = lines_replaced
    if shrunk:
        counts["files_shrunk"] = len(shrunk)
    counts["rejected"] = sum(result.rejected.total() for result in results)
    return counts


def _kept_lines(store: Store, plans: Iterable[FilePlan], before: Mapping[str, LogFileRead]) -> dict[str, int]:
    """File of which earlier rows may be listed -> its lines that are not read again."""
    with_rows = before.keys() | _half_listed(store)
    return {file_plan.read.source: file_plan.lines_kept for file_plan in plans if file_plan.read.source in with_rows}


def _half_listed(store: Store) -> set[str]:
    """Sources that a killed run was listing and no run has read since."""
    return set(json.loads(store.read_bytes(_UNFINISHED) or b"[]"))


def _line_counts(results: Iterable[PartsRead]) -> Counter[str]:
    """Lines read by file."""
    line_counts = Counter[str]()
    for result in results:
        line_counts.update(result.lines)
    return line_counts


def _flagged_conv_ids(results: Iterable[PartsRead]) -> set[str]:
    return set[str]().union(*(result.flagged_conv_ids for result in results))


def _flagged_images(results: Iterable[PartsRead]) -> set[str]:
    return set[str]().union(*(result.flagged_images for result in results))


def _shrunk(
    store: Store, plans: Sequence[FilePlan], results: Sequence[PartsRead], before: Mapping[str, LogFileRead]
) -> list[ShrunkFile]:
    """The files that lost lines which earlier runs read."""
    kept_lines = _kept_lines(store, plans, before)
    new_parts = [part for result in results for part in result.sightings]
    no_conv_ids = pl.Series(dtype=pl.String)
    if lost_lines(store, kept_lines, new_parts, (), no_conv_ids).is_empty():
        return []
    all_parts = [*store.parts("sightings"), *new_parts]
    flagged = quarantined(store, all_parts, _flagged_conv_ids(results), _flagged_images(results))
    excluded = set[str]().union(*(result.excluded_conv_ids for result in results))
    withdrawn_conv_ids = pl.concat(
        [flagged.filter(kind="conversation")["key"], pl.Series(sorted(excluded), dtype=pl.String)]
    )
    line_counts = _line_counts(results)
    plan_by_source = {file_plan.read.source: file_plan for file_plan in plans}
    shrunk: dict[str, ShrunkFile] = {}
    # The new rows of a shrunk file are not listed. What moved from another file into it is lost then, too, so that the
    # other file is shrunk: repeated until no further one is.
    while True:
        other_kept_lines = {source: count for source, count in kept_lines.items() if source not in shrunk}
        newly_shrunk: dict[str, ShrunkFile] = {}
        lost_by_source = lost_lines(store, other_kept_lines, new_parts, shrunk.keys(), withdrawn_conv_ids)
        for source, lines_lost, last_line in lost_by_source.iter_rows():
            earlier = before.get(source)
            row_now = _with_line_count(plan_by_source[source], line_counts)
            lines_before = earlier.lines + earlier.tail_lines if earlier else last_line
            lines_now = row_now.lines + row_now.tail_lines
            if earlier and plan_by_source[source].lines_kept == earlier.lines and lines_now >= lines_before:
                continue  # all is there but an unfinished last line, which became another one
            newly_shrunk[source] = ShrunkFile(
                source=source, lines_before=lines_before, lines_now=lines_now, lines_lost=lines_lost
            )
        if not newly_shrunk:
            return [shrunk[source] for source in sorted(shrunk)]
        shrunk |= newly_shrunk


def _without_files(store: Store, result: PartsRead, sources: Set[str]) -> PartsRead:
    """The result without the rows and lines of some files; flags in them still count."""
    is_of_sources = pl.col("source").is_in(sorted(sources))

    def of_others(counts: Counter[str]) -> Counter[str]:
        return Counter({source: count for source, count in counts.items() if source not in sources})

    return result._replace(
        sightings=rows_without(store, "sightings", result.sightings, is_of_sources),
        rejects=rows_without(store, "rejects", result.rejects, is_of_sources),
        lines=of_others(result.lines),
        rejected=of_others(result.rejected),
    )


def _names_around(files: Sequence[tuple[RecordSource, str]], flagged_unread: Set[Place]) -> set[str]:
    """Ids and image names in the records that flagged lines are part of, which are no JSON object themselves.

    Where fragments of one name nothing, all broken records count. Raises BadInput when these name nothing either,
    because an image that is not known could not be held back.
    """
    names: set[str] = set()
    for file, _ in files:
        flagged_lines = {place.line for place in flagged_unread if place.source == file.source}
        if not flagged_lines or not isinstance(file, LogFile):
            continue
        first_line = min(flagged_lines)
        records = list(broken_records(file))
        names_of_all = set[str]().union(*(record.names for record in records))
        flagged_records = [record for record in records if record.lines & flagged_lines]
        is_nameless = any(record.fragments & flagged_lines and not record.names for record in flagged_records)
        if is_nameless and not names_of_all:
            raise BadInput(
                f"log file {file.source!r}, line {first_line}: it is flagged as child abuse, it is no JSON object, and "
                "no image or conversation can be read there that could be held back; mend the line, or remove it "
                "from the log"
            )
        tell(
            f"{file.source}, line {first_line}: flagged, but no JSON object; what can be read of its record is held "
            "back"
        )
        if is_nameless:
            names |= names_of_all
        else:
            names = names.union(*(record.names for record in flagged_records))
    return names


def _list(
    store: Store,
    plans: Sequence[FilePlan],
    results: Sequence[PartsRead],
    before: Mapping[str, LogFileRead],
    tombstones: Tombstones,
) -> None:
    """List the new parts in the tables, without lines that were replaced, quarantined or taken down."""
    kept_lines = _kept_lines(store, plans, before)
    sources = {file_plan.read.source for file_plan in plans}
    half_listed = _half_listed(store)
    store.write_bytes(_UNFINISHED, json.dumps(sorted(half_listed | sources)).encode())
    sightings = _earlier_parts(store, "sightings", kept_lines)
    rejects = _earlier_parts(store, "rejects", kept_lines)
    for result in results:
        rejects += result.rejects
    sightings, quarantine, withdrawn = _quarantine(store, sightings, results)
    # After a takedown that was killed, all parts are searched; else those that were searched when they were listed
    # are left out.
    searched = set() if store.read_bytes(UNFINISHED_TAKEDOWN) is not None else set(store.parts("sightings"))
    to_search = [part for part in sightings if part not in searched]
    sightings, taken_down = withdraw_taken_down(store, sightings, to_search, tombstones, datetime.now(UTC))
    rejects += [store.write_part("rejects", rows) for rows in (withdrawn, taken_down) if rows.height]
    line_counts = _line_counts(results)
    log_files = dict(before)
    for file_plan in plans:
        log_files[file_plan.read.source] = _with_line_count(file_plan, line_counts)
    # What must not be shown is written first, and how far each file was read last.
    store.replace("quarantine", quarantine)
    store.list_parts("sightings", list(dict.fromkeys(sightings)))
    store.list_parts("rejects", list(dict.fromkeys(rejects)))
    store.replace("log_files", frame_of(LogFileRead, log_files.values()))
    if still_half_listed := half_listed - sources:
        store.write_bytes(_UNFINISHED, json.dumps(sorted(still_half_listed)).encode())
    else:
        store.fs.rm_file(store.at(_UNFINISHED))


def _earlier_parts(store: Store, table: str, kept_lines: Mapping[str, int]) -> list[str]:
    """Parts of earlier runs without the lines that were read again: rewritten files and unfinished last lines."""
    parts = store.parts(table)
    return rows_without(store, table, parts, is_read_again(kept_lines)) if kept_lines else parts


def _quarantine(
    store: Store, earlier: list[str], results: Sequence[PartsRead]
) -> tuple[list[str], pl.DataFrame, pl.DataFrame]:
    """(parts without what is quarantined, the `quarantine` table, rejects of withdrawn lines)."""
    quarantine_rows = store.read("quarantine")
    new_parts = [part for result in results for part in result.sightings]
    earlier, new_parts, flagged_rows, flagged_rejects = hold(
        store,
        earlier,
        new_parts,
        quarantine_rows,
        QuarantineCause.FLAGGED,
        _flagged_conv_ids(results),
        _flagged_images(results),
    )
    earlier, new_parts, hashed_rows, hashed_rejects = hold(
        store, earlier, new_parts, quarantine_rows, QuarantineCause.KNOWN_HASH
    )
    return earlier + new_parts, pl.concat([flagged_rows, hashed_rows]), pl.concat([flagged_rejects, hashed_rejects])


def _with_line_count(file_plan: FilePlan, line_counts: Counter[str]) -> LogFileRead:
    """The row of `log_files`; lines of files that are read as a whole are counted by their reader."""
    row = file_plan.read
    is_whole = any(piece.stop is None for piece in file_plan.pieces)
    return row.model_copy(update={"lines": line_counts[row.source]}) if is_whole else row
