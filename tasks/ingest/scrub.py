"""Copies raw logs without addresses and cookie hashes, and knows such copies as the files that they were made from.

In: log files that a store has read to their end. Out: copies under the same names, line by line: the address of a
record becomes the keyed form that our own arena logs (`keyed_address`), whose user id is the same; other keys about the
sender go. What people and models wrote stays as it is. The store notes each copy (`ScrubbedFile`), so that ingest,
which finds it in place of the original, reads nothing again (`known_copies`). A further key about senders is a word of
`_OF_SENDERS`.
"""

import gzip
import ipaddress
import json
import os
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, NamedTuple

import orjson
import zstandard
from xxhash import xxh3_128

from schemas.errors import BadInput
from schemas.items.conversation import LogFileRead, ScrubbedFile
from tasks.ingest.formats import ARENA_LOGS
from tasks.ingest.log_files import LINES_BYTES, LogFile, RecordSource, lines, source_files
from tasks.ingest.quarantine import line_is_flagged, notable
from tasks.runtime.json_rows import BYTE_ORDER_MARK, loads
from tasks.storage.keyed_ids import keyed_address, known_key
from tasks.storage.tables import Store

_NOTE = "ingest/scrubbed.json"
"""File of a store with the copies that were made of log files."""
_OF_SENDERS = re.compile(
    "ips?|ipaddress|(client|remote|real|xreal|user)(ip|addr|address)|x?forwarded(for)?|(set)?cookies?|browser(id)?|"
    "session(hash|id)?|useragent|fingerprint|deviceid"
)
"""Letters of keys about who sent a record, outside of its messages."""
_WRITTEN = frozenset({"messages", "model", "models", "model_name", "reason"})
"""Keys whose values are copied as they are: what people and models wrote, and names of models."""
_BROKEN = b'{"scrubbed":'
"""Begins a line in place of one that is no JSON object; it is none, either."""
_PORT = re.compile(r":\d{1,5}$")
_ADDRESS_CHARACTERS_MAX = 60


class Copied(NamedTuple):
    """Counts of `scrub`."""

    files: int
    """Copies that were written."""
    lines: int
    """Lines of them."""
    addresses: int
    """Lines whose address is a keyed form now."""
    broken: int
    """Lines that are no record, of which only flags and names are left."""
    left_out: list[str]
    """Log files that are old enough, and that the store has not read as they are now."""


def scrub(store: Store, logs: Path, before: date, out: Path) -> Copied:
    """Write copies of the log files of days before `before` to a new folder, and note them in the store.

    Raises BadInput for a folder that exists or cannot be written, logs without a file of that age that the store knows,
    and a missing key. Nothing is left of copies that were not all made.
    """
    key = known_key(store)
    if not key:
        raise BadInput(f"store {store.root!r} has no user key yet; run `curate ingest` first")
    if out.exists():
        raise BadInput(f"--out {str(out)!r} exists already; give a folder that does not")
    old_files = [file for file, format_name in source_files(logs) if format_name == ARENA_LOGS and _day(file) < before]
    rows_by_source = {row["source"]: LogFileRead(**row) for row in store.read("log_files").iter_rows(named=True)}
    as_read = [file for file in old_files if is_as_read(file, rows_by_source.get(file.source))]
    left_out = [file.source for file in old_files if file not in as_read]
    if not as_read:
        raise BadInput(
            f"no log file of days before {before} that this store has read as it is; run `curate ingest`, or give "
            "fewer --older days"
        )
    copies, counts = scrubbed_files(store), [0, 0, 0]
    with _whole_or_removed(out):
        for file in as_read:
            scrubber = _Scrubber(key)
            copies[file.source] = scrubber.copy(
                file, rows_by_source[file.source], out / file.path.relative_to(file.folder)
            )
            counts = [
                total + count
                for total, count in zip(counts, (scrubber.lines, scrubber.addresses, scrubber.broken), strict=True)
            ]
    note = [copies[source].model_dump() for source in sorted(copies)]
    store.write_bytes(_NOTE, json.dumps(note, indent=2).encode())
    return Copied(len(as_read), counts[0], counts[1], counts[2], left_out)


@contextmanager
def _whole_or_removed(out: Path) -> Iterator[None]:
    """Remove a new folder when what is written into it fails. Raises BadInput when it cannot be written."""
    try:
        yield
    except BaseException as error:
        shutil.rmtree(out, ignore_errors=True)
        if isinstance(error, OSError):
            failure = f"--out {str(out)!r} cannot be written" if _is_below(error, out) else "a log file cannot be read"
            raise BadInput(f"{failure} ({error.strerror}); nothing was copied") from None
        raise


def _is_below(error: OSError, folder: Path) -> bool:
    """Whether an error is about a folder or what is in it; a full disk names no file."""
    place = Path(error.filename or folder)
    return place in (folder, *folder.parents) or folder in place.parents


def _day(file: LogFile) -> date:
    """The day in a file's name; without one, that of its last change."""
    return file.day or datetime.fromtimestamp(file.path.stat().st_mtime, UTC).date()


def is_as_read(file: RecordSource, earlier: LogFileRead | None) -> bool:
    """Whether a source has the size, time and version with which it was read."""
    stamp = file.stamp()
    if earlier is None or stamp.version not in ("", earlier.end_digest):
        return False
    return (earlier.size_bytes, earlier.modified_ns) == (stamp.size_bytes, stamp.modified_ns)


