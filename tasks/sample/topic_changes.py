"""What a new fit did to the topics of documents that had one: the old topics against the new ones."""

import numpy as np
import polars as pl
from scipy.optimize import linear_sum_assignment

SHARE_OF_TOPIC = 0.2
"""A topic splits into those new ones that take at least this share of it."""


def topic_changes(old: pl.DataFrame, new: pl.DataFrame) -> pl.DataFrame:
    """Rows of the `topic_changes` table, from (document_id, topic) before and after; only documents in both count.

    `successor` marks the pairs of the one-to-one mapping that keeps the most documents together (Hungarian method).
    Outliers (-1) are never mapped.
    """
    both = old.select("document_id", old_topic="topic").join(
        new.select("document_id", new_topic="topic"), on="document_id"
    )
    pairs = (
        both.group_by("old_topic", "new_topic").agg(documents=pl.len().cast(pl.Int64)).sort("old_topic", "new_topic")
    )
    mapped = pl.DataFrame(_mapping(pairs), schema={"old_topic": pl.Int32, "new_topic": pl.Int32}, orient="row")
    return pairs.join(mapped.with_columns(successor=True), on=["old_topic", "new_topic"], how="left").with_columns(
        pl.col("successor").fill_null(value=False)
    )


def summary(changes: pl.DataFrame, new: pl.DataFrame) -> str:
    """One line: the share of documents whose topic has another successor, and topics that died, split or were born."""
    real = changes.filter(pl.col("old_topic") >= 0)
    stayed = changes.filter(pl.col("successor") | ((pl.col("old_topic") < 0) & (pl.col("new_topic") < 0)))
    moved = 1 - int(stayed["documents"].sum()) / max(1, int(changes["documents"].sum()))
    successors = changes.filter("successor")
    share = pl.col("documents") / pl.col("documents").sum().over("old_topic")
    split = real.filter(share >= SHARE_OF_TOPIC).filter(pl.col("new_topic") >= 0)["old_topic"].value_counts()
    died = set(real["old_topic"]) - set(successors["old_topic"])
    born = set(new.filter(pl.col("topic") >= 0)["topic"]) - set(successors["new_topic"])
    return (
        f"topics were fitted anew: {100 * moved:.1f} % of {changes['documents'].sum():,} documents moved; "
        f"{len(successors)} topics go on, {len(died)} ended, {len(born)} are new, "
        f"{split.filter(pl.col('count') > 1).height} split (table topic_changes)"
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
