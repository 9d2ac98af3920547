"""What a new fit did to the topics of the last one: which continue, ended, split or are new."""

import numpy as np
import polars as pl
from scipy.optimize import linear_sum_assignment

SPLIT_SHARE_MIN = 0.2
"""A topic split when at least two new topics each hold this share of its documents."""


def topic_changes(old: pl.DataFrame, new: pl.DataFrame) -> pl.DataFrame:
    """Rows of the `topic_changes` table, from (document_id, topic) before and after; counts documents that are in both.

    `successor` marks the one-to-one mapping of old to new topics that keeps the most documents together (Hungarian
    method). Outliers (-1) are never mapped.
    """
    after = new.select("document_id", new_topic="topic")
    pairs = (
        old.select("document_id", old_topic="topic")
        .join(after, on="document_id")
        .group_by("old_topic", "new_topic")
        .agg(documents=pl.len().cast(pl.Int64))
        .sort("old_topic", "new_topic")
    )
    mapped = pl.DataFrame(_mapping(pairs), {"old_topic": pl.Int32, "new_topic": pl.Int32}, orient="row")
    successors = mapped.with_columns(successor=True)
    return pairs.join(successors, on=["old_topic", "new_topic"], how="left").with_columns(
        pl.col("successor").fill_null(value=False)
    )


def _mapping(pairs: pl.DataFrame) -> list[tuple[int, int]]:
    real = pairs.filter((pl.col("old_topic") >= 0) & (pl.col("new_topic") >= 0))
    if real.is_empty():
        return []
    old, new = real["old_topic"].to_numpy(), real["new_topic"].to_numpy()
    shared = np.zeros((old.max() + 1, new.max() + 1))
    shared[old, new] = real["documents"]
    matched = zip(*linear_sum_assignment(shared, maximize=True), strict=True)
    return [(int(a), int(b)) for a, b in matched if shared[a, b] > 0]


def summary(changes: pl.DataFrame, new: pl.DataFrame) -> str:
    """One line: the share of documents outside the successor of their topic, and how many topics ended or are new."""
    real = changes.filter(pl.col("old_topic") >= 0)
    stayed = changes.filter(pl.col("successor") | ((pl.col("old_topic") < 0) & (pl.col("new_topic") < 0)))
    moved = 1 - int(stayed["documents"].sum()) / max(1, int(changes["documents"].sum()))
    successors = changes.filter("successor")
    share = pl.col("documents") / pl.col("documents").sum().over("old_topic")
    split = real.filter(share >= SPLIT_SHARE_MIN).filter(pl.col("new_topic") >= 0)["old_topic"].value_counts()
    ended = set(real["old_topic"]) - set(successors["old_topic"])
    fresh = set(new.filter(pl.col("topic") >= 0)["topic"]) - set(successors["new_topic"])
    return (
        f"topics were fitted again: {100 * moved:.1f} % of {changes['documents'].sum():,} documents moved; "
        f"{len(successors)} topics continue, {len(ended)} ended, {len(fresh)} are new, "
        f"{split.filter(pl.col('count') > 1).height} split (table topic_changes)"
    )
