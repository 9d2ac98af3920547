"""Reads benchmarks of others: a folder of pictures and tables, one table, or a data set of the Hub.

In: what the setting `known_benchmarks` names. Out: `KnownBenchmark`, whose pictures come one at a time and whose
questions come from the columns that such sets have. No name of a file is kept. A further kind of table is a reader of
`check.py`; a further column of questions is a word of `QUESTION_COLUMNS`.
"""

import hashlib
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
from huggingface_hub import constants, snapshot_download
from huggingface_hub.utils.tqdm import disable_progress_bars

from schemas.errors import BadInput
from tasks.bench.contamination.check import TABLE_SUFFIXES, column_names, read_outside
from tasks.dedup.loose_files import SUFFIXES, UNREAD
from tasks.runtime.untrusted import one_line
from tasks.storage.parquet import parquet_rows, read_parquet_batches, read_parquet_schema

QUESTION_COLUMNS = ("question", "prompt", "instruction", "query", "turns", "messages", "conversation", "conversations")
"""Columns of which the first that a table has holds its questions."""
_PICTURE_SUFFIXES = SUFFIXES | UNREAD
_HUB_NAME = re.compile(r"[\w.-]+/[\w.-]+")
_HUB_FILES = [f"*{suffix}" for suffix in (*TABLE_SUFFIXES, *sorted(_PICTURE_SUFFIXES))]
_PICTURE_MARK = re.compile(r"<image[ _]?\d*>")
_ROWS_AT_ONCE = 16
"""Rows whose pictures are in memory at once."""


class KnownBenchmark(NamedTuple):
    """A benchmark on this machine."""

    name: str
    files: Sequence[Path]
    """The pictures and tables of a benchmark, in order."""
    digest: str
    """SHA-256 of the files' contents."""

    def pictures(self) -> Iterator[bytes]:
        """The file of each picture, also of those that cannot be decoded; b"" for one that a table only names."""
        for file in self._holding_pictures():
            if file.suffix == ".parquet":
                yield from _pictures_of_table(file)
            else:
                yield file.read_bytes()

    def picture_count(self) -> int:
        """Number of its picture files and of the rows of its Parquet files, for a progress bar."""
        return sum(parquet_rows(file) if file.suffix == ".parquet" else 1 for file in self._holding_pictures())

    def _holding_pictures(self) -> list[Path]:
        suffixes = {".parquet", *_PICTURE_SUFFIXES}
        return [file for file in self.files if file.suffix.lower() in suffixes]

    def questions(self) -> list[str]:
        """The different questions, without marks of pictures, in order. Raises BadInput for a broken table."""
        questions: dict[str, None] = {}
        for file in self.files:
            column = _question_column(file) if file.suffix in TABLE_SUFFIXES else None
            for rows in read_outside(file, column) if column else ():
                for text in (text for row in rows for text in row.texts):
                    questions[_PICTURE_MARK.sub(" ", text).strip()] = None
        questions.pop("", None)
        return [*questions]


def known_benchmarks(given: Iterable[str]) -> list[KnownBenchmark]:
    """The benchmarks that are named; data sets of the Hub are fetched into its cache.

    Raises BadInput as `named_places`, and for what cannot be fetched or read, and for one without pictures and tables.
    """
    benchmarks = []
    for name, (named, place) in named_places(given).items():
        files = _files_of(place or _fetched(named))
        if not files:
            raise BadInput(
                f"known_benchmarks: {named!r} holds no picture and no table; give a folder of pictures, a file of "
                f"{', '.join(TABLE_SUFFIXES)}, or a data set of the Hub as ORG/NAME"
            )
        benchmarks.append(KnownBenchmark(name, files, _digest(files)))
    return benchmarks


