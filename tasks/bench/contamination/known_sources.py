"""Reads benchmarks of others: a folder of pictures and tables, one table, or a data set of the Hub.

In: what the setting `known_benchmarks` names. Out: `KnownBenchmark`, whose pictures come one at a time and whose
questions come from the columns that such sets have; and the names of the files that are not read. No table keeps a name
of a file. A further kind of table is a reader of `check.py`; a further column of questions is a word of
`QUESTION_COLUMNS`; a further kind of picture file is a suffix of `LOOSE_SUFFIXES`, and inside tables a beginning in
`_ENCODED`.
"""

import base64
import hashlib
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
from huggingface_hub import HfApi, constants, snapshot_download
from huggingface_hub.utils.tqdm import disable_progress_bars

from schemas.errors import BadInput
from tasks.bench.contamination.check import (
    TABLE_SUFFIXES,
    column_names,
    read_outside,
    table_errors,
    text_rows,
)
from tasks.dedup.loose_files import LOOSE_SUFFIXES, UNREAD
from tasks.runtime.progress import tell
from tasks.runtime.untrusted import one_line
from tasks.storage.parquet import parquet_rows, read_parquet_batches, read_parquet_schema

QUESTION_COLUMNS = ("question", "prompt", "instruction", "query", "turns", "messages", "conversation", "conversations")
"""Columns of which the first that a table has holds its questions."""
_PICTURE_SUFFIXES = LOOSE_SUFFIXES | UNREAD
_HUB_NAME = re.compile(r"[\w.-]+/[\w.-]+")
_READ_SUFFIXES = (*TABLE_SUFFIXES, *sorted(_PICTURE_SUFFIXES))
_HUB_FILES = ["*." + "".join(f"[{letter}{letter.upper()}]" for letter in suffix[1:]) for suffix in _READ_SUFFIXES]
"""Patterns of the files that are fetched, in small letters or capitals."""
_ABOUT_A_SET = {"readme", "license", "licence", "citation", "notice", "changelog", "dataset_infos", "dataset_info"}
"""Names, without suffix, of files that are about a benchmark and hold nothing of it."""
_ENCODED = re.compile(r"\s*(?:data:image/[\w.+-]+;base64,)?(?=iVBORw0KGgo|/9j/|R0lGOD|UklGR)")
"""How a text begins that is a PNG, JPEG, GIF or WebP in base64."""
_ENCODED_CHARACTERS_MIN = 60
"""A shorter text is no picture."""
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
    unread: Sequence[str]
    """Paths in its folder of all other files, which are neither pictures nor tables."""

    def pictures(self) -> Iterator[OutsidePicture]:
        """Each picture, also those that cannot be decoded. Raises BadInput for a file that cannot be read."""
        for file in self.files:
            label = one_line(file.relative_to(self.folder).as_posix(), 120)
            with _readable(file):
                if _is_parquet(file):
                    yield from _pictures_of_table(file, label)
                elif _is_table(file):
                    yield from _pictures_in_texts(file, label)
                else:
                    yield OutsidePicture(label, file.read_bytes())

    def progress_total(self) -> int:
        """Picture files and rows of its Parquet files: about as many as pictures, as a row may hold none or several.

        Rows of other tables are not counted, because that would read them whole. Raises BadInput for a broken table.
        """
        count = 0
        for file in self.files:
            with _readable(file):
                if _is_parquet(file):
                    count += parquet_rows(file)
                elif not _is_table(file):
                    count += 1
        return count

    def questions(self) -> list[str]:
        """The different questions, without marks of pictures, in order. Raises BadInput for a broken table."""
        questions: dict[str, None] = {}
        for file in self.files:
            column = _question_column(file) if _is_table(file) else None
            if column is None:
                continue
            # a text is one message of a row, or all of them joined; the same in several rows or tables counts once
            for rows in read_outside(file, column):
                texts = (text for row in rows for text in row.texts)
                questions |= dict.fromkeys(_PICTURE_MARK.sub(" ", text).strip() for text in texts)
        questions.pop("", None)
        return [*questions]

    def unused_tables(self) -> list[str]:
        """Paths of the tables with neither a column of questions nor a picture. Raises BadInput for a broken one."""
        unused = []
        for file in filter(_is_table, self.files):
            label = file.relative_to(self.folder).as_posix()
            pictures = _pictures_of_table(file, label) if _is_parquet(file) else _pictures_in_texts(file, label)
            with _readable(file):
                if _question_column(file) is None and next(pictures, None) is None:
                    unused.append(label)
        return unused


