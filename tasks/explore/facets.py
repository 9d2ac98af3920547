"""Queries of the listing: the filter in an address, the rows that match, and counts of each further choice."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import reduce
from operator import and_
from typing import Any, NamedTuple
from urllib.parse import urlencode

import polars as pl

from tasks.explore.listing import FACETS, KIND, Facet, kinds_name
from tasks.shown import SIDE

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

    def but(self, **changed: Any) -> "Query":
        """The query with other fields."""
        return replace(self, **changed)

    def cleared(self) -> "Query":
        """The query for every row."""
        return replace(self, search="", chosen={}, page=1)

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


ROWS_A_PAGE = 24
VALUES_MAX = 200
"""Values of a facet that are listed, most frequent first."""


class FacetCount(NamedTuple):
    """Number of rows that have a value of a facet."""

    value: str
    rows: int
    chosen: bool


class FoundRows(NamedTuple):
    """The rows of a query."""

    total: int
    """Number of all matching rows."""
    rows: pl.DataFrame
    """Rows of the page."""
    page: int
    """The page that is shown: the last one when the query asks for a later one."""
    pages: int
    counts: dict[Facet, list[FacetCount]]
    """Facet -> its values, most frequent first; facets without values are left out."""

    @property
    def kinds(self) -> str:
        """The rows by kind, such as `12 conversations, 1 battle`."""
        every = self.counts.get(KIND, [])
        shown = [each for each in every if each.chosen] or [each for each in every if each.value != SIDE]
        return ", ".join(f"{each.rows:,} {each.value if each.rows == 1 else kinds_name(each.value)}" for each in shown)

    @property
    def sides(self) -> int:
        """Sides of battles that would match if their kind were asked for, as it is not by itself."""
        every = self.counts.get(KIND, [])
        return 0 if any(each.chosen for each in every) else sum(each.rows for each in every if each.value == SIDE)


def find(listing: pl.DataFrame, query: Query) -> FoundRows:
    """The page of matching rows, and the counts of all facets."""
    every = pl.repeat(True, listing.height, eager=True, dtype=pl.Boolean)
    masks = _masks(listing, query)
    places = reduce(and_, masks.values(), every).arg_true()
    pages = max(1, -(-places.len() // ROWS_A_PAGE))
    page = min(query.page, pages)
    rows = listing[places.slice((page - 1) * ROWS_A_PAGE, ROWS_A_PAGE)]
    counts = {}
    for facet in FACETS:
        among = reduce(and_, (mask for name, mask in masks.items() if name != facet.name), every)
        if values := _counts(listing, facet, among, query.chosen.get(facet.name, ())):
            counts[facet] = values
    return FoundRows(places.len(), rows, page, pages, counts)


def matching(listing: pl.DataFrame, query: Query) -> pl.Series:
    """Boolean, one value for each row of the listing: whether the query asks for it."""
    return reduce(and_, _masks(listing, query).values(), pl.repeat(True, listing.height, eager=True, dtype=pl.Boolean))


def _masks(listing: pl.DataFrame, query: Query) -> dict[str, pl.Series]:
    """Facet, or `search` -> which rows match it. Sides of battles are only there when their kind is asked for."""
    masks = {
        facet.name: _having(listing, facet, query.chosen[facet.name]) for facet in FACETS if facet.name in query.chosen
    }
    if "kind" not in masks:
        masks["kind"] = listing.select(pl.col("kind").cast(pl.String) != SIDE).to_series()
    if query.search:
        masks["search"] = listing["searched"].str.contains(query.search.lower(), literal=True).fill_null(False)
    return masks


def _having(listing: pl.DataFrame, facet: Facet, values: tuple[str, ...]) -> pl.Series:
    column = pl.col(facet.column)
    among = pl.Series(values, dtype=pl.String)
    if not facet.many:
        return listing.select(column.cast(pl.String).is_in(among.implode()).fill_null(False)).to_series()
    rows = listing.select(column).with_row_index("row").explode(facet.column)
    places = rows.filter(column.cast(pl.String).is_in(among.implode()))["row"].unique()
    return listing.select(pl.int_range(pl.len(), dtype=pl.UInt32).is_in(places.implode())).to_series()


def _counts(listing: pl.DataFrame, facet: Facet, among: pl.Series, chosen: tuple[str, ...]) -> list[FacetCount]:
    values = listing.select(facet.column).filter(among).to_series()
    values = (values.explode() if facet.many else values).drop_nulls()
    counted = values.value_counts().with_columns(pl.col(facet.column).cast(pl.String))
    ordered = counted.sort("count", facet.column, descending=[True, False])
    found = {value: FacetCount(value, rows, value in chosen) for value, rows in ordered.head(VALUES_MAX).iter_rows()}
    return [*found.values(), *(FacetCount(value, 0, True) for value in chosen if value not in found)]
