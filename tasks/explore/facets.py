"""Queries of the listing: the filter in an address, the rows that match, and counts of each further choice.

In: parameters of an address and the listing; for `like` and `sql` the listing has the columns `cosine` and `is_asked`,
which `Pages` adds. Out: `Query`, and from `find` and `matching` the rows. A further filter that is no facet is a field
of `Query`, a branch of `query_of`, a pair of `encoded` and a mask of `_masks`.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from math import isfinite
from operator import and_
from typing import Any, NamedTuple
from urllib.parse import urlencode

import numpy as np
import numpy.typing as npt
import polars as pl

from tasks.explore.alike import NEAREST
from tasks.explore.listing import FACETS, KIND_FACET, Facet, kinds_name
from tasks.shown import SIDE

SEARCH_CHARACTERS_MAX = 200
_VALUES_MAX = 100
_NAMES = {facet.name for facet in FACETS}
_NO_FACETS = {"q", "like", "area", "sql"}


@dataclass(frozen=True)
class Query:
    """A filter of the listing."""

    search: str = ""
    """Text that prompt or answers hold, in any case; empty for all."""
    chosen: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Facet -> values; a row needs one of the values of each facet."""
    like: str = ""
    """Key of an item: its `NEAREST` rows, nearest first; empty for all."""
    area: tuple[tuple[float, float], ...] = ()
    """Corners of an area of the map, in its own coordinates; empty for all."""
    sql: str = ""
    """A question in SQL whose answer has ids of items; empty for all."""
    page: int = 1
    """Page of the results, from 1."""
    outliers: bool = True
    """Whether the map shows documents without a topic."""

    def toggled(self, facet: str, value: str) -> "Query":
        """The query with a value of a facet chosen, or no longer; on the first page."""
        values = self.chosen.get(facet, ())
        toggled_values = (
            tuple(chosen_value for chosen_value in values if chosen_value != value)
            if value in values
            else (*values, value)
        )
        chosen = {
            name: facet_values for name, facet_values in {**self.chosen, facet: toggled_values}.items() if facet_values
        }
        return replace(self, chosen=chosen, page=1)

    def but(self, **changed: Any) -> "Query":
        """The query with other fields."""
        return replace(self, **changed)

    def cleared(self) -> "Query":
        """The query for every row."""
        return replace(self, search="", chosen={}, like="", area=(), sql="", page=1)

    def encoded(self) -> str:
        """The query as the part of a link after `?`; empty when nothing is asked for."""
        return urlencode(self.pairs, errors="replace")

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """Names and values of the parameters of a link."""
        pairs = [("q", self.search)] if self.search else []
        pairs += [(name, value) for name, values in sorted(self.chosen.items()) for value in values]
        pairs += [("like", self.like)] if self.like else []
        pairs += [("area", "_".join(f"{x:.6g},{y:.6g}" for x, y in self.area))] if self.area else []
        pairs += [("sql", self.sql)] if self.sql else []
        pairs += [] if self.outliers else [("outliers", "hidden")]
        pairs += [("page", str(self.page))] if self.page > 1 else []
        return pairs

    @property
    def empty(self) -> bool:
        """Whether every row is asked for."""
        return not (self.search or self.chosen or self.like or self.area or self.sql)


class NoSelection(Exception):
    """A link whose selection cannot be made; the text says why in one sentence."""


AREA_CORNERS_MAX = 200
SQL_CHARACTERS_MAX = 4_000


def _area_of(text: str) -> tuple[tuple[float, float], ...]:
    """The corners of an area. Raises NoSelection."""
    corners = [corner.split(",") for corner in text.split("_", AREA_CORNERS_MAX)]
    try:
        area = tuple((float(x), float(y)) for x, y in corners)
    except ValueError:
        area = ()
    if not 3 <= len(area) <= AREA_CORNERS_MAX or not all(isfinite(number) for corner in area for number in corner):
        raise NoSelection(
            f"The area of this link is not one: it needs 3 to {AREA_CORNERS_MAX} corners such as 1.5,2_3,4_5,6. "
            "Draw it on the map again"
        )
    return area


