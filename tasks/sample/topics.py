"""Embeddings of kept documents -> `topics`: what `curate sample` does before the benchmark is drawn."""

from collections.abc import Mapping

import polars as pl

from schemas.run import StageReport
from schemas.settings import Settings
from schemas.topic import TopicMember
from tasks.lookup.facts import Versions
from tasks.providers import Providers
from tasks.sample.clusters import TOPICS_NEED, members_min, too_few
from tasks.sample.document_vectors import Vectors, document_vectors, embeddings
from tasks.sample.engines import Clustering
from tasks.sample.fit_and_assign import Topics, find
from tasks.sample.fitted import TABLE
from tasks.sample.kept import kept_conversations
from tasks.sample.topic_changes import summary, topic_changes
from tasks.sample.topic_names import topic_names
from tasks.sample.topic_tree import topic_tree
from tasks.sample.topic_words import topic_evidence
from tasks.tables import Store, frame_schema


def write_topics(settings: Settings, providers: Providers, versions: Versions) -> StageReport:
    """Embeddings of kept documents -> `topics`, `topic_tree`, and what the next night needs."""
    store = Store.open(settings.store)
    kept = kept_conversations(store).unique("document_id", keep="first").sort("document_id")
    documents, vectors = _measured(store, kept, settings, providers, versions)
    topics = find(store, documents["day"], documents["document_id"], vectors, settings)
    labels, fitted = topics.fitted.clustering.labels, documents[topics.rows]
    evidence = topic_evidence(_prompts(fitted), labels, topics.fitted.vectors)
    names = topic_names(store, evidence, fitted["document_id"], labels, providers["topic_names"])
    members = _members(documents["document_id"], topics.found, names)
    notes = [*_notes(vectors, kept.height, topics, settings), *_keep_changes(store, members)]
    store.replace(TABLE, pl.concat([each.rows for each in topics.tried]))
    store.replace("topic_tree", topic_tree(topics.fitted.vectors, labels))
    store.replace("topics", members)
    outliers = members.filter(topic=-1).height
    counts = {"documents": len(vectors), "topics": len(names) - 1, "outliers": outliers, "fitted": len(labels)}
    return StageReport(stage="topics", counts=counts, notes=notes)


def _measured(
    store: Store, kept: pl.DataFrame, settings: Settings, providers: Providers, versions: Versions
) -> tuple[pl.DataFrame, Vectors]:
    """The documents whose prompt has an embedding, and their vectors."""
    prompts = embeddings(store, "text_embedding", versions["text_embedding"])
    pictures = embeddings(store, "image_embedding", versions["image_embedding"])
    documents = kept.filter(pl.col("prompt_id").is_in(list(prompts)))
    joint = providers.names["text_embedding"] == providers.names["image_embedding"] != "embedded"
    return documents, document_vectors(documents, prompts, pictures, settings.topics, joint)


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


def _notes(vectors: Vectors, kept: int, topics: Topics, settings: Settings) -> list[str]:
    notes = []
    count, fitted = len(vectors), len(topics.rows)
    if kept > count:
        notes.append(f"{kept - count} kept documents have no embedding and no topic: run `curate measure`")
    if too_few(topics.fitted.vectors, settings.topics):
        needed = TOPICS_NEED * members_min(fitted, settings.topics)
        notes.append(
            f"one topic: fewer than {needed} different documents are nothing to tell apart"
            if count
            else "no documents: no topics"
        )
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
