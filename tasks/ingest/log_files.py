"""Finds the files of a run and their format; reads lines of logs and rows of tables: Parquet, Arrow and CSV.

How JSON is cut into rows is in `tasks/runtime/json_rows.py`.
"""

import csv
import gzip
import io
import os
import re
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from datetime import date
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import orjson
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import zstandard

from schemas.errors import BadInput, why_unreadable, window_in_words
from tasks.ingest.formats import ARENA_LOGS, adapter, format_names, matching_adapter, nearest_adapter
from tasks.ingest.formats.adapter import ColumnKind, FormatAdapter, kind_of_value
from tasks.ingest.quarantine import name_is_flagged, notable
from tasks.runtime.json_rows import BYTE_ORDER_MARK, is_one_document, loads, raw_rows
from tasks.storage.arrow_files import open_arrow

_ROTATED = r"\.(?P<number>\d{1,3})|[-.](?P<rotated>\d{4}-?\d{2}-?\d{2})"
"""End that a rotation puts behind a log's name: a number, of which the lowest is the newest, or a day."""
_NAME = re.compile(
    rf"(?P<first>(?:vision-(?:tmp|csam)-)?(?P<day>\d{{4}}-\d{{2}}-\d{{2}})-conv\.jsonl?)(?:{_ROTATED})?(?:\.gz|\.zst)?"
)
_HOLDS_LINES = re.compile(r"(?i).*\.(?:jsonl?|ndjson|log)\b.*")
"""Names of files that are read as logs when they are flagged, whatever else they are called."""
_COMPRESSED = (".gz", ".zst")
IMAGE_FOLDERS = ("serve_images", "input_images")
"""Names of the image folders beside a server's logs."""
LINE_BYTES_MAX = 16 * 1024 * 1024
"""Longer lines are rejected unread: a state of 50 turns of 30,000 characters is below 8 MB."""
READ_BYTES = 256 * 1024
LINES_BYTES = 8 * 1024 * 1024
"""Bytes that a reader holds in memory; more if a line is longer."""
LOG_PART_BYTES = 4 * LINES_BYTES
"""Bytes that a reader reads in one batch and writes as one part."""
_OVERLAP = 256
"""Bytes by which the pieces of an overlong line overlap, so that no name or flag is cut in two."""


class Stamp(NamedTuple):
    """State of a source, by which it is known as read or as changed; fields as those of `LogFileRead`."""

    size_bytes: int
    modified_ns: int
    version: str = ""
    """Hash of what the source holds; empty for files, of which size and time are compared."""


class RecordSource(Protocol):
    """Something that holds records in an order and is read as one file: a file, or a day of a database."""

    @property
    def source(self) -> str:
        """Name in the tables, the same in each run."""
        ...

    @property
    def day(self) -> date | None:
        """Day that its records are of; null where its name says none."""
        ...

    @property
    def csam(self) -> bool:
        """Whether the server keeps flagged conversations in it."""
        ...

    @property
    def folder(self) -> str:
        """Folder below which paths in its records are read; empty where there is none."""
        ...

    def stamp(self) -> Stamp:
        """State that it has now."""
        ...

    def is_read_whole(self) -> bool:
        """Whether it is read from its beginning when it has changed."""
        ...

    def rows(self, facts: Set[str]) -> Iterator[Any]:
        """All its records in order: raw lines or JSON as bytes, or rows of a table, perhaps without the fields `facts`.

        Only fields inside a column, such as those of messages, are left out.
        """
        ...


@dataclass(frozen=True)
class LogFile:
    """One file of records."""

    path: Path
    source: str
    """Path relative to the log folder, with forward slashes and without .gz or .zst.

    A rotated file has its first name, unless a newer one has it: rotating renames nothing.
    """
    day: date | None
    """The server's local date in the file's name; null in other formats, and in flagged files with other names."""
    csam: bool
    """Whether the server keeps flagged conversations in this file: its name, or that of a folder, holds `csam`."""

    @property
    def folder(self) -> str:
        """The folder that `source` is relative to, below which paths in rows are read."""
        return str(self.path.absolute().parents[self.source.count("/")])

    def stamp(self) -> Stamp:
        """Size and time of the file."""
        status = self.path.stat()
        return Stamp(status.st_size, status.st_mtime_ns)

    def is_read_whole(self) -> bool:
        """Whether the file is an archive, a table, or one JSON document."""
        if self.path.suffix in _COMPRESSED or is_table(self.path):
            return True
        with open_stream(self.path) as stream:
            return is_one_document(stream)

    def rows(self, facts: Set[str] = frozenset()) -> Iterator[Any]:
        """All rows of a table without the bytes of its images; of another file, raw lines or JSON as bytes.

        In Parquet, fields inside a column that are `facts` are not read.
        """
        if is_table(self.path):
            yield from table_rows(self.path, image_bytes=False, facts=facts)
            return
        with open_stream(self.path) as stream:
            yield from raw_rows(stream, raw_lines)


