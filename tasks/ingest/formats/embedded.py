"""Pictures that published datasets carry in their rows."""

from collections.abc import Iterable, Iterator
from typing import Any

from tasks.ingest.formats import DOORS
from tasks.ingest.formats.door import Door
from tasks.ingest.formats.published import picture_name
from tasks.ingest.formats.rows import TABLES, line_rows, table_rows
from tasks.ingest.log_files import LogFile
from tasks.ingest.log_line import Place
from tasks.ingest.picture_files import PictureSource

SUFFIX = ".embedded"


def embedded_pictures(files: Iterable[tuple[LogFile, str]], wanted: Iterable[str]) -> Iterator[PictureSource]:
    """Each wanted picture that a row of `files`, which are (file, format), carries: once, in row order."""
    missing = set(wanted)
    for file, name in files:
        door = DOORS.get(name)
        if door is None or door.picture_column is None:
            continue
        for place, row in _rows(file, door) if missing else ():
            for found, content in _contents(row, door, place):
                if found in missing:
                    missing.discard(found)
                    yield PictureSource(found + SUFFIX, file.path, content)


def _rows(file: LogFile, door: Door) -> Iterator[tuple[Place, Any]]:
    columns = [door.picture_column] if door.picture_column else []
    table = file.path.suffix in TABLES
    rows = enumerate(table_rows(file.path, columns, picture_bytes=True), 1) if table else line_rows(file)
    for number, row in rows:
        yield Place(file.source, number), row


def _contents(row: Any, door: Door, place: Place) -> Iterator[tuple[str, bytes]]:
    try:
        pictures = [
            (picture_name(place, index, each), each.get("bytes")) for index, each in enumerate(door.pictures(row))
        ]
    except (KeyError, TypeError, AttributeError, ValueError, IndexError):  # the row was rejected when it was read
        return
    yield from ((name, content) for name, content in pictures if isinstance(content, bytes))
