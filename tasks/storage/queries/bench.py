"""What the tables of a store say about its topics and its benchmark."""

from itertools import chain
from typing import Any

import polars as pl

from tasks.storage.database import TemporaryDatabase
from tasks.storage.tables import Store


def bench_tables(store: Store) -> dict[str, pl.DataFrame]:
    """Name -> rows: what every filter left, what each topic has, and the hidden split by month, never its prompts."""
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


def bench_evidence(store: Store) -> dict[str, list[dict[str, Any]]]:
    """What a dataset card says of the benchmark: rows of its funnel, its measures and its agreement."""
    names = ("bench_funnel", "bench_measures", "bench_agreement")
    return {name: store.read(name).to_dicts() for name in names}


def hidden_changes(store: Store) -> pl.DataFrame:
    """What the epoch changed about the hidden split, with the first conversation that asked each prompt."""
    asked = store.read("conversations", ["conversation_id", "document_id", "tstamp"]).sort("tstamp", "conversation_id")
    first = asked.unique("document_id", keep="first").select("document_id", "conversation_id")
    changes = store.read("hidden_changes").join(first, on="document_id", how="left")
    return changes.select("epoch", "change", "conversation_id", "why").sort("change", "conversation_id")


def topics_fit(store: Store) -> str | None:
    """Hash of the documents, vectors, engine and settings that were fitted; None where the store keeps no such fit.

    The store keeps every fit that was tried; the topics are those of the one that agrees with them in every document.
    """
    database = TemporaryDatabase()
    for table, columns in (("topics", ["document_id", "topic"]), ("topic_model", ["model", "document_id", "topic"])):
        database.load(table, chain([store.empty(table, columns)], store.read_slices(table, columns)))
    found = database.read(_FIT)["model"]
    return None if found.is_empty() else str(found[0])


_FIT = """
SELECT model FROM topic_model LEFT JOIN topics USING (document_id) GROUP BY model
HAVING bool_and(topic_model.topic IS NOT DISTINCT FROM topics.topic) ORDER BY count(*) DESC, model LIMIT 1
"""