class Piece(NamedTuple):
    """Part of a source that one reader reads."""

    file: RecordSource
    format: str
    start: int
    """First byte."""
    stop: int | None
    """Byte after the last; null for a source that is read as a whole."""
    lines_before: int
    """Lines of the file before the piece."""
    lines: int | None
    """Lines in the piece; null for a file that is read as a whole."""

    @property
    def size_bytes(self) -> int:
        """Bytes on disk."""
        return self.file.stamp().size_bytes if self.stop is None else self.stop - self.start


def log_files(folder: Path, since: date | None = None, until: date | None = None) -> list[LogFile]:
    """Log files below `folder` whose day lies in the window, both ends included, in name order.

    Files of flagged conversations are always included: their images may also appear on other days. Files with other
    names, such as the web server's own logs, are ignored. Every folder below `folder` is searched.
    Raises BadInput when the folder is missing, holds no log file, or none in the window.
    """
    if not folder.is_dir():
        raise BadInput(f"log folder {str(folder)!r} does not exist or is not a folder")
    logs = arena_logs(folder)
    days = sorted(file.day for file in logs if file.day)
    if not days:
        raise BadInput(
            f"log folder {str(folder)!r} holds no log file; expected names like 2024-06-20-conv.json, or other files "
            f"of JSON ({', '.join(_LINES)})"
        )
    in_window = {
        file.source
        for file in logs
        if file.day and (since is None or file.day >= since) and (until is None or file.day <= until)
    }
    if not in_window:
        raise BadInput(f"no log file {window_in_words(since, until)}; the folder holds {days[0]} to {days[-1]}")
    return [file for file in logs if file.csam or file.source in in_window]


def arena_logs(folder: Path) -> list[LogFile]:
    """Every arena log below `folder`, in name order; a compressed copy of a file that is also there is left out."""
    by_source: dict[str, LogFile] = {}
    for file in sorted(_found(folder), key=lambda file: file.path):
        by_source.setdefault(file.source, file)  # in name order, so the file comes before its compressed copy
    rotated = sorted((file for file in by_source.values() if first_name(file.source) != file.source), key=_rotated_ago)
    for file in rotated:  # the newest first
        if (unrotated_name := first_name(file.source)) not in by_source:
            by_source[unrotated_name] = replace(by_source.pop(file.source), source=unrotated_name)
    return [by_source[source] for source in sorted(by_source)]


def first_name(source: str) -> str:
    """The name of a log before it was rotated; other names as they are."""
    folder, slash, name = source.rpartition("/")
    match = _NAME.fullmatch(name)
    return f"{folder}{slash}{match['first']}" if match else source


def _rotated_ago(file: LogFile) -> tuple[int, str]:
    """Orders files that were rotated: the lowest number first, else the last day."""
    match = _NAME.fullmatch(Path(file.source).name)
    assert match is not None
    day = (match["rotated"] or "").replace("-", "")
    return int(match["number"] or 0) - int(day or 0), file.source


def _found(folder: Path) -> Iterator[LogFile]:
    for server in server_folders(folder):
        for path in server.iterdir():
            day, csam = _day(path.name), name_is_flagged(path.relative_to(folder).as_posix())
            if (day or (csam and _HOLDS_LINES.fullmatch(path.name))) and path.is_file():
                yield LogFile(path, source_name(path, folder), day, csam)


def _day(name: str) -> date | None:
    match = _NAME.fullmatch(name)
    try:
        return date.fromisoformat(match["day"]) if match else None
    except ValueError:
        return None