def named_places(given: Iterable[str]) -> dict[str, tuple[str, Path | None]]:
    """Name of each benchmark -> what was given, and its folder or file here; None for a data set of the Hub.

    Raises BadInput for a file that is no table, for what neither is here nor can be on the Hub, and for two of one
    name. Opens nothing.
    """
    places: dict[str, tuple[str, Path | None]] = {}
    for named in given:
        place = Path(named).expanduser()
        if place.is_file() and place.suffix not in TABLE_SUFFIXES:
            raise BadInput(f"known_benchmarks: {named!r} is no table; give {', '.join(TABLE_SUFFIXES)} or a folder")
        if not (place.exists() or _HUB_NAME.fullmatch(named)):
            raise BadInput(
                f"known_benchmarks: {named!r} does not exist; give a folder of pictures, a table, or a data set of the "
                "Hub as ORG/NAME"
            )
        name = place.stem if place.is_file() else place.name
        if name in places:
            raise BadInput(f"known_benchmarks: two are called {name!r}; rename the folder of one, or leave one out")
        places[name] = (named, place if place.exists() else None)
    return places


def _fetched(named: str) -> Path:
    """The files of a data set of the Hub, in its cache."""
    if constants.HF_HUB_OFFLINE:
        raise BadInput(f"known_benchmarks: {named!r} is no folder here, and HF_HUB_OFFLINE forbids to ask the Hub")
    disable_progress_bars()
    endpoint = os.environ.get("HF_ENDPOINT")
    try:
        fetched = snapshot_download(named, repo_type="dataset", allow_patterns=_HUB_FILES, endpoint=endpoint)
    except Exception as error:  # the client and the network raise errors of their own
        raise BadInput(
            f"known_benchmarks: {named!r} is no folder here, and the Hub does not give a data set of that name "
            f"({type(error).__name__}: {one_line(str(error).splitlines()[0] if str(error) else '', 120)}); check the "
            "name and the network, or give a folder with a copy"
        ) from None
    return Path(fetched)


def _files_of(place: Path) -> list[Path]:
    suffixes = {*TABLE_SUFFIXES, *_PICTURE_SUFFIXES}
    files = [place] if place.is_file() else sorted(file for file in place.rglob("*") if file.is_file())
    return [file for file in files if file.suffix.lower() in suffixes and not file.name.startswith(".")]


def _digest(files: Sequence[Path]) -> str:
    """Hash of the contents, whatever the files are called."""
    digests = []
    for file in files:
        try:
            with file.open("rb") as stream:
                digests.append(hashlib.file_digest(stream, "sha256").hexdigest())
        except OSError as error:
            raise BadInput(f"known_benchmarks: {str(file)!r} cannot be read ({error.strerror})") from None
    return hashlib.sha256("\n".join(sorted(digests)).encode()).hexdigest()


def _question_column(file: Path) -> str | None:
    """The column of a table's questions; None for a table without one, such as a list of files."""
    there = column_names(file)
    return next((name for name in QUESTION_COLUMNS if name in there), None)


def _pictures_of_table(file: Path) -> Iterator[bytes]:
    try:
        schema = read_parquet_schema(file)
        columns = [field.name for field in schema if _holds_pictures(field.type)]
        for rows in read_parquet_batches(file, columns, _ROWS_AT_ONCE) if columns else ():
            for row in rows:
                for column in columns:
                    yield from _encoded(row[column])
    except (pa.ArrowException, OSError) as error:
        raise BadInput(f"known_benchmarks: {str(file)!r} cannot be read ({type(error).__name__})") from None


def _holds_pictures(kind: pa.DataType) -> bool:
    """Whether values of an Arrow type are pictures as `datasets` stores them, {bytes, path}, or lists of these."""
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _holds_pictures(kind.value_type)
    return bool(pa.types.is_struct(kind) and kind.get_field_index("bytes") >= 0)


def _encoded(value: Any) -> Iterator[bytes]:
    for picture in value if isinstance(value, list) else [value]:
        if picture is not None:
            yield picture["bytes"] or b""
