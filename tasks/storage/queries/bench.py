"""Tables about the topics and the benchmark of a store, for `curate bench` and the dataset card."""

from typing import Any

import polars as pl

from tasks.storage.database import TemporaryDatabase
from tasks.storage.tables import Store


def topic_sizes(store: Store) -> pl.DataFrame:
    """topic, name, prompts (distinct, with their images) and conversations, the largest topic first."""
    topics = store.read("topics", ["document_id", "topic", "name"])
    asked = store.read("conversations", ["document_id"]).group_by("document_id").agg(conversations=pl.len())
    sizes = topics.join(asked, on="document_id", how="left").group_by("topic", "name")
    counted = sizes.agg(prompts=pl.len(), conversations=pl.col("conversations").sum())
    return counted.sort("prompts", "topic", descending=[True, False])


def bench_tables(store: Store) -> dict[str, pl.DataFrame]:
    """Table name -> rows: prompts left by each filter, prompts by topic, measures, hidden split counted by month."""
    topics = store.read("topics", ["topic", "name"]).group_by("topic", "name").agg(prompts=pl.len())
    drawn = store.read("bench", ["topic"]).group_by("topic").agg(drawn=pl.len())
    hidden = store.read("hidden").group_by("first_month", "last_month")
    return {
        "bench_funnel": store.read("bench_funnel").select("filter", "prompts"),
        "bench_topics": topics.join(drawn, on="topic", how="left")
        .with_columns(pl.col("drawn").fill_null(0))
        .sort("topic"),
        "bench_measures": store.read("bench_measures"),
        "bench_agreement": store.read("bench_agreement").with_columns(pl.col("flags").list.join(" ")),
        "hidden": hidden.agg(reserved=pl.len(), drawn=pl.col("drawn").sum()).sort("first_month"),
    }


def failure_tables(store: Store) -> dict[str, pl.DataFrame]:
    """Table name -> rows: failures by type, and error rates by model and type."""
    by_type = (
        store.read("failures")
        .group_by("failure_type")
        .agg(prompts=pl.len(), reviewed=pl.col("reviewed").sum(), drawn=pl.col("drawn").sum())
    )
    rates = store.read("failure_rates").with_columns(pl.col("error_rate").round(4))
    return {"failures": by_type.sort("failure_type", nulls_last=True), "failure_rates": rates}


def bench_evidence(store: Store) -> dict[str, list[dict[str, Any]]]:
    """Rows of bench_funnel, bench_measures and bench_agreement, for the dataset card."""
    names = ("bench_funnel", "bench_measures", "bench_agreement")
    return {name: store.read(name).to_dicts() for name in names}


def changes_of_hidden(store: Store) -> pl.DataFrame:
    """Changes of the hidden split in its last epoch, each with the first conversation that has the prompt."""
    asked = store.read("conversations", ["conversation_id", "document_id", "tstamp"]).sort("tstamp", "conversation_id")
    first = asked.unique("document_id", keep="first").select("document_id", "conversation_id")
    changes = store.read("hidden_changes").join(first, on="document_id", how="left")
    return changes.select("epoch", "change", "conversation_id", "why").sort("change", "conversation_id")


def topics_fit(store: Store) -> str | None:
    """Hash of the documents, vectors, engine and settings of the fit that made the topics; None when it is not stored.

    The store keeps every fit. The one in use is the one whose topics equal the table `topics` in every document.
    """
    database = TemporaryDatabase()
    database.load_table(store, "topics", ["document_id", "topic"])
    database.load_table(store, "topic_model", ["model", "document_id", "topic"])
    found = database.read(_FIT)["model"]
    return None if found.is_empty() else str(found[0])


_FIT = """
SELECT model FROM topic_model LEFT JOIN topics USING (document_id) GROUP BY model
HAVING bool_and(topic_model.topic IS NOT DISTINCT FROM topics.topic) ORDER BY count(*) DESC, model LIMIT 1
"""