def server_folders(logs: Path) -> Iterator[Path]:
    """The log folder and every folder below it, in name order, except image folders. Links are followed once."""
    real_paths = set[str]()
    for path, folders_below, _ in os.walk(logs, followlinks=True):
        real_path = os.path.realpath(path)
        folders_below[:] = sorted(set(folders_below).difference(IMAGE_FOLDERS)) if real_path not in real_paths else []
        if real_path not in real_paths:
            yield Path(path)
        real_paths.add(real_path)


def source_name(path: Path, folder: Path) -> str:
    """A file's name in the tables: its path relative to `folder`, without .gz or .zst."""
    relative = path.relative_to(folder)
    return (relative.with_suffix("") if path.suffix in _COMPRESSED else relative).as_posix()


def without_mark(raw: bytes, number: int) -> bytes:
    """A line without the byte order mark that the first line may begin with."""
    return raw.removeprefix(BYTE_ORDER_MARK) if number == 1 else raw


def open_stream(path: Path) -> io.BufferedReader:
    """The file's content, decompressed if it is .gz or .zst. A broken or cut-off archive ends in a zero byte."""
    blocks = {".gz": _gzip_blocks, ".zst": _zstd_blocks}.get(path.suffix)
    raw = _BlockStream(_until_broken(blocks(path))) if blocks else io.FileIO(path)
    return io.BufferedReader(raw, READ_BYTES)


def _gzip_blocks(path: Path) -> Iterator[bytes]:
    with gzip.open(path) as stream:
        while block := stream.read1(READ_BYTES):
            yield block


def _zstd_blocks(path: Path) -> Iterator[bytes]:
    """The content of all frames. Raises EOFError when the last one is cut off."""
    frame = None
    with path.open("rb") as stream:
        while packed := stream.read(READ_BYTES):
            while packed:
                frame = frame or zstandard.ZstdDecompressor().decompressobj()
                yield frame.decompress(packed)
                packed, frame = (frame.unused_data, None) if frame.eof else (b"", frame)
    if frame is not None:
        raise EOFError(f"{path.name} ends in the middle of a frame")


def _until_broken(blocks: Iterator[bytes]) -> Iterator[bytes]:
    """The blocks of an archive; where it breaks off, a zero byte, which makes the last line invalid JSON."""
    try:
        yield from blocks
    except (EOFError, OSError, zlib.error, zstandard.ZstdError):
        yield b"\0"


class _BlockStream(io.RawIOBase):
    """Blocks of bytes as a stream."""

    def __init__(self, blocks: Iterator[bytes]) -> None:
        self._blocks = filter(None, blocks)
        self._rest = b""

    def readable(self) -> bool:
        """Yes."""
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        """Copy the next bytes into the buffer, which is full before the end, because blocks may be short; 0 there."""
        filled = 0
        while filled < len(buffer):
            self._rest = self._rest or next(self._blocks, b"")
            if not self._rest:
                break
            size = min(len(buffer) - filled, len(self._rest))
            buffer[filled : filled + size] = self._rest[:size]
            self._rest = self._rest[size:]
            filled += size
        return filled


def raw_lines(stream: io.BufferedIOBase) -> Iterator[bytes]:
    """The remaining lines, with their line ends.

    Of an overlong line, the first LINE_BYTES_MAX + 2 bytes and, from the rest, only possible image names and flags.
    The last line may have no line end, when the server has not finished it.
    """
    longest = LINE_BYTES_MAX + 2  # a line end, and one byte too many
    while raw := stream.readline(longest):
        if len(raw) == longest and not raw.endswith(b"\n"):
            raw += b"".join(_notable_rest(stream, raw[-_OVERLAP:]))
        yield raw


def _notable_rest(stream: io.BufferedIOBase, before: bytes) -> Iterator[bytes]:
    """Possible image names and flags in the rest of a line."""
    while block := stream.readline(READ_BYTES):
        yield notable(before + block)
        if block.endswith(b"\n"):
            return
        before = block[-_OVERLAP:]


def lines(file: LogFile) -> Iterator[tuple[int, bytes]]:
    """(1-based number, raw bytes without the line end) of every line, or row of a file that is one document."""
    with open_stream(file.path) as stream:
        for number, raw in enumerate(raw_rows(stream, raw_lines), 1):
            yield number, raw.rstrip(b"\r\n")