def known_benchmarks(names: Iterable[str]) -> list[KnownBenchmark]:
    """The benchmarks that are named; data sets of the Hub are fetched into its cache.

    Raises BadInput as `named_places`, and for what cannot be fetched or read, and for one without pictures and tables.
    """
    benchmarks = []
    for name, (stated_name, here) in named_places(names).items():
        place = here or _fetched(stated_name)
        files, other_files = _files_of(place)
        if not files:
            raise BadInput(
                f"known_benchmarks: {stated_name!r} holds no picture and no table; give a folder of pictures, a file "
                f"of {', '.join(TABLE_SUFFIXES)}, or a data set of the Hub as ORG/NAME"
            )
        root = place.parent if place.is_file() else place
        # of a data set of the Hub only what can be read was fetched, so its other files are not in the folder
        unread = (
            [file.relative_to(root).as_posix() for file in other_files] if here else _not_fetched(stated_name, place)
        )
        benchmarks.append(KnownBenchmark(name, root, files, _digest(files), unread))
    return benchmarks


def named_places(names: Iterable[str]) -> dict[str, tuple[str, Path | None]]:
    """Name of each benchmark -> what was given, and its folder or file here; None for a data set of the Hub.

    Raises BadInput for a file that is no table, for what neither is here nor can be on the Hub, and for two of one
    name. Opens nothing.
    """
    places: dict[str, tuple[str, Path | None]] = {}
    for stated_name in names:
        place = Path(stated_name).expanduser()
        if place.is_file() and place.suffix.lower() not in TABLE_SUFFIXES:
            raise BadInput(
                f"known_benchmarks: {stated_name!r} is no table; give {', '.join(TABLE_SUFFIXES)} or a folder"
            )
        if not (place.exists() or _HUB_NAME.fullmatch(stated_name)):
            raise BadInput(
                f"known_benchmarks: {stated_name!r} does not exist; give a folder of pictures, a table, or a data set "
                "of the Hub as ORG/NAME"
            )
        name = place.stem if place.is_file() else place.name
        if name in places:
            raise BadInput(f"known_benchmarks: two are called {name!r}; rename the folder of one, or leave one out")
        places[name] = (stated_name, place if place.exists() else None)
    return places


def _fetched(dataset: str) -> Path:
    """Folder in the Hub's cache with the files of a data set, ORG/NAME, that can be read."""
    if constants.HF_HUB_OFFLINE:
        raise BadInput(f"known_benchmarks: {dataset!r} is no folder here, and HF_HUB_OFFLINE forbids to ask the Hub")
    disable_progress_bars()
    endpoint = os.environ.get("HF_ENDPOINT")
    try:
        folder = snapshot_download(dataset, repo_type="dataset", allow_patterns=_HUB_FILES, endpoint=endpoint)
    except Exception as error:  # the client and the network raise errors of their own
        raise BadInput(
            f"known_benchmarks: {dataset!r} is no folder here, and the Hub does not give a data set of that name "
            f"({type(error).__name__}: {one_line(str(error).splitlines()[0] if str(error) else '', 120)}); check the "
            "name and the network, or give a folder with a copy"
        ) from None
    return Path(folder)