def scrubbed_files(store: Store) -> dict[str, ScrubbedFile]:
    """Log file -> the copy that was last made of it."""
    rows = [ScrubbedFile.model_validate(row) for row in json.loads(store.read_bytes(_NOTE) or b"[]")]
    return {row.read.source: row for row in rows}


def known_copies(
    files: Iterable[LogFile], before: Mapping[str, LogFileRead], copies: Mapping[str, ScrubbedFile]
) -> dict[str, LogFileRead]:
    """Rows of `log_files` for files in whose place a scrubbed copy lies now, or one to which lines were added."""
    rows = dict[str, LogFileRead]()
    for file in files:
        copy = copies.get(file.source)
        if copy is None or is_as_read(file, before.get(file.source)):
            continue
        status = file.path.stat()
        if status.st_size == copy.read.size_bytes and _digest(file.path) == copy.digest:
            rows[file.source] = copy.read.model_copy(update={"modified_ns": status.st_mtime_ns})
        elif copy.read.offset and _digest(file.path, copy.read.offset) == copy.read.end_digest:
            rows[file.source] = copy.read
    return rows


def _digest(path: Path, size_bytes: int | None = None) -> str:
    """XXH3 of a file, or of its first bytes."""
    digest = xxh3_128()
    bytes_left = path.stat().st_size if size_bytes is None else size_bytes
    with path.open("rb", buffering=0) as stream:
        while bytes_left and (content := stream.read(min(LINES_BYTES, bytes_left))):
            digest.update(content)
            bytes_left -= len(content)
    return digest.hexdigest()


class _Scrubber:
    """Copies a file, and counts its lines."""

    def __init__(self, key: bytes) -> None:
        self._key = key
        self.lines = self.addresses = self.broken = 0

    def copy(self, file: LogFile, earlier: LogFileRead, target: Path) -> ScrubbedFile:
        """Write the copy of a file with the file's time; returns how ingest knows it."""
        target.parent.mkdir(parents=True, exist_ok=True)
        line_count, copied_lines = earlier.lines + earlier.tail_lines, 0
        digest, size_bytes = xxh3_128(), 0
        with _packed(target) as write:
            for copied_lines, raw in lines(file):
                content = self.scrubbed(raw)
                if not (earlier.tail_lines and copied_lines == line_count):  # the last line may have no end
                    content += b"\n"
                    size_bytes += len(content)
                    digest.update(content)
                write(content)
        if copied_lines != line_count:
            raise BadInput(
                f"log file {file.source!r} changed while it was copied; run `curate ingest`, then this again"
            )
        self.lines += copied_lines
        status = file.path.stat()
        os.utime(target, ns=(status.st_atime_ns, status.st_mtime_ns))
        changes: dict[str, Any] = {"size_bytes": target.stat().st_size}
        if earlier.end_digest:  # not of files that are read as a whole
            changes |= {"offset": size_bytes, "end_digest": digest.hexdigest()}
        return ScrubbedFile(read=earlier.model_copy(update=changes), digest=_digest(target))

    def scrubbed(self, raw: bytes) -> bytes:
        """A line without what says who sent it."""
        if not raw.strip():
            return raw
        is_flagged = line_is_flagged(raw)
        try:
            record = loads(raw.removeprefix(BYTE_ORDER_MARK))
        except (orjson.JSONDecodeError, RecursionError):
            record = None
        if not isinstance(record, dict):
            self.broken += 1
            return _BROKEN + (notable(raw) if is_flagged else b"")
        address = record.get("ip")
        record = _without_senders(record)
        if isinstance(address, str) and address.strip():
            record["ip"] = keyed_address(self._key, address)
            self.addresses += 1
        content = orjson.dumps(record)
        if is_flagged and not line_is_flagged(content):  # the flag was a key that stood twice
            content = orjson.dumps(record | {"has_csam_image": True})
        return content


def _without_senders(value: Any) -> Any:
    """The value without keys about who sent it, and without texts that are an address."""
    if isinstance(value, dict):
        return {
            key: inner if key in _WRITTEN else _without_senders(inner)
            for key, inner in value.items()
            if key in _WRITTEN or not (_is_of_sender(key) or _is_address(inner))
        }
    return [_without_senders(inner) for inner in value if not _is_address(inner)] if isinstance(value, list) else value


def _is_of_sender(key: str) -> bool:
    return _OF_SENDERS.fullmatch(re.sub(r"[^a-z]", "", key.lower())) is not None


def _is_address(value: object) -> bool:
    """Whether a value is an IP address, also with a port."""
    if not isinstance(value, str) or len(value) > _ADDRESS_CHARACTERS_MAX:
        return False
    for text in (value.strip().strip("[]"), _PORT.sub("", value.strip()).strip("[]")):
        with suppress(ValueError):
            ipaddress.ip_address(text)
            return True
    return False


@contextmanager
def _packed(target: Path) -> Iterator[Callable[[bytes], object]]:
    """A function that writes to the file, packed as its name says; the same content gives the same bytes."""
    with target.open("xb") as file:
        if target.suffix == ".gz":
            with gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0) as packed:
                yield packed.write
        elif target.suffix == ".zst":
            with zstandard.ZstdCompressor().stream_writer(file, closefd=False) as packed:
                yield packed.write
        else:
            yield file.write