_CSV = ".csv"
_TABLES = (".parquet", ".arrow", ".feather", _CSV)
_LINES = (".jsonl", ".json", ".ndjson")
_OTHER_DELIMITERS = {";": "semicolons", "\t": "tabs", "|": "bars"}
"""Characters that separate the fields of files that are called CSV and are none, and their names."""
_HOLDS_ROWS = re.compile(r"(?i)\.(?:jsonl?|ndjson|[ct]sv|parquet|arrow|feather)(?:[.-]|\Z)")
"""Names of files that hold rows, perhaps packed or rotated in a way that is not read."""
_ROWS_AT_ONCE = 256
_BATCH_BYTES = 16 * 1024 * 1024
"""Bytes of the rows that are read from a table at once; more if one row has more."""
_BYTES_KEPT = 64
"""Bytes kept of each value of a column of plain bytes: as many as say that there is a file (`unread_parts.py`)."""
_LINES_TRIED = 100
"""If this many first lines are broken, the file is not JSON Lines."""
_COLUMNS_SHOWN, _FILES_SHOWN = 8, 3
_INFO = ("dataset_info.json", "dataset_infos.json", "state.json", "dataset_dict.json", "presets.json")
"""Files beside the data that are none."""
_OF_LOGS = frozenset({"type", "tstamp"})
"""Keys of every record of an arena's log, beside `state` or `states`."""


def source_files(
    place: Path, format: str | None = None, since: date | None = None, until: date | None = None
) -> list[tuple[LogFile, str]]:
    """(file, format) of everything to read in a folder or a single data file, in name order.

    Without `format`, a folder with arena logs is read as such; other data files are recognized by their columns. With
    the format of arena logs, or their columns, JSON of any name is a log.
    Files without a row are read as the first of the others.

    Raises BadInput when there is nothing to read, a format is unknown or cannot be loaded, a file fits none, a table
    lacks columns of `format`, or a window is given for undated files.
    """
    if format not in (None, ARENA_LOGS):
        adapter(str(format))  # raises for an unknown one, and for a package that cannot be loaded
    data_paths = [place] if place.is_file() else _data_files(place) if place.is_dir() else []
    if format == ARENA_LOGS:
        data_paths = [path for path in data_paths if not is_table(path)]
    of_logs = not place.is_file() and format in (None, ARENA_LOGS)
    if of_logs and (any(file.day for file in arena_logs(place)) or not data_paths):
        return [(file, ARENA_LOGS) for file in log_files(place, since, until)]
    if since or until:
        raise BadInput("--since and --until choose arena logs by the day in their names; these files have none")
    folder = place.parent if place.is_file() else place
    sources = [(path, source_name(path, folder)) for path in data_paths]
    files = [LogFile(path, source, None, name_is_flagged(source)) for path, source in sources]
    if format is None:
        with_rows = [(file, _format_of(file)) for file in files if _holds_rows(file)]
        if not with_rows:
            names = ", ".join(repr(file.path.name) for file in files[:_FILES_SHOWN])
            raise BadInput(f"there is no row in {str(place)!r} ({names}); give files that hold some")
        # A file that is still empty is read as the others are, and again when it has rows of another format.
        formats = dict(with_rows)
        return [(file, formats.get(file, with_rows[0][1])) for file in files]
    if format != ARENA_LOGS:
        _check_fit(files, adapter(format))
    return [(file, format) for file in files]


def files_in_words(files: Sequence[tuple[RecordSource, str]], format_name: str | None) -> str:
    """A message about the files and formats to read; `format_name` is the value of `--format`."""
    counts = Counter(name for _, name in files)
    shapes = ", ".join(
        f"{count:,} {'file' if count == 1 else 'files'} as {name}" for name, count in sorted(counts.items())
    )
    guessed = format_name is None and set(counts) != {ARENA_LOGS}
    return f"reading {shapes}{', recognized by their columns (--format overrides)' if guessed else ''}"


