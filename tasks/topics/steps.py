"""The Prefect task of topics: vectors of kept documents -> `topics`, `topic_model`, `topic_tree`, `topic_changes`."""

from collections.abc import Mapping

import polars as pl
from prefect import task
from prefect.cache_policies import NO_CACHE

from schemas.run import StageReport
from schemas.settings import Settings
from schemas.topic import TopicMember
from tasks.providers import Providers
from tasks.runtime.timing import timed
from tasks.storage.queries.documents import embedded_documents, kept_conversations
from tasks.storage.queries.signals import Versions
from tasks.storage.tables import Store, frame_schema
from tasks.topics.changes import summary, topic_changes
from tasks.topics.cluster import TOPICS_NEED, members_min, too_few
from tasks.topics.descriptions import known_names, topic_evidence, topic_names, topic_tree
from tasks.topics.engines import Clustering
from tasks.topics.fit import TABLE, Topics, fit_and_assign


@task(cache_policy=NO_CACHE)
@timed
def find_topics(settings: Settings, providers: Providers, versions: Versions) -> StageReport:
    """Put every kept document with an embedding into a topic, and name the topics."""
    store = Store.open(settings.store)
    kept = kept_conversations(store).unique("document_id", keep="first").sort("document_id")
    joint = providers.names["text_embedding"] == providers.names["image_embedding"] != "embedded"
    documents, vectors = embedded_documents(store, kept, versions, settings.topics, joint)
    topics = fit_and_assign(store, documents["day"], documents["document_id"], vectors, settings)
    labels, fitted = topics.fit["topic"].to_numpy(), documents[topics.rows]
    ids, namer = fitted["document_id"], providers["topic_names"]
    names = None if topics.new else known_names(store, ids, labels, namer)
    if names is None:
        prompts = [
            "\n\n".join(turn["content"] for turn in turns if turn["role"] == "user")
            for turns in fitted["turns"].to_list()
        ]
        names = topic_names(store, topic_evidence(prompts, labels, vectors[topics.rows]), ids, labels, namer)
    members = _members(documents["document_id"], topics.found, names)
    notes = _notes(kept.height, topics, too_few(vectors[topics.rows], settings.topics), settings)
    notes += _write_changes(store, members)
    store.replace(TABLE, pl.concat(topics.tried))
    store.replace("topic_tree", topic_tree(vectors[topics.rows], labels))
    store.replace("topics", members)
    outliers = members.filter(topic=-1).height
    counts = {"documents": len(vectors), "topics": len(names) - 1, "outliers": outliers, "fitted": len(labels)}
    return StageReport(stage="topics", counts=counts, notes=notes)


def _members(ids: pl.Series, found: Clustering, names: Mapping[int, str]) -> pl.DataFrame:
    """Rows of the `topics` table."""
    columns = {"document_id": ids, "topic": found.labels, "probability": found.probabilities}
    positions = {"x": found.positions[:, 0].copy(), "y": found.positions[:, 1].copy()}
    name = pl.col("topic").replace_strict(dict(names), return_dtype=pl.String).alias("name")
    return pl.DataFrame(columns | positions).with_columns(name).select(frame_schema(TopicMember).names())


def _notes(kept: int, topics: Topics, one_topic: bool, settings: Settings) -> list[str]:
    notes = []
    count, fitted = len(topics.found.labels), len(topics.rows)
    if kept > count:
        notes.append(f"{kept - count} kept documents have no embedding and no topic: run `curate measure`")
    if not count:
        notes.append("no documents: no topics")
    elif one_topic:
        needed = TOPICS_NEED * members_min(fitted, settings.topics)
        notes.append(f"one topic: clustering needs at least {needed} different documents")
    if count > fitted:
        notes.append(f"{fitted:,} documents fitted, {count - fitted:,} assigned to their topics")
    if len(topics.tried) > 1:
        notes.append(f"{topics.drifted:.0%} of the documents since the fit day were far from all topics: fitted again")
    return notes


def _write_changes(store: Store, members: pl.DataFrame) -> list[str]:
    """Write `topic_changes` when documents changed their topics since the last run; returns a note about it."""
    before = store.read("topics", ["document_id", "topic"])
    after = members.select("document_id", "topic")
    both = before.join(after, on="document_id", suffix="_new")
    if both.filter(pl.col("topic") != pl.col("topic_new")).is_empty():
        return []
    changes = topic_changes(before, after)
    store.replace("topic_changes", changes)
    return [summary(changes, after)]
