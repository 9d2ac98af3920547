"""The section that shows topics: how many prompts each has, and a map of them."""

import polars as pl

from tasks.report.figures import NAMED_TOPICS, topic_map
from tasks.report.part import Part
from tasks.tables import Store

POINTS_MAX = 20_000
"""Points of the map, about: a browser draws no million, and a point takes 25 bytes of the page."""


def topic_counts(store: Store) -> pl.DataFrame:
    """topic, name and how many documents it has."""
    slices = store.read_slices("topics", ["topic", "name"])
    parts = [rows.group_by("topic", "name").agg(documents=pl.len()) for rows in slices]
    empty = store.empty("topics", ["topic", "name"]).with_columns(documents=pl.lit(0, pl.UInt32)).clear()
    return pl.concat([empty, *parts]).group_by("topic", "name").agg(pl.col("documents").sum()).sort("topic")


def topics_part(store: Store, counts: pl.DataFrame) -> Part | None:
    """The section; None where there are no topics. Of many documents the map shows one in so many."""
    if counts.is_empty():
        return None
    every = -(-int(counts["documents"].sum()) // POINTS_MAX)
    points = _points(store, every)
    inside = counts.filter(pl.col("topic") >= 0)
    names, sizes = (dict(inside.select("topic", column).iter_rows()) for column in ("name", "documents"))
    x, y, topic = (points[name].to_numpy() for name in points.columns)
    about = (
        "Kept prompts with their pictures, near each other when they are alike (UMAP), in topics (HDBSCAN). "
        f"The largest {NAMED_TOPICS} are named; grey points, topic -1 in the table, belong to none."
    )
    if every > 1:
        about += f" The map has a point for one prompt in {every:,}."
    return Part("topics", "Topics", about, counts, topic_map(x, y, topic, names, sizes))


def _points(store: Store, every: int) -> pl.DataFrame:
    """x, y and topic of one document in `every`, in the order of the table."""
    names, found, passed = ["x", "y", "topic"], [store.empty("topics", ["x", "y", "topic"])], 0
    for rows in store.read_slices("topics", names):
        found.append(rows[-passed % every :].gather_every(every))
        passed += rows.height
    return pl.concat(found)
