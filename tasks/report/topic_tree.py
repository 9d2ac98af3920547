"""The section that shows which topics are alike."""

from collections.abc import Mapping

import polars as pl

from tasks.report.figures import LABEL_CHARACTERS, merges
from tasks.report.part import Part
from tasks.tables import Store
from tasks.untrusted import one_line

SHOWN = 60
"""Branches of the figure; the table holds all merges."""


def topic_tree_part(store: Store) -> Part | None:
    """The tree by which topics merge; None with fewer than two."""
    tree = store.read("topic_tree").sort("node")
    if tree.is_empty():
        return None
    names: dict[int, str] = {}
    for rows in store.read_slices("topics", ["topic", "name"]):
        names.update(rows.filter(pl.col("topic") >= 0).unique().iter_rows())
    sides = [pl.col(side).replace_strict(names, default="", return_dtype=pl.String) for side in ("left", "right")]
    table = tree.with_columns(left_name=sides[0], right_name=sides[1])
    about = (
        "Which topics are alike: the tree by which they merge, at the mean cosine distance of their centroids "
        "(average linkage). A topic's number stands before its name; merged nodes have the numbers after the topics'."
    )
    return Part("topic_tree", "Tree of topics", about, table, _figure(tree, names))


def _figure(tree: pl.DataFrame, names: Mapping[int, str]) -> str:
    """Nodes without the gaps that topics without documents leave in their numbers."""
    nodes = pl.concat([tree["left"], tree["right"], tree["node"]]).unique().sort()
    topics = nodes.filter(~nodes.is_in(tree["node"].implode()))
    place = {node: number for number, node in enumerate(nodes)}
    rows = [(place[left], place[right], distance) for left, right, distance in tree["left", "right", "distance"].rows()]
    leaves = [f"{topic} {one_line(names.get(topic, ''), LABEL_CHARACTERS)}" for topic in topics]
    return merges(rows, leaves, SHOWN)
