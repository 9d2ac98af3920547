"""Embeddings of kept documents -> `topics`: what `curate sample` does before the benchmark is drawn."""

from collections.abc import Mapping

import numpy as np
import polars as pl
from scipy.optimize import linear_sum_assignment

from schemas.run import StageReport
from schemas.settings import Settings
from schemas.topic import TopicMember
from tasks.providers import Providers
from tasks.storage.queries.documents import embedded_documents, kept_conversations
from tasks.storage.queries.signals import Versions
from tasks.storage.tables import Store, frame_schema
from tasks.topics.cluster import TOPICS_NEED, members_min, too_few
from tasks.topics.descriptions import topic_evidence, topic_names, topic_tree
from tasks.topics.engines import Clustering
from tasks.topics.fit import TABLE, Topics, fit_and_assign

SHARE_OF_TOPIC = 0.2
"""A topic splits into those new ones that take at least this share of it."""


def write_topics(settings: Settings, providers: Providers, versions: Versions) -> StageReport:
    """Embeddings of kept documents -> `topics`, `topic_tree`, and what the next night needs."""
    store = Store.open(settings.store)
    kept = kept_conversations(store).unique("document_id", keep="first").sort("document_id")
    joint = providers.names["text_embedding"] == providers.names["image_embedding"] != "embedded"
    documents, vectors = embedded_documents(store, kept, versions, settings.topics, joint)
    topics = fit_and_assign(store, documents["day"], documents["document_id"], vectors, settings)
    labels, fitted = topics.fit["topic"].to_numpy(), documents[topics.rows]
    evidence = topic_evidence(_prompts(fitted), labels, vectors[topics.rows])
    names = topic_names(store, evidence, fitted["document_id"], labels, providers["topic_names"])
    members = _members(documents["document_id"], topics.found, names)
    notes = _notes(kept.height, topics, too_few(vectors[topics.rows], settings.topics), settings)
    notes += _keep_changes(store, members)
    store.replace(TABLE, pl.concat(topics.tried))
    store.replace("topic_tree", topic_tree(vectors[topics.rows], labels))
    store.replace("topics", members)
    outliers = members.filter(topic=-1).height
    counts = {"documents": len(vectors), "topics": len(names) - 1, "outliers": outliers, "fitted": len(labels)}
    return StageReport(stage="topics", counts=counts, notes=notes)


def _prompts(documents: pl.DataFrame) -> list[str]:
    return [
        "\n\n".join(turn["content"] for turn in turns if turn["role"] == "user")
        for turns in documents["turns"].to_list()
    ]


def _members(ids: pl.Series, found: Clustering, names: Mapping[int, str]) -> pl.DataFrame:
    columns = {"document_id": ids, "topic": found.labels, "probability": found.probabilities}
    places = {"x": found.positions[:, 0].copy(), "y": found.positions[:, 1].copy()}
    name = pl.col("topic").replace_strict(dict(names), return_dtype=pl.String).alias("name")
    return pl.DataFrame(columns | places).with_columns(name).select(frame_schema(TopicMember).names())


def _notes(kept: int, topics: Topics, one_topic: bool, settings: Settings) -> list[str]:
    notes = []
    count, fitted = len(topics.found.labels), len(topics.rows)
    if kept > count:
        notes.append(f"{kept - count} kept documents have no embedding and no topic: run `curate measure`")
    if not count:
        notes.append("no documents: no topics")
    elif one_topic:
        needed = TOPICS_NEED * members_min(fitted, settings.topics)
        notes.append(f"one topic: fewer than {needed} different documents are nothing to tell apart")
    if count > fitted:
        notes.append(f"{fitted:,} documents fitted, {count - fitted:,} assigned to their topics")
    if len(topics.tried) > 1:
        notes.append(f"{topics.drifted:.0%} of the documents since the fit day were far from all topics: fitted anew")
    return notes


def _keep_changes(store: Store, members: pl.DataFrame) -> list[str]:
    """Where known documents have other topics than before: the `topic_changes` table, and a line about it."""
    before = store.read("topics", ["document_id", "topic"])
    after = members.select("document_id", "topic")
    both = before.join(after, on="document_id", suffix="_new")
    if both.filter(pl.col("topic") != pl.col("topic_new")).is_empty():
        return []
    changes = topic_changes(before, after)
    store.replace("topic_changes", changes)
    return [summary(changes, after)]


def topic_changes(old: pl.DataFrame, new: pl.DataFrame) -> pl.DataFrame:
    """Rows of the `topic_changes` table, from (document_id, topic) before and after; only documents in both count.

    `successor` marks the pairs of the one-to-one mapping that keeps the most documents together (Hungarian method).
    Outliers (-1) are never mapped.
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
    """One line: the share of documents whose topic has another successor, and topics that ended, split or are new."""
    real = changes.filter(pl.col("old_topic") >= 0)
    stayed = changes.filter(pl.col("successor") | ((pl.col("old_topic") < 0) & (pl.col("new_topic") < 0)))
    moved = 1 - int(stayed["documents"].sum()) / max(1, int(changes["documents"].sum()))
    successors = changes.filter("successor")
    share = pl.col("documents") / pl.col("documents").sum().over("old_topic")
    split = real.filter(share >= SHARE_OF_TOPIC).filter(pl.col("new_topic") >= 0)["old_topic"].value_counts()
    ended = set(real["old_topic"]) - set(successors["old_topic"])
    fresh = set(new.filter(pl.col("topic") >= 0)["topic"]) - set(successors["new_topic"])
    return (
        f"topics were fitted anew: {100 * moved:.1f} % of {changes['documents'].sum():,} documents moved; "
        f"{len(successors)} topics go on, {len(ended)} ended, {len(fresh)} are new, "
        f"{split.filter(pl.col('count') > 1).height} split (table topic_changes)"
    )
