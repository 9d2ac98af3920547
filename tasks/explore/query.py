"""What a link asks for: a search, chosen facet values and a page. Every view is a link, and every link is a `Query`."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from urllib.parse import urlencode

from tasks.explore.listing import FACETS

SEARCH_CHARACTERS_MAX = 200
_VALUES_MAX = 100
_NAMES = {facet.name for facet in FACETS}


@dataclass(frozen=True)
class Query:
    """A filter of the listing."""

    search: str = ""
    """Text that prompt or answers hold, in any case; empty for all."""
    chosen: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Facet -> values; a row needs one of the values of each facet."""
    page: int = 1
    """Page of the results, from 1."""
    outliers: bool = True
    """Whether the map shows documents without a topic."""

    def toggled(self, facet: str, value: str) -> "Query":
        """The query with a value of a facet chosen, or no longer; on the first page."""
        values = self.chosen.get(facet, ())
        left = tuple(each for each in values if each != value) if value in values else (*values, value)
        chosen = {name: some for name, some in {**self.chosen, facet: left}.items() if some}
        return replace(self, chosen=chosen, page=1)

    def at(self, page: int) -> "Query":
        """Another page of the same results."""
        return replace(self, page=page)

    def with_search(self, search: str) -> "Query":
        """Another search with the same facets; on the first page."""
        return replace(self, search=search, page=1)

    def cleared(self) -> "Query":
        """The query for every row."""
        return replace(self, search="", chosen={}, page=1)

    def with_outliers(self, shown: bool) -> "Query":
        """The query with or without outliers on the map."""
        return replace(self, outliers=shown)

    def encoded(self) -> str:
        """The query as the part of a link after `?`; empty when nothing is asked for."""
        pairs = [("q", self.search)] if self.search else []
        pairs += [(name, value) for name, values in sorted(self.chosen.items()) for value in values]
        pairs += [] if self.outliers else [("outliers", "hidden")]
        pairs += [("page", str(self.page))] if self.page > 1 else []
        return urlencode(pairs, errors="replace")

    @property
    def empty(self) -> bool:
        """Whether every row is asked for."""
        return not self.search and not self.chosen


def query_of(pairs: Iterable[tuple[str, str]]) -> Query:
    """The query of a link's parameters; unknown parameters are ignored."""
    search, page, outliers = "", 1, True
    chosen: dict[str, tuple[str, ...]] = {}
    for name, value in list(pairs)[:_VALUES_MAX]:
        if name == "q":
            search = value.strip()[:SEARCH_CHARACTERS_MAX]
        elif name == "page" and value.isascii() and value.isdecimal():
            page = max(1, int(value[:9]))
        elif name == "outliers":
            outliers = value != "hidden"
        elif name in _NAMES and value not in chosen.get(name, ()):
            chosen[name] = (*chosen.get(name, ()), value)
    return Query(search, chosen, page, outliers)
