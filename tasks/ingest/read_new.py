"""Reads the new bytes of a store's input into `sightings`, `rejects`, `quarantine` and `log_files`.

New bytes are cut into pieces that can be read in parallel (`plan`, `batches`); a `PieceReader` writes the parts of each
batch; `_list` lists them. Unchanged files are skipped. Appended files resume at the last offset if the hash of the old
bytes is the same. Rewritten files, archives and tables are read from the beginning; one that lost lines is left as it
was read before (`shrunk.py`).
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from datetime import UTC, datetime
from itertools import chain, islice
from pathlib import Path
from typing import BinaryIO, NamedTuple

import polars as pl
from xxhash import xxh3_128

from schemas.errors import BadInput
from schemas.items.conversation import LogFileRead, ShrunkFile
from schemas.items.reject import QuarantineCause
from tasks.ingest.log_files import PART_BYTES, PIECE_BYTES, LogFile, Piece, is_read_whole
from tasks.ingest.log_line import Place
from tasks.ingest.quarantine import hold, quarantined, withdraw_taken_down
from tasks.ingest.read_logs import PartsRead, PieceReader, broken_records
from tasks.ingest.shrunk import lost_lines, note_shrunk, read_again
from tasks.runtime.parallel import map_in_processes
from tasks.runtime.progress import progress, tell
from tasks.storage.keyed_ids import UNFINISHED as UNFINISHED_TAKEDOWN
from tasks.storage.keyed_ids import Tombstones, store_key
from tasks.storage.parts import rows_without
from tasks.storage.tables import Store, frame_of

BATCHES_ALONE = 12
"""Up to this many batches are read in this process: each other process takes 1.4 CPU seconds to start."""
_UNFINISHED = "ingest/unfinished"


class FilePlan(NamedTuple):
    """The pieces of one file to read."""

    read: LogFileRead
    """The row of `log_files` when it has been read; files read as a whole get their lines then."""
    lines_kept: int
    """Lines that earlier runs read and that have not changed."""
    pieces: list[Piece]


def changed(files: Iterable[tuple[LogFile, str]], before: Mapping[str, LogFileRead]) -> list[tuple[LogFile, str]]:
    """The (file, format) whose size, time or format differ from what was read before."""
    return [each for each in files if not _is_known(*each, before.get(each[0].source))]


def _is_known(file: LogFile, name: str, known: LogFileRead | None) -> bool:
    status = file.path.stat()
    stamp = (name, status.st_size, status.st_mtime_ns)
    return known is not None and (known.format, known.size_bytes, known.modified_ns) == stamp


def plan(file: LogFile, name: str, known: LogFileRead | None) -> FilePlan:
    """Plan the reading of a file in format `name`; `known` says how far earlier runs read it."""
    status = file.path.stat()
    row = LogFileRead(
        source=file.source, format=name, size_bytes=status.st_size, modified_ns=status.st_mtime_ns,
        offset=0, lines=0, tail_lines=0, end_digest="",
    )  # fmt: skip
    if is_read_whole(file):
        return FilePlan(row, 0, [Piece(file, name, 0, None, 0, None)])
    with file.path.open("rb", buffering=0) as stream:
        digest = _unchanged(stream, known) if known and known.format == name else None
        start, lines = (known.offset, known.lines) if known and digest else (0, 0)
        stream.seek(start)
        return _plan_rest(stream, row, Piece(file, name, start, start, lines, 0), digest or xxh3_128())


def _unchanged(stream: BinaryIO, known: LogFileRead) -> xxh3_128 | None:
    """The digest of the bytes before the offset, or None if they have changed."""
    digest, left = xxh3_128(), known.offset
    while left and (content := stream.read(min(PIECE_BYTES, left))):
        digest.update(content)
        left -= len(content)
    return digest if known.offset and digest.hexdigest() == known.end_digest else None


def _plan_rest(stream: BinaryIO, row: LogFileRead, first: Piece, digest: xxh3_128) -> FilePlan:
    """Cut the rest of the file into pieces of whole lines. An unfinished last line is a piece of its own."""
    pieces: list[Piece] = []
    start, position, lines, whole = first.start, first.start, first.lines_before, digest.copy()
    while content := stream.read(PIECE_BYTES):
        end = content.rfind(b"\n") + 1
        if end:
            whole = digest.copy()
            whole.update(content[:end])
            count = content.count(b"\n")
            pieces.append(first._replace(start=start, stop=position + end, lines_before=lines, lines=count))
            start, lines = position + end, lines + count
        digest.update(content)
        position += len(content)
    if position > start:
        pieces.append(first._replace(start=start, stop=position, lines_before=lines, lines=1))
    read = {"size_bytes": position, "offset": start, "lines": lines, "tail_lines": int(position > start)}
    return FilePlan(row.model_copy(update=read | {"end_digest": whole.hexdigest()}), first.lines_before, pieces)


def batches(plans: Iterable[FilePlan]) -> Iterator[list[Piece]]:
    """Group pieces, also of different files, into batches of about PART_BYTES."""
    waiting: list[Piece] = []
    waiting_bytes = 0
    for piece in (piece for each in plans for piece in each.pieces):
        size = PART_BYTES if piece.stop is None else piece.size_bytes
        if waiting and waiting_bytes + size > PART_BYTES:
            yield waiting
            waiting, waiting_bytes = [], 0
        waiting.append(piece)
        waiting_bytes += size
    if waiting:
        yield waiting


def _read_batches(reader: PieceReader, batches: Iterable[Sequence[Piece]], workers: int) -> Iterator[PartsRead]:
    """The result of each batch, in order; more than BATCHES_ALONE are read by `workers` processes."""
    ahead = iter(batches)
    first = list(islice(ahead, BATCHES_ALONE + 1))
    if workers == 1 or len(first) <= BATCHES_ALONE:
        yield from map(reader.read, chain(first, ahead))
    else:
        yield from map_in_processes(reader.read, chain(first, ahead), workers)


def read_new(
    store: Store, files: Sequence[tuple[LogFile, str]], logs: Path, workers: int, accept_shrunk: bool = False
) -> dict[str, int]:
    """Read the new lines of `files`, which are (file, format). Returns counts of files, lines and rejects.

    `lines_replaced`, if any, counts the old lines of files that are read again from the beginning, and `files_shrunk`
    those that lost lines: without `accept_shrunk` they count as not read. New parts are listed last, so a killed run
    leaves the tables as they were.
    """
    before = {row["source"]: LogFileRead(**row) for row in store.read("log_files").iter_rows(named=True)}
    reader = PieceReader(store.root, store_key(store), logs)
    new = changed(files, before)
    plans: list[FilePlan] = []
    read: list[PartsRead] = []

    def planned() -> Iterator[FilePlan]:
        for file, name in new:
            plans.append(plan(file, name, before.get(file.source)))
            yield plans[-1]

    with progress("log megabytes", sum(file.path.stat().st_size for file, _ in new) // 1_000_000) as advance:
        for parts in _read_batches(reader, batches(planned()), workers):
            read.append(parts)
            advance(parts.bytes_read // 1_000_000)
    flagged = _named_around(new, set[Place]().union(*(each.flagged_unread for each in read)))
    read += [PartsRead([], [], Counter(), [], 0, flagged, flagged, set())] if flagged else []
    shrunk = [] if accept_shrunk else _shrunk(store, plans, read, before)
    sources = {file.source for file in shrunk}
    plans = [each for each in plans if each.read.source not in sources]
    read = [_without(store, each, sources) for each in read] if shrunk else read
    note_shrunk(store, logs, [file.source for file, _ in files if file.source not in sources], shrunk)
    if plans or shrunk:  # flags in a shrunk file still count
        _list(store, plans, read, before, Tombstones(store, reader.key))
    counts = {"files": len(files), "files_read": len(plans), "lines": sum(each.lines.total() for each in read)}
    anew = [before[each.read.source] for each in plans if each.read.source in before and not each.lines_kept]
    replaced = sum(row.lines for row in anew)
    counts |= {"lines_replaced": replaced} if replaced else {}
    counts |= {"files_shrunk": len(shrunk)} if shrunk else {}
    return counts | {"rejected": sum(sum(each.rejected) for each in read)}


def _kept_lines(store: Store, plans: Iterable[FilePlan], before: Mapping[str, LogFileRead]) -> dict[str, int]:
    """File of which earlier rows may be listed -> its lines that are not read again."""
    interrupted = store.read_bytes(_UNFINISHED) is not None
    return {each.read.source: each.lines_kept for each in plans if interrupted or each.read.source in before}


def _shrunk(
    store: Store, plans: Sequence[FilePlan], read: Sequence[PartsRead], before: Mapping[str, LogFileRead]
) -> list[ShrunkFile]:
    """The files that lost lines which earlier runs read."""
    kept_lines, new_parts = _kept_lines(store, plans, before), [part for each in read for part in each.sightings]
    withdrawn = pl.Series(dtype=pl.String)
    if lost_lines(store, kept_lines, new_parts, (), withdrawn).is_empty():
        return []
    conversations = set[str]().union(*(each.flagged_conv_ids for each in read))
    images = set[str]().union(*(each.flagged_images for each in read))
    flagged = quarantined(store, [*store.parts("sightings"), *new_parts], conversations, images)
    withdrawn = flagged.filter(kind="conversation")["key"]
    lines = sum((each.lines for each in read), Counter[str]())
    plan_of, shrunk = {each.read.source: each for each in plans}, dict[str, ShrunkFile]()
    while True:  # what moved into a file that is held itself is lost, too
        sources = {source: count for source, count in kept_lines.items() if source not in shrunk}
        found = dict[str, ShrunkFile]()
        lost = lost_lines(store, sources, new_parts, shrunk.keys(), withdrawn)
        for source, lines_lost, last_line in lost.iter_rows():
            earlier, present = before.get(source), _with_lines(plan_of[source], lines)
            lines_before = earlier.lines + earlier.tail_lines if earlier else last_line
            lines_now = present.lines + present.tail_lines
            if earlier and plan_of[source].lines_kept == earlier.lines and lines_now >= lines_before:
                continue  # all is there but an unfinished last line, which became another one
            found[source] = ShrunkFile(
                source=source, lines_before=lines_before, lines_now=lines_now, lines_lost=lines_lost
            )
        if not found:
            return [shrunk[source] for source in sorted(shrunk)]
        shrunk |= found


def _without(store: Store, read: PartsRead, sources: Set[str]) -> PartsRead:
    """The same without the rows of some files; flags in them still count."""
    theirs = pl.col("source").is_in(sorted(sources))
    return read._replace(
        sightings=rows_without(store, "sightings", read.sightings, theirs),
        rejects=rows_without(store, "rejects", read.rejects, theirs),
        lines=Counter({source: count for source, count in read.lines.items() if source not in sources}),
    )


def _named_around(files: Sequence[tuple[LogFile, str]], unread: Set[Place]) -> set[str]:
    """Ids and image names in the records that flagged lines are part of; `unread` are those that are no JSON object.

    Where fragments of one name nothing, all broken records count. Raises BadInput when these name nothing either,
    because an image that is not known could not be held back.
    """
    found: set[str] = set()
    for file, _ in files:
        if flagged := {place.line for place in unread if place.source == file.source}:
            first, records = min(flagged), list(broken_records(file))
            everything = set[str]().union(*(record.names for record in records))
            records = [record for record in records if record.lines & flagged]
            lost = any(record.fragments & flagged and not record.names for record in records)
            if lost and not everything:
                raise BadInput(
                    f"log file {file.source!r}, line {first}: it is flagged as child abuse, it is no JSON object, and "
                    "no image or conversation can be read there that could be held back; mend the line, or remove it "
                    "from the log"
                )
            tell(
                f"{file.source}, line {first}: flagged, but no JSON object; what can be read of its record is held back"
            )
            found |= everything if lost else set[str]().union(*(record.names for record in records))
    return found


def _list(
    store: Store,
    plans: Sequence[FilePlan],
    read: Sequence[PartsRead],
    before: Mapping[str, LogFileRead],
    tombstones: Tombstones,
) -> None:
    """List the new parts in the tables, without lines that were replaced, quarantined or taken down."""
    again = _kept_lines(store, plans, before)
    store.write_bytes(_UNFINISHED, b"")
    sightings = _earlier(store, "sightings", again)
    rejects = _earlier(store, "rejects", again) + [part for each in read for part in each.rejects]
    sightings, held, withdrawn = _quarantine(store, sightings, read)
    known = set() if store.read_bytes(UNFINISHED_TAKEDOWN) is not None else set(store.parts("sightings"))
    fresh = [part for part in sightings if part not in known]
    sightings, taken_down = withdraw_taken_down(store, sightings, fresh, tombstones, datetime.now(UTC))
    rejects += [store.write_part("rejects", rows) for rows in (withdrawn, taken_down) if rows.height]
    lines = sum((each.lines for each in read), Counter[str]())
    rows = dict(before) | {each.read.source: _with_lines(each, lines) for each in plans}
    store.replace("quarantine", held)
    store.list_parts("sightings", list(dict.fromkeys(sightings)))
    store.list_parts("rejects", list(dict.fromkeys(rejects)))
    store.replace("log_files", frame_of(LogFileRead, rows.values()))
    store.fs.rm_file(store.at(_UNFINISHED))


def _earlier(store: Store, table: str, kept_lines: Mapping[str, int]) -> list[str]:
    """Parts of earlier runs without the lines that were read again: rewritten files and unfinished last lines."""
    parts = store.parts(table)
    return rows_without(store, table, parts, read_again(kept_lines)) if kept_lines else parts


def _quarantine(
    store: Store, earlier: list[str], read: Sequence[PartsRead]
) -> tuple[list[str], pl.DataFrame, pl.DataFrame]:
    """(parts without what is quarantined, the `quarantine` table, rejects of withdrawn lines)."""
    known, new = store.read("quarantine"), [part for each in read for part in each.sightings]
    conversations = set[str]().union(*(each.flagged_conv_ids for each in read))
    images = set[str]().union(*(each.flagged_images for each in read))
    flagged = hold(store, earlier, new, known, QuarantineCause.FLAGGED, conversations, images)
    listed = hold(store, flagged[0], flagged[1], known, QuarantineCause.KNOWN_HASH)
    return listed[0] + listed[1], pl.concat([flagged[2], listed[2]]), pl.concat([flagged[3], listed[3]])


def _with_lines(each: FilePlan, lines: Counter[str]) -> LogFileRead:
    """The row of `log_files`; lines of files that are read as a whole are counted by their reader."""
    whole = any(piece.stop is None for piece in each.pieces)
    return each.read.model_copy(update={"lines": lines[each.read.source]}) if whole else each.read
