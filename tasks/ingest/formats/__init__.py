"""Input formats: an arena server's own logs, and a format adapter for each kind of dataset.

In: the name of a format, or the columns of a data file. Out: the adapter that turns its rows into log records. Other
packages add formats by entry points of the group `arena_curation.formats`; each names a FormatAdapter.
"""

from functools import cache
from importlib.metadata import EntryPoint, entry_points

from schemas.errors import BadInput, known_values
from tasks.ingest.formats.adapter import FormatAdapter
from tasks.ingest.formats.published import BENCH_ITEMS, OPENAI_MESSAGES, PUBLISHED, SHAREGPT

ARENA_LOGS = "arena-logs"
GROUP = "arena_curation.formats"
BUILT_IN: dict[str, FormatAdapter] = {each.name: each for each in (*PUBLISHED, OPENAI_MESSAGES, SHAREGPT, BENCH_ITEMS)}


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
    fitting = [each for each in map(adapter, format_names()[1:]) if each.columns <= columns]
    return max(fitting, key=lambda each: len(each.columns), default=None)


def _installed() -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=GROUP)}


@cache
def _loaded(point: EntryPoint) -> FormatAdapter:
    package = point.dist.name if point.dist else point.value
    try:
        found = point.load()
        if not isinstance(found, FormatAdapter):
            raise TypeError(f"{point.value} is a {type(found).__name__}, not a FormatAdapter")
    except Exception as error:  # code of another package may raise anything
        raise BadInput(
            f"format {point.name!r} of package {package!r} cannot be loaded ({type(error).__name__}: {error}); "
            "repair or remove the package"
        ) from None
    return found._replace(name=point.name)
