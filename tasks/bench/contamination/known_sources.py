"""Reads benchmarks of others: a folder of pictures and tables, one table, or a data set of the Hub.

In: what the setting `known_benchmarks` names. Out: `KnownBenchmark`, whose pictures come one at a time and whose
questions come from the columns that such sets have. No table keeps a name of a file. A further kind of table is a
reader of `check.py`; a further column of questions is a word of `QUESTION_COLUMNS`.
"""

import hashlib
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
from huggingface_hub import constants, snapshot_download
from huggingface_hub.utils.tqdm import disable_progress_bars

from schemas.errors import BadInput
from tasks.bench.contamination.check import TABLE_SUFFIXES, column_names, read_outside
from tasks.dedup.loose_files import LOOSE_SUFFIXES, UNREAD
from tasks.runtime.untrusted import one_line
from tasks.storage.parquet import parquet_rows, read_parquet_batches, read_parquet_schema

QUESTION_COLUMNS = ("question", "prompt", "instruction", "query", "turns", "messages", "conversation", "conversations")
"""Columns of which the first that a table has holds its questions."""
_PICTURE_SUFFIXES = LOOSE_SUFFIXES | UNREAD
_HUB_NAME = re.compile(r"[\w.-]+/[\w.-]+")
_HUB_FILES = [f"*{suffix}" for suffix in (*TABLE_SUFFIXES, *sorted(_PICTURE_SUFFIXES))]
_PICTURE_MARK = re.compile(r"<image[ _]?\d*>")
_ROWS_AT_ONCE = 16
"""Rows whose pictures are in memory at once."""


class OutsidePicture(NamedTuple):
    """A picture of a benchmark as it lies on this machine."""

    label: str
    """Path in the folder of the benchmark, with row and column where it is that of a table; for messages alone."""
    content: bytes
    """The file; b"" for one that a table only names."""


class KnownBenchmark(NamedTuple):
    """A benchmark on this machine."""

    name: str
    folder: Path
    """The folder of its files."""
    files: Sequence[Path]
    """The pictures and tables of a benchmark, in order."""
    digest: str
    """SHA-256 of the files' contents."""

    def pictures(self) -> Iterator[OutsidePicture]:
        """Each picture, also those that cannot be decoded. Raises BadInput for a file that cannot be read."""
        for file in self._holding_pictures():
            label = one_line(file.relative_to(self.folder).as_posix(), 120)
            with _readable(file):
                if file.suffix.lower() == ".parquet":
                    yield from _pictures_of_table(file, label)
                else:
                    yield OutsidePicture(label, file.read_bytes())

    def progress_total(self) -> int:
        """Picture files and rows of its Parquet files: about as many as pictures, as a row may hold none or several.

        Raises BadInput for a broken table.
        """
        count = 0
        for file in self._holding_pictures():
            with _readable(file):
                count += parquet_rows(file) if file.suffix.lower() == ".parquet" else 1
        return count

    def _holding_pictures(self) -> list[Path]:
        suffixes = {".parquet", *_PICTURE_SUFFIXES}
        return [file for file in self.files if file.suffix.lower() in suffixes]

    def questions(self) -> list[str]:
        """The different questions, without marks of pictures, in order. Raises BadInput for a broken table."""
        questions: dict[str, None] = {}
        for file in self.files:
            column = _question_column(file) if file.suffix.lower() in TABLE_SUFFIXES else None
            if column is None:
                continue
            for rows in read_outside(file, column):
                texts = (text for row in rows for text in row.texts)
                questions |= dict.fromkeys(_PICTURE_MARK.sub(" ", text).strip() for text in texts)
        questions.pop("", None)
        return [*questions]


def known_benchmarks(given: Iterable[str]) -> list[KnownBenchmark]:
    """The benchmarks that are named; data sets of the Hub are fetched into its cache.

    Raises BadInput as `named_places`, and for what cannot be fetched or read, and for one without pictures and tables.
    """
    benchmarks = []
    for name, (named, place) in named_places(given).items():
        path = place or _fetched(named)
        files = _files_of(path)
        if not files:
            raise BadInput(
                f"known_benchmarks: {named!r} holds no picture and no table; give a folder of pictures, a file of "
                f"{', '.join(TABLE_SUFFIXES)}, or a data set of the Hub as ORG/NAME"
            )
        root = path.parent if path.is_file() else path
        benchmarks.append(KnownBenchmark(name, root, files, _digest(files)))
    return benchmarks


def named_places(given: Iterable[str]) -> dict[str, tuple[str, Path | None]]:
    """Name of each benchmark -> what was given, and its folder or file here; None for a data set of the Hub.

    Raises BadInput for a file that is no table, for what neither is here nor can be on the Hub, and for two of one
    name. Opens nothing.
    """
    places: dict[str, tuple[str, Path | None]] = {}
    for named in given:
        place = Path(named).expanduser()
        if place.is_file() and place.suffix.lower() not in TABLE_SUFFIXES:
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
        with _readable(file), file.open("rb") as stream:
            digests.append(hashlib.file_digest(stream, "sha256").hexdigest())
    return hashlib.sha256("\n".join(sorted(digests)).encode()).hexdigest()


@contextmanager
def _readable(file: Path) -> Iterator[None]:
    """Raises BadInput with the file's name where what is done here cannot read it."""
    try:
        yield
    except (pa.ArrowException, OSError) as error:
        reason = getattr(error, "strerror", None) or type(error).__name__
        raise BadInput(
            f"known_benchmarks: {str(file)!r} cannot be read ({reason}); mend it, or take it out of the benchmark"
        ) from None


def _question_column(file: Path) -> str | None:
    """The column of a table's questions; None for a table without one, such as a list of files."""
    columns = column_names(file)
    return next((name for name in QUESTION_COLUMNS if name in columns), None)


def _pictures_of_table(file: Path, label: str) -> Iterator[OutsidePicture]:
    columns = [field.name for field in read_parquet_schema(file) if _holds_pictures(field.type)]
    if not columns:
        return
    number = 0
    for rows in read_parquet_batches(file, columns, _ROWS_AT_ONCE):
        for row in rows:
            number += 1
            for column in columns:
                of_column = one_line(f"{label} row {number:,}, {column}", 160)
                yield from (OutsidePicture(of_column, content) for content in _encoded(row[column]))


def _holds_pictures(kind: pa.DataType) -> bool:
    """Whether values of an Arrow type are pictures as `datasets` stores them, {bytes, path}, or lists of these."""
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _holds_pictures(kind.value_type)
    return bool(pa.types.is_struct(kind) and kind.get_field_index("bytes") >= 0)


def _encoded(value: Any) -> Iterator[bytes]:
    for picture in value if isinstance(value, list) else [value]:
        if picture is not None:
            yield picture["bytes"] or b""
