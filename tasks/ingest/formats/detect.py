"""Which files a run reads, and as what."""

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import date
from pathlib import Path

from schemas.errors import BadInput, known_values
from tasks.ingest.formats import ARENA_LOGS, DOORS
from tasks.ingest.formats.rows import LINES, TABLES, columns_of
from tasks.ingest.log_files import LogFile, arena_logs, log_files, source_name

_COLUMNS_SHOWN = 8
_INFO = ("dataset_info.json", "dataset_infos.json", "state.json", "dataset_dict.json")
"""Beside the data of a dataset."""


def source_files(
    place: Path, format: str | None = None, since: date | None = None, until: date | None = None
) -> list[tuple[LogFile, str]]:
    """(file, format) of everything to read in a folder or a single data file, in name order.

    Without `format`, a folder with arena logs is read as such; other data files are known by their columns.
    Raises BadInput when there is nothing to read, a file fits no format, or a window is given for undated files.
    """
    if format not in (None, ARENA_LOGS, *DOORS):
        raise BadInput(f"unknown format {known_values(str(format), [ARENA_LOGS, *DOORS])}")
    if not place.is_file():
        data = [] if format == ARENA_LOGS or not place.is_dir() else list(_data_files(place))
        if format in (None, ARENA_LOGS) and (arena_logs(place) or not data):
            return [(file, ARENA_LOGS) for file in log_files(place, since, until)]
    else:
        data = [place]
    if since or until:
        raise BadInput("--since and --until choose arena logs by the day in their names; these files have none")
    folder = place.parent if place.is_file() else place
    files = [LogFile(path, source_name(path, folder), None, False) for path in data]
    return [(file, format or _format_of(file)) for file in files]


def described(files: Sequence[tuple[LogFile, str]], given: str | None) -> str:
    """What will be read, and as what; `given` is the format that was asked for."""
    counts = Counter(name for _, name in files)
    shapes = ", ".join(f"{n:,} {'file' if n == 1 else 'files'} as {name}" for name, n in sorted(counts.items()))
    guessed = given is None and set(counts) != {ARENA_LOGS}
    return f"reading {shapes}{', known by their columns (--format says otherwise)' if guessed else ''}"


def _data_files(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.rglob("*")):
        plain = path.with_suffix("") if path.suffix in (".gz", ".zst") else path
        left_out = path.name in _INFO or path.name.startswith(".")
        if plain.suffix in (*TABLES, *LINES) and path.is_file() and not left_out:
            yield path


def _format_of(file: LogFile) -> str:
    columns = columns_of(file)
    fitting = [door for door in DOORS.values() if door.columns <= columns]
    if fitting:
        return max(fitting, key=lambda door: len(door.columns)).name
    seen = ", ".join(sorted(columns)[:_COLUMNS_SHOWN]) or "none; JSON Lines hold an object a line"
    raise BadInput(
        f"{file.path.name!r} holds no log and is no dataset that is known (columns: {seen}). "
        f"Give --format: {', '.join([ARENA_LOGS, *DOORS])}"
    )
