"""Sections about topics: how many prompts each has, a map of them, and the tree by which they merge."""

from collections.abc import Mapping

import polars as pl

from tasks.report.figures import NAMED_TOPICS, merges, topic_map
from tasks.report.page import Part
from tasks.storage.tables import Store

POINTS_MAX = 5_000
"""Points of the map, about: each takes 100 bytes of the page."""
_LEAVES_MAX = 60
"""Branches of the tree's figure; the table holds all merges."""


def topic_counts(store: Store) -> pl.DataFrame:
    """topic, name and how many documents it has."""
    slices = store.read_slices("topics", ["topic", "name"])
    parts = [rows.group_by("topic", "name").agg(documents=pl.len()) for rows in slices]
    empty = store.empty("topics", ["topic", "name"]).with_columns(documents=pl.lit(0, pl.UInt32)).clear()
    return pl.concat([empty, *parts]).group_by("topic", "name").agg(pl.col("documents").sum()).sort("topic")


def topics_part(store: Store, counts: pl.DataFrame) -> Part | None:
    """The map and the counts; None where there are no topics. Of many documents the map shows one in so many."""
    if counts.is_empty():
        return None
    every = -(-int(counts["documents"].sum()) // POINTS_MAX)
    points = _points(store, every)
    inside = counts.filter(pl.col("topic") >= 0)
    names, sizes = (dict(inside.select("topic", column).iter_rows()) for column in ("name", "documents"))
    x, y, topic = (points[name].to_numpy() for name in points.columns)
    about = (
        "Kept prompts with their images, near each other when they are alike (UMAP), in topics (HDBSCAN). "
        f"The largest {NAMED_TOPICS} are named; grey points, topic -1 in the table, belong to none."
    )
    if every > 1:
        about += f" The map has a point for one prompt in {every:,}."
    return Part("topics", "Topics", about, counts, topic_map(x, y, topic, names, sizes))


def topic_tree_part(store: Store, counts: pl.DataFrame) -> Part | None:
    """The tree by which topics merge; None with fewer than two."""
    tree = store.read("topic_tree").sort("node")
    if tree.is_empty():
        return None
    names = dict(counts.filter(pl.col("topic") >= 0).select("topic", "name").iter_rows())
    left, right = (pl.col(side).replace_strict(names, default="", return_dtype=pl.String) for side in ("left", "right"))
    about = (
        "Which topics are alike: the tree by which they merge, at the mean cosine distance of their centroids "
        "(average linkage). A topic's number stands before its name; merged nodes have the numbers after the topics'."
    )
    table = tree.with_columns(left_name=left, right_name=right)
    return Part("topic_tree", "Tree of topics", about, table, _tree_figure(tree, names))


def _points(store: Store, every: int) -> pl.DataFrame:
    """x, y and topic of one document in `every`, in the order of the table."""
    names, found, passed = ["x", "y", "topic"], [store.empty("topics", ["x", "y", "topic"])], 0
    for rows in store.read_slices("topics", names):
        found.append(rows[-passed % every :].gather_every(every))
        passed += rows.height
    return pl.concat(found)


def _tree_figure(tree: pl.DataFrame, names: Mapping[int, str]) -> str:
    """Nodes are numbered anew, without the gaps that topics without documents leave."""
    nodes = pl.concat([tree["left"], tree["right"], tree["node"]]).unique().sort()
    topics = nodes.filter(~nodes.is_in(tree["node"].implode()))
    place = {node: number for number, node in enumerate(nodes)}
    rows = [(place[left], place[right], distance) for left, right, distance in tree["left", "right", "distance"].rows()]
    return merges(rows, [f"{topic} {names.get(topic, '')}" for topic in topics], _LEAVES_MAX)
