"""Filters the listing by a query and counts what each further choice would leave."""

from functools import reduce
from operator import and_
from typing import NamedTuple

import polars as pl

from tasks.explore.listing import FACETS, SIDE, Facet
from tasks.explore.query import Query

ROWS_A_PAGE = 24
VALUES_MAX = 200
"""Values of a facet that are listed, most frequent first."""


class Count(NamedTuple):
    """How many rows have a value of a facet."""

    value: str
    rows: int
    chosen: bool


class Found(NamedTuple):
    """The rows of a query."""

    total: int
    """Number of all matching rows."""
    rows: pl.DataFrame
    """Those of the page."""
    page: int
    """The page that is shown: the last one when the query asks for a later one."""
    pages: int
    counts: dict[Facet, list[Count]]
    """Facet -> its values, most frequent first; facets without values are left out."""


def find(listing: pl.DataFrame, query: Query) -> Found:
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
    return Found(places.len(), rows, page, pages, counts)


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
        masks["search"] = _holding(listing, query.search)
    return masks


def _having(listing: pl.DataFrame, facet: Facet, values: tuple[str, ...]) -> pl.Series:
    column = pl.col(facet.column)
    among = pl.Series(values, dtype=pl.String)
    if not facet.many:
        return listing.select(column.cast(pl.String).is_in(among.implode()).fill_null(False)).to_series()
    rows = listing.select(column).with_row_index("row").explode(facet.column)
    places = rows.filter(column.cast(pl.String).is_in(among.implode()))["row"].unique()
    return listing.select(pl.int_range(pl.len(), dtype=pl.UInt32).is_in(places.implode())).to_series()


def _holding(listing: pl.DataFrame, search: str) -> pl.Series:
    return listing["searched"].str.contains(search.lower(), literal=True).fill_null(False)


def _counts(listing: pl.DataFrame, facet: Facet, among: pl.Series, chosen: tuple[str, ...]) -> list[Count]:
    values = listing.select(facet.column).filter(among).to_series()
    values = (values.explode() if facet.many else values).drop_nulls()
    counted = values.value_counts().with_columns(pl.col(facet.column).cast(pl.String))
    ordered = counted.sort("count", facet.column, descending=[True, False])
    found = {value: Count(value, rows, value in chosen) for value, rows in ordered.head(VALUES_MAX).iter_rows()}
    return [*found.values(), *(Count(value, 0, True) for value in chosen if value not in found)]
