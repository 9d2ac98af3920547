"""Sections about topics: prompts per topic, a map, and the merge tree."""

from collections.abc import Mapping

import polars as pl

from tasks.report.figures import NAMED_TOPICS, merges, topic_map
from tasks.report.page import Part
from tasks.storage.tables import Store

POINTS_MAX = 5_000
"""Most points on the map, about; each takes 100 bytes of the page."""
_LEAVES_MAX = 60
"""Most leaves in the figure of the tree; the table lists all merges."""


def topic_counts(store: Store) -> pl.DataFrame:
    """topic, name and number of documents."""
    return store.read("topics", ["topic", "name"]).group_by("topic", "name").agg(documents=pl.len()).sort("topic")


def topics_part(store: Store, counts: pl.DataFrame) -> Part | None:
    """The map and the counts; None without topics. With many documents the map shows a regular sample of them."""
    if counts.is_empty():
        return None
    every = -(-int(counts["documents"].sum()) // POINTS_MAX)
    points = store.read("topics", ["x", "y", "topic"]).gather_every(every)
    inside = counts.filter(pl.col("topic") >= 0)
    names, sizes = (dict(inside.select("topic", column).iter_rows()) for column in ("name", "documents"))
    x, y, topic = (points[name].to_numpy() for name in points.columns)
    about = (
        "Kept prompts with their images: similar ones are close together (UMAP), colours are topics (HDBSCAN). "
        f"The largest {NAMED_TOPICS} topics are named; grey points are in no topic (topic -1 in the table)."
    )
    if every > 1:
        about += f" The map shows one prompt in {every:,}."
    return Part("topics", "Topics", about, counts, topic_map(x, y, topic, names, sizes))


def topic_tree_part(store: Store, counts: pl.DataFrame) -> Part | None:
    """The merge tree of topics; None with fewer than two topics."""
    tree = store.read("topic_tree").sort("node")
    if tree.is_empty():
        return None
    names = dict(counts.filter(pl.col("topic") >= 0).select("topic", "name").iter_rows())
    left, right = (pl.col(side).replace_strict(names, default="", return_dtype=pl.String) for side in ("left", "right"))
    about = (
        "Which topics are similar: hierarchical clustering of their centroids by mean cosine distance (average "
        "linkage). Topics have their number before the name; merged nodes have higher numbers."
    )
    table = tree.with_columns(left_name=left, right_name=right)
    return Part("topic_tree", "Tree of topics", about, table, _tree_figure(tree, names))


def _tree_figure(tree: pl.DataFrame, names: Mapping[int, str]) -> str:
    """Renumbers the nodes, because topics without documents leave gaps."""
    nodes = pl.concat([tree["left"], tree["right"], tree["node"]]).unique().sort()
    topics = nodes.filter(~nodes.is_in(tree["node"].implode()))
    place = {node: number for number, node in enumerate(nodes)}
    rows = [(place[left], place[right], distance) for left, right, distance in tree["left", "right", "distance"].rows()]
    return merges(rows, [f"{topic} {names.get(topic, '')}" for topic in topics], _LEAVES_MAX)