def files_left_out(place: Path, files: Sequence[tuple[LogFile, str]]) -> str | None:
    """A message about files of a folder whose names say that they hold rows, and that are not read.

    None where there is none, for a single file, and for logs of other days and their packed copies.
    """
    if place.is_file():
        return None
    are_logs = any(format_name == ARENA_LOGS for _, format_name in files)
    paths_read = {file.path for file, _ in files}
    named_as_rows = [path for path in _files_beside(place, are_logs) if _HOLDS_ROWS.search(path.name)]
    left_out = [path for path in named_as_rows if path not in paths_read and path.is_file()]
    if not left_out:
        return None
    names = ", ".join(repr(path.relative_to(place).as_posix()) for path in left_out[:_FILES_SHOWN])
    why = (
        "the folder holds arena logs; read a data set in a run of its own"
        if are_logs
        else "either an unpacked copy is read, or the name does not end as those that are: "
        f"{', '.join((*_TABLES, *_LINES))}, also .gz or .zst"
    )
    return f"{len(left_out):,} {'file' if len(left_out) == 1 else 'files'} not read: {names}; {why}"


def _files_beside(place: Path, are_logs: bool) -> Iterable[Path]:
    """Paths of a folder that may be files of rows; of arena logs without these and without their folders of images."""
    if not are_logs:
        return _files_below(place)
    # whatever stands in a folder that holds logs: those of other days and their packed copies are known by their names
    beside_logs = (path for server in server_folders(place) for path in sorted(server.iterdir()))
    return (path for path in beside_logs if path.name not in _INFO and not _NAME.fullmatch(path.name))


def _data_files(folder: Path) -> list[Path]:
    """The files of rows, in name order; of a file and its compressed copies, which have one source, the first alone."""
    by_source: dict[str, Path] = {}
    for path in _files_below(folder):
        if _plain(path).suffix in (*_TABLES, *_LINES) and path.is_file():
            by_source.setdefault(source_name(path, folder), path)
    return list(by_source.values())


def _files_below(folder: Path) -> Iterator[Path]:
    """Paths below a folder in name order, without hidden files and those beside the data that are none."""
    for path in sorted(folder.rglob("*")):
        if path.name not in _INFO and not path.name.startswith("."):
            yield path


def is_table(path: Path) -> bool:
    """Whether a file is read as a table, by its name; of compressed files, CSV is."""
    return path.suffix in _TABLES or _plain(path).suffix == _CSV


def _plain(path: Path) -> Path:
    """The path without the ending of a compressed file."""
    return path.with_suffix("") if path.suffix in _COMPRESSED else path


def _holds_rows(file: LogFile) -> bool:
    """Whether a file has columns, or anything that may be a row; a table without rows has columns."""
    if is_table(file.path):
        return bool(columns_of(file))
    first_lines = islice(lines(file), _LINES_TRIED)
    return any(without_mark(raw, number).strip() for number, raw in first_lines)


def _format_of(file: LogFile) -> str:
    columns = columns_of(file)
    if not columns and _plain(file.path).suffix not in (*_TABLES, *_LINES):
        kinds = ", ".join((*_TABLES, *_LINES))
        raise BadInput(f"{file.path.name!r} is neither a log nor a dataset; files of these names are read: {kinds}")
    if columns >= _OF_LOGS and columns & {"state", "states"}:
        return ARENA_LOGS
    if fitting := matching_adapter(columns):
        if wrong_kinds := _wrong_kinds(file, fitting):
            raise BadInput(f"{file.path.name!r} has the columns of {fitting.name}, but {wrong_kinds}")
        return fitting.name
    if (delimiter := _other_delimiter(file)) is not None:
        raise BadInput(
            f"{file.path.name!r} separates its fields by {_OTHER_DELIMITERS[delimiter]}; write the file with commas"
        )
    names = ", ".join(sorted(columns)[:_COLUMNS_SHOWN]) or "none; JSON holds an object a line, or an array of objects"
    nearest = nearest_adapter(columns)
    lacking = f". Nearest is {nearest.name}, but it lacks {_lacking(columns, nearest)}" if nearest else ""
    raise BadInput(
        f"{file.path.name!r} is neither a log nor a known dataset (columns: {names}){lacking}. "
        f"Give --format: {', '.join(format_names())}"
    )


def _check_fit(files: Sequence[LogFile], shape: FormatAdapter) -> None:
    """Raises BadInput for a table that is not of the format, and when no file is.

    Rows of JSON may differ, so a file of them beside others that fit is read, and its rows are rejects.
    """
    misfits = {file: problem for file in files if (problem := _misfit(file, shape))}
    for file, problem in misfits.items():
        if is_table(file.path) or len(misfits) == len(files):
            raise BadInput(f"--format {shape.name}: {file.path.name!r} {problem}")


