"""The section that shows which topics are alike."""

import polars as pl

from tasks.report.figures import merges
from tasks.report.part import Part
from tasks.tables import Store

SHOWN = 60
"""Branches of the figure; the table holds all merges."""


def topic_tree_part(store: Store) -> Part | None:
    """The tree by which topics merge; None with fewer than two."""
    tree = store.read("topic_tree").sort("node")
    if tree.is_empty():
        return None
    names = dict(store.read("topics", ["topic", "name"]).filter(pl.col("topic") >= 0).unique().iter_rows())
    sides = [pl.col(side).replace_strict(names, default="", return_dtype=pl.String) for side in ("left", "right")]
    table = tree.with_columns(left_name=sides[0], right_name=sides[1])
    about = (
        "Which topics are alike: the tree by which they merge, at the mean cosine distance of their centroids "
        "(average linkage). A topic's number stands before its name; merged nodes have the numbers after the topics'."
    )
    rows = tree.select("left", "right", "distance").rows()
    return Part("topic_tree", "Tree of topics", about, table, merges(rows, names, SHOWN))