def _not_fetched(dataset: str, folder: Path) -> list[str]:
    """Paths of the files of a data set of the Hub that are not fetched; empty, with a line, where the Hub fails now.

    `folder`: as `_fetched` gives it; the cache names it by the commit.
    """
    api = HfApi(endpoint=os.environ.get("HF_ENDPOINT"))
    try:
        paths = api.list_repo_files(dataset, repo_type="dataset", revision=folder.name)
    except Exception as error:  # as in `_fetched`, whose copy in the cache is enough
        tell(f"known_benchmarks: the Hub does not list the files of {dataset!r} now ({type(error).__name__})")
        return []
    return sorted(path for path in paths if not (is_hidden(path) or _is_read(Path(path)) or _is_about(Path(path))))


def is_hidden(path: str) -> bool:
    """Whether a name in a path begins with a dot."""
    return any(name.startswith(".") for name in path.split("/"))


def _files_of(place: Path) -> tuple[list[Path], list[Path]]:
    """(pictures and tables, other files) of a folder; one file is itself."""
    if place.is_file():
        return [place], []
    files = [
        file
        for file in sorted(place.rglob("*"))
        if file.is_file() and not is_hidden(file.relative_to(place).as_posix())
    ]
    other_files = [file for file in files if not (_is_read(file) or _is_about(file))]
    return [file for file in files if _is_read(file)], other_files


def _is_read(file: Path) -> bool:
    """Whether a file is a picture or a table; `dataset_infos.json` and the like are tables by their suffix alone."""
    return file.suffix.lower() in _READ_SUFFIXES and not (file.suffix.lower() == ".json" and _is_about(file))


def _is_about(file: Path) -> bool:
    return file.stem.lower() in _ABOUT_A_SET


def _is_parquet(file: Path) -> bool:
    return file.suffix.lower() == ".parquet"


def _is_table(file: Path) -> bool:
    return file.suffix.lower() in TABLE_SUFFIXES


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
    """The pictures of a Parquet file: {bytes, path} as `datasets` stores them, bytes, or texts in base64."""
    schema = read_parquet_schema(file)
    columns = [field.name for field in schema if _may_hold_pictures(field.type)]
    if not columns:
        return
    number = 0
    for rows in read_parquet_batches(file, columns, _ROWS_AT_ONCE):
        for row in rows:
            number += 1
            yield from _pictures_of_row(row, f"{label} row {number:,}")


def _may_hold_pictures(kind: pa.DataType) -> bool:
    """Whether values of an Arrow type are {bytes, path}, bytes, texts, or lists of these."""
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _may_hold_pictures(kind.value_type)
    is_text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    is_binary = pa.types.is_binary(kind) or pa.types.is_large_binary(kind)
    return bool(is_text or is_binary or (pa.types.is_struct(kind) and kind.get_field_index("bytes") >= 0))


def _pictures_in_texts(file: Path, label: str) -> Iterator[OutsidePicture]:
    """The pictures that texts of a JSON, CSV or TSV file encode."""
    with table_errors(file):
        for number, row in enumerate(text_rows(file), 1):
            yield from _pictures_of_row(row, f"{label} row {number:,}")


def _pictures_of_row(row: dict[str, Any], place: str) -> Iterator[OutsidePicture]:
    for column, value in row.items():
        for element in value if isinstance(value, list) else [value]:
            content = _picture_bytes(element)
            if content is not None:
                yield OutsidePicture(one_line(f"{place}, {column}", 160), content)


def _picture_bytes(value: Any) -> bytes | None:
    """The bytes of a value that is a picture, None for any other value.

    b"" for a picture that a table only names, and for a text that begins as one in base64 and is none.
    """
    if isinstance(value, dict):
        value = value.get("bytes", value)
        if value is None:
            return b""
    if isinstance(value, bytes):
        return value
    head = _ENCODED.match(value) if isinstance(value, str) and len(value) >= _ENCODED_CHARACTERS_MIN else None
    if head is None:
        return None
    try:
        return base64.b64decode(value[head.end() :])
    except ValueError:
        return b""