def _misfit(file: LogFile, shape: FormatAdapter) -> str | None:
    """Why a file is not of a format, in words; None where it is, and for a file that holds no row at all."""
    columns = columns_of(file)
    if not columns:
        return None
    if any(names <= columns for names in shape.column_sets):
        return _wrong_kinds(file, shape)
    nearest = matching_adapter(columns) or nearest_adapter(columns)
    hint = f"; nearest is {nearest.name}" if nearest and nearest.name != shape.name else ""
    names = ", ".join(sorted(columns)[:_COLUMNS_SHOWN])
    return f"lacks {_lacking(columns, shape)} (columns: {names}){hint}"


def _lacking(columns: frozenset[str], shape: FormatAdapter) -> str:
    """The fewest columns that a file needs more to be of a format; of equally few those beside the most others."""
    nearest = min(shape.column_sets, key=lambda names: (len(names - columns), -len(names & columns)))
    return ", ".join(sorted(nearest - columns))


def _wrong_kinds(file: LogFile, shape: FormatAdapter) -> str | None:
    """The columns whose values are of another kind than the format has, in words; None where all fit.

    A column of JSON fits if one of the first rows fits: single rows may be odd.
    """
    kinds = _kinds_of_table(file.path) if is_table(file.path) else _kinds_of_lines(file, shape.kinds)
    wrong_columns = []
    for column, expected in shape.kinds.items():
        kinds_there = kinds.get(column, frozenset())
        if kinds_there and kinds_there.isdisjoint(expected):
            words = (" or ".join(sorted(kind_set)) for kind_set in (kinds_there, expected))
            wrong_columns.append(f"{column} is {next(words)} in place of {next(words)}")
    return ", ".join(wrong_columns) or None


def _kinds_of_table(path: Path) -> dict[str, frozenset[ColumnKind]]:
    """Kinds of the columns of a table; none for a column of nulls."""
    if _plain(path).suffix == _CSV:
        return {name: frozenset({ColumnKind.TEXT}) for name in _csv_header(path)}
    return {field.name: _kinds_of_type(field.type) for field in _schema_of_table(path)}


_LIST_TYPES = (
    pa.types.is_list, pa.types.is_large_list, pa.types.is_list_view, pa.types.is_large_list_view,
    pa.types.is_fixed_size_list,
)  # fmt: skip


def _kinds_of_type(arrow_type: pa.DataType) -> frozenset[ColumnKind]:
    value_type = arrow_type.value_type if pa.types.is_dictionary(arrow_type) else arrow_type
    if pa.types.is_null(value_type):
        return frozenset()
    if pa.types.is_string(value_type) or pa.types.is_large_string(value_type) or pa.types.is_string_view(value_type):
        return frozenset({ColumnKind.TEXT})
    if pa.types.is_struct(value_type) or pa.types.is_map(value_type):
        return frozenset({ColumnKind.OBJECT})
    is_list = any(is_type(value_type) for is_type in _LIST_TYPES)
    return frozenset({ColumnKind.LIST if is_list else ColumnKind.OTHER})


def _kinds_of_lines(file: LogFile, expected: Mapping[str, frozenset[ColumnKind]]) -> dict[str, frozenset[ColumnKind]]:
    """Kinds of the values of the first rows, up to the row by which each column has had a value that is `expected`."""
    kinds_by_column: dict[str, set[ColumnKind]] = {column: set() for column in expected}
    for _, row in line_rows(file, _LINES_TRIED):
        for column in expected:
            kind = kind_of_value(row.get(column)) if isinstance(row, dict) else None
            if kind is not None:
                kinds_by_column[column].add(kind)
        if all(not kinds.isdisjoint(expected[column]) for column, kinds in kinds_by_column.items()):
            break
    return {column: frozenset(kinds) for column, kinds in kinds_by_column.items()}


def _other_delimiter(file: LogFile) -> str | None:
    """The character other than a comma that seems to separate the fields of a CSV file."""
    if _plain(file.path).suffix != _CSV:
        return None
    header = _csv_header(file.path)
    for delimiter in _OTHER_DELIMITERS:
        if len(header) == 1 and matching_adapter(frozenset(header[0].split(delimiter))):
            return delimiter
    return None


