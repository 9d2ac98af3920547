"""Input formats: an arena server's own logs, and a format adapter for each kind of dataset.

In: the name of a format, or the columns of a data file. Out: the adapter that turns its rows into log records. Other
packages add formats by entry points of the group `arena_curation.formats`; each names a FormatAdapter.
"""

from collections.abc import Sequence
from functools import cache
from importlib.metadata import EntryPoint, entry_points

from schemas.errors import BadInput, known_values
from tasks.ingest.formats.adapter import FormatAdapter
from tasks.ingest.formats.comparia import COMPARIA_SETS
from tasks.ingest.formats.front_ends import FRONT_ENDS
from tasks.ingest.formats.openwebui_feedback import OPENWEBUI_FEEDBACK
from tasks.ingest.formats.published import BENCH_ITEMS, OPENAI_MESSAGES, PUBLISHED_FORMATS, SHAREGPT
from tasks.ingest.formats.text_arenas import TEXT_ARENAS

ARENA_LOGS = "arena-logs"
FORMAT_ENTRY_POINTS = "arena_curation.formats"
_FILES = "JSON (lines, array), Parquet, Arrow"
BUILT_IN: dict[str, FormatAdapter] = {
    shape.name: shape
    for shape in (
        *PUBLISHED_FORMATS,
        *TEXT_ARENAS,
        *FRONT_ENDS,
        *COMPARIA_SETS,
        OPENWEBUI_FEEDBACK,
        OPENAI_MESSAGES,
        SHAREGPT,
        BENCH_ITEMS,
    )
}


def format_names() -> list[str]:
    """The values of `--format`. No other package is loaded."""
    return [ARENA_LOGS, *BUILT_IN, *sorted(set(_installed()) - {ARENA_LOGS, *BUILT_IN})]


def adapter(name: str) -> FormatAdapter:
    """The adapter of a format other than arena logs. Raises BadInput when there is none or it cannot be loaded."""
    if name in BUILT_IN:
        return BUILT_IN[name]
    if name not in _installed():
        raise BadInput(f"unknown format {known_values(name, format_names())}")
    return _loaded(_installed()[name])


def matching_adapter(columns: frozenset[str]) -> FormatAdapter | None:
    """The adapter with the most columns among those whose columns are all there. Loads adapters of other packages."""
    most_columns = 0
    fitting: FormatAdapter | None = None
    for shape in map(adapter, format_names()[1:]):
        for names in shape.column_sets:
            if names <= columns and len(names) > most_columns:
                fitting, most_columns = shape, len(names)
    return fitting


def nearest_adapter(columns: frozenset[str]) -> FormatAdapter | None:
    """The adapter of whose columns the largest share is there, at least half; of equals the one with more columns."""
    best = (0.5, 0)
    nearest: FormatAdapter | None = None
    for shape in map(adapter, format_names()[1:]):
        for names in shape.column_sets:
            share = (len(names & columns) / len(names), len(names))
            if len(names) > 1 and share > best:
                nearest, best = shape, share
    return nearest


def format_rows() -> list[dict[str, str]]:
    """One row a format for `--format list`: its name, what it is, the files it is read from, and what it lacks.

    A format of a package that cannot be loaded says so in place of what it is.
    """
    rows = [_listed(ARENA_LOGS, "an arena server's own logs (FastChat's lines)", "JSON Lines, also .gz and .zst", ())]
    for name in format_names()[1:]:
        try:
            shape = adapter(name)
        except BadInput as error:
            rows.append(_listed(name, str(error), "", ()))
            continue
        files = f"{_FILES}, CSV" if shape.is_flat else _FILES
        rows.append(_listed(name, shape.about or "of another package", files, shape.lacks))
    return rows


def _listed(name: str, about: str, files: str, lacks: Sequence[str]) -> dict[str, str]:
    return {"format": name, "what it is": about, "files": files, "has no": ", ".join(lacks) or "-"}


def _installed() -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=FORMAT_ENTRY_POINTS)}


@cache
def _loaded(point: EntryPoint) -> FormatAdapter:
    package = point.dist.name if point.dist else point.value
    try:
        shape = point.load()
        if not isinstance(shape, FormatAdapter):
            raise TypeError(f"{point.value} is a {type(shape).__name__}, not a FormatAdapter")
    except Exception as error:  # code of another package may raise anything
        raise BadInput(
            f"format {point.name!r} of package {package!r} cannot be loaded ({type(error).__name__}: {error}); "
            "repair or remove the package"
        ) from None
    return shape._replace(name=point.name)