def query_of(pairs: Iterable[tuple[str, str]]) -> Query:
    """The query of a link's parameters.

    Raises NoSelection for a parameter that is none, and for more or longer ones than are read: without it, the link
    would select more than it says.
    """
    pairs = list(pairs)
    if len(pairs) > _VALUES_MAX:
        raise NoSelection(f"This link has more than {_VALUES_MAX} parameters")
    search, page, outliers = "", 1, True
    like, area, sql = "", tuple[tuple[float, float], ...](), ""
    chosen: dict[str, tuple[str, ...]] = {}
    for name, value in pairs:
        if name == "q":
            if len(value.strip()) > SEARCH_CHARACTERS_MAX:
                raise NoSelection(f"The text to search for has more than {SEARCH_CHARACTERS_MAX} characters")
            search = value.strip()
        elif name == "like":
            like = value
        elif name == "area":
            area = _area_of(value)
        elif name == "sql":
            if len(value) > SQL_CHARACTERS_MAX:
                raise NoSelection(f"The question of this link has more than {SQL_CHARACTERS_MAX:,} characters")
            sql = value.strip()
        elif name == "page":
            page = max(1, int(value[:9])) if value.isascii() and value.isdecimal() else 1
        elif name == "outliers":
            outliers = value != "hidden"
        elif name in _NAMES:
            chosen[name] = tuple(dict.fromkeys([*chosen.get(name, ()), value]))
        elif name != "token":  # of a link that `curate` printed
            raise NoSelection(f"There is no filter {name[:40]!r}; there are {', '.join(sorted(_NAMES | _NO_FACETS))}")
    return Query(search, chosen, like, area, sql, page, outliers)


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
        every = self.counts.get(KIND_FACET, [])
        kind_counts = [count for count in every if count.chosen] or [count for count in every if count.value != SIDE]
        return ", ".join(
            f"{count.rows:,} {count.value if count.rows == 1 else kinds_name(count.value)}" for count in kind_counts
        )

    @property
    def sides(self) -> int:
        """Sides of battles that would match if their kind were asked for, as it is not by itself."""
        every = self.counts.get(KIND_FACET, [])
        return 0 if any(count.chosen for count in every) else sum(count.rows for count in every if count.value == SIDE)


def find(listing: pl.DataFrame, query: Query) -> FoundRows:
    """The page of matching rows, and the counts of all facets."""
    every = pl.repeat(True, listing.height, eager=True, dtype=pl.Boolean)
    masks = _masks(listing, query)
    places = reduce(and_, masks.values(), every).arg_true()
    if query.like:
        places = places.gather(listing["cosine"].gather(places).arg_sort(descending=True))
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
    if query.like:
        # The nearest of the kinds that are asked for, whatever else is.
        cosine = listing.select(pl.when(masks["kind"]).then("cosine")).to_series()
        nearest = cosine.arg_sort(descending=True, nulls_last=True).head(min(NEAREST, cosine.count()))
        masks["like"] = pl.select(pl.int_range(listing.height, dtype=pl.UInt32).is_in(nearest.implode())).to_series()
    if query.area:
        masks["area"] = in_area(listing, query.area)
    if query.sql:
        masks["sql"] = listing["is_asked"]
    return masks


def in_area(rows: pl.DataFrame, area: Sequence[tuple[float, float]]) -> pl.Series:
    """Boolean (rows,): whether each has a place on the map inside the area, by the even-odd rule."""
    x, y = (rows[name].cast(pl.Float64).fill_null(np.nan).to_numpy() for name in ("x", "y"))
    corners = np.array(area, np.float64)
    low, high = corners.min(axis=0), corners.max(axis=0)
    inside = np.zeros(rows.height, bool)
    near = np.flatnonzero((x >= low[0]) & (x <= high[0]) & (y >= low[1]) & (y <= high[1]))
    inside[near] = _crossed_oddly(x[near], y[near], corners)
    return pl.Series(inside)


def _crossed_oddly(
    x: npt.NDArray[np.float64], y: npt.NDArray[np.float64], corners: npt.NDArray[np.float64]
) -> npt.NDArray[np.bool_]:
    """Bool (n,): whether a ray from each point to the right crosses an odd number of edges."""
    odd = np.zeros(len(x), bool)
    for (x0, y0), (x1, y1) in zip(corners, np.roll(corners, -1, axis=0), strict=True):
        if y0 != y1:
            crosses = (y0 > y) != (y1 > y)
            odd ^= crosses & (x < (x1 - x0) * (y - y0) / (y1 - y0) + x0)
    return odd


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
    counts = {value: FacetCount(value, rows, value in chosen) for value, rows in ordered.head(VALUES_MAX).iter_rows()}
    return [*counts.values(), *(FacetCount(value, 0, True) for value in chosen if value not in counts)]