def columns_of(file: LogFile) -> frozenset[str]:
    """Names of a data file's columns, or the keys of its first row; empty when its first lines hold none.

    Raises BadInput when a table cannot be read.
    """
    if _plain(file.path).suffix == _CSV:
        return frozenset(_csv_header(file.path))
    if is_table(file.path):
        return frozenset(_schema_of_table(file.path).names)
    rows = (row for number, row in line_rows(file, _LINES_TRIED) if isinstance(row, dict))
    return frozenset(next(rows, ()))


def _schema_of_table(path: Path) -> pa.Schema:
    """The schema of a Parquet or Arrow file. Raises BadInput when it cannot be read."""
    try:
        if path.suffix == ".parquet":
            return pq.read_schema(path)
        with open_arrow(path) as arrow:
            return arrow.schema
    except (OSError, UnicodeDecodeError, pa.ArrowException) as error:
        raise _unreadable(path, error) from None


def _unreadable(path: Path, error: Exception) -> BadInput:
    return BadInput(f"data file {path.name!r} cannot be read ({why_unreadable(error)})")


def _csv_header(path: Path) -> list[str]:
    """The names of the columns of a CSV file; none of an empty one."""
    return next(_csv_records(path), [])


def _csv_records(path: Path) -> Iterator[list[str]]:
    """The records of a CSV file (RFC 4180), the header first, without empty ones.

    Raises BadInput for a file that is not UTF-8, has a quote where none may be, or whose records differ in length: from
    there on nobody knows where a field ends.
    """
    csv.field_size_limit(LINE_BYTES_MAX)
    with open_stream(path) as stream, io.TextIOWrapper(stream, "utf-8-sig", newline="") as text:
        reader = csv.reader(text, strict=True)
        header_length = 0
        try:
            for record in reader:
                header_length = header_length or len(record)
                if record and (len(record) != header_length or record[-1].endswith("\0")):
                    raise BadInput(
                        f"data file {path.name!r} is no CSV file that can be read: the record that ends on line "
                        f"{reader.line_num} has {len(record)} fields, and the header {header_length}; look for a quote "
                        "that is not doubled, for another delimiter, or for an archive that breaks off"
                    )
                if record:
                    yield record
        except csv.Error as error:
            raise BadInput(
                f"data file {path.name!r} is no CSV file that can be read: {error} near line {reader.line_num}; fields "
                "with commas, quotes or line breaks stand in quotes, and quotes inside are doubled"
            ) from None
        except UnicodeDecodeError as error:
            raise _unreadable(path, error) from None


def _csv_rows(path: Path) -> Iterator[dict[str, Any]]:
    """Rows of a CSV file; every value is a text."""
    records = _csv_records(path)
    header = next(records, [])
    for record in records:
        yield dict(zip(header, record, strict=True))


def table_rows(
    path: Path, columns: Sequence[str] | None = None, *, image_bytes: bool, facts: Set[str] = frozenset()
) -> Iterator[dict[str, Any]]:
    """Rows of a Parquet, Arrow or CSV file. Raises BadInput when it cannot be read.

    Without `image_bytes`, fields called `bytes` are left out, if there is a `path` beside them; in Parquet they are not
    read. Neither are there fields inside a column whose name is one of `facts`.
    """
    if _plain(path).suffix == _CSV:
        yield from _csv_rows(path)
        return
    try:
        for batch in _batches(path, columns, image_bytes, facts):
            yield from _rows(batch)
    except (OSError, UnicodeDecodeError, KeyError, pa.ArrowException) as error:  # KeyError: a map with a key twice
        raise _unreadable(path, error) from None


def _rows(batch: pa.RecordBatch) -> list[dict[str, Any]]:
    """The rows of a batch, maps as objects; null in place of a time that Python does not have."""
    batch.validate(full=True)  # polars panics at a text that is no UTF-8
    # a list of cells for each column, in order; then a row is a name and a cell of each column
    columns = [_cells(column) for column in batch.columns]
    return [dict(zip(batch.schema.names, cells, strict=True)) for cells in zip(*columns, strict=True)]


def _cells(column: pa.Array) -> list[Any]:
    """The values of a column as Python has them, one each row."""
    if _is_of_texts_and_numbers(column.type):
        return pl.Series(column).to_list()  # of lists of objects, in a third of Arrow's time
    try:
        cells: list[Any] = column.to_pylist(maps_as_pydicts="strict")
    except (OverflowError, ValueError):
        cells = [_value(cell) for cell in column]
    return cells


_TEXT_AND_NUMBER_TYPES = (
    pa.types.is_null, pa.types.is_boolean, pa.types.is_integer, pa.types.is_float32, pa.types.is_float64,
    pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view,
)  # fmt: skip


def _is_of_texts_and_numbers(arrow_type: pa.DataType) -> bool:
    """Whether a type is of texts and numbers, or of lists and objects of them: Arrow and polars read these alike.

    They read maps and times differently.
    """
    if pa.types.is_struct(arrow_type):
        return all(_is_of_texts_and_numbers(field.type) for field in arrow_type)
    if pa.types.is_list(arrow_type) or pa.types.is_large_list(arrow_type):
        return _is_of_texts_and_numbers(arrow_type.value_type)
    return any(is_type(arrow_type) for is_type in _TEXT_AND_NUMBER_TYPES)


def _value(cell: pa.Scalar) -> Any:
    try:
        return cell.as_py(maps_as_pydicts="strict")
    except (OverflowError, ValueError):
        return None


def _batches(path: Path, columns: Sequence[str] | None, image_bytes: bool, facts: Set[str]) -> Iterable[pa.RecordBatch]:
    if path.suffix == ".parquet":
        file = pq.ParquetFile(path)
        leaves = [file.schema.column(index).path for index in range(len(file.schema.names))]
        leaves_to_read = [leaf for leaf in leaves if columns is None or leaf.split(".")[0] in columns]
        # bytes without a path beside them are read, or the whole struct would be gone
        beside_path = {
            leaf for leaf in leaves_to_read if f"{leaf.removesuffix('bytes')}path" in leaves and leaf.endswith(".bytes")
        }
        leaves_to_read = [leaf for leaf in leaves_to_read if image_bytes or leaf not in beside_path]
        leaves_to_read = [leaf for leaf in leaves_to_read if facts.isdisjoint(leaf.split(".")[1:])]
        # Arrow keeps the groups of rows that it has read until its iterator ends.
        for group in range(file.num_row_groups):
            rows_at_once = _rows_at_once(file.metadata.row_group(group))
            for batch in file.iter_batches(rows_at_once, row_groups=[group], columns=leaves_to_read):
                yield batch if image_bytes else _without_bytes(batch)
        return
    with open_arrow(path) as arrow:
        for batch in arrow.batches:
            chosen_columns = batch.select(columns) if columns is not None else batch
            if not image_bytes:
                chosen_columns = _without_bytes(chosen_columns)
            yield from (
                chosen_columns.slice(start, _ROWS_AT_ONCE) for start in range(0, chosen_columns.num_rows, _ROWS_AT_ONCE)
            )


def _rows_at_once(group: pq.RowGroupMetaData) -> int:
    """Rows of a batch, fewer where they are large."""
    row_bytes: int = group.total_byte_size // max(group.num_rows, 1)
    return max(1, min(_ROWS_AT_ONCE, _BATCH_BYTES // max(row_bytes, 1)))


def _without_bytes(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch without the bytes of files that are columns of their own, or lists or structs in one."""
    columns = [_paths_only(column) for column in batch.columns]
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def _paths_only(column: pa.Array) -> pa.Array:
    """A column of images, or of lists of images, without the field `bytes`; of plain bytes the beginning."""
    if pa.types.is_binary(column.type) or pa.types.is_large_binary(column.type):
        return pc.binary_slice(column, 0, _BYTES_KEPT)
    if pa.types.is_list(column.type) or pa.types.is_large_list(column.type):
        whole = column.take(pa.array(range(len(column)))) if column.offset else column
        values = whole.values
        shorter_values = _paths_only(values)
        if shorter_values is values:
            return column
        return type(whole).from_arrays(whole.offsets, shorter_values, mask=whole.is_null())
    if pa.types.is_struct(column.type) and {field.name for field in column.type} == {"bytes", "path"}:
        return pa.StructArray.from_arrays([column.field("path")], ["path"], mask=column.is_null())
    return column


def line_rows(file: LogFile, most: int | None = None) -> Iterator[tuple[int, Any]]:
    """(line number, JSON value) of every line that is JSON among the first `most`."""
    for number, raw in islice(lines(file), most):
        try:
            yield number, loads(without_mark(raw, number))
        except orjson.JSONDecodeError:
            continue
