"""The Prefect task of topics: vectors of kept documents -> `topics`, `topic_model`, `topic_tree`, `topic_changes`."""

import numpy as np
import polars as pl

from schemas.items.topic import TopicMember
from schemas.run import StageReport
from schemas.settings import Settings, TopicSettings
from schemas.tags import TAGS
from tasks.providers import Providers
from tasks.runtime.steps import step
from tasks.storage.queries.documents import embedded_documents
from tasks.storage.queries.released import kept_conversations, with_released_turns
from tasks.storage.queries.signals import Versions, signal_values, unload
from tasks.storage.tables import Store, frame_schema
from tasks.topics.cluster import TOPICS_NEED, members_min, too_few
from tasks.topics.descriptions import impersonal_prompts, personal_names, topic_evidence, topic_names, topic_tree
from tasks.topics.engines import Vectors
from tasks.topics.fit import TABLE, Chosen, Topics, changes_in_words, fit_and_assign, topic_changes

_ABOUT = ["conversation_id", "document_id", "prompt_id", "image_ids", "day", "num_turns", "user_id"]


@step
def find_topics(settings: Settings, providers: Providers, versions: Versions) -> StageReport:
    """Put every kept document with an embedding into a topic, and name the topics."""
    store = Store.open(settings.store)
    kept = kept_conversations(store, columns=_ABOUT).unique("document_id", keep="first").sort("document_id")
    told = signal_values(store, "language", versions["language"], ["language"])
    kept = kept.join(told, left_on="prompt_id", right_on="content_id", how="left", maintain_order="left")
    joint = providers.names["text_embedding"] == providers.names["image_embedding"] != "embedded"
    documents, vectors = embedded_documents(store, kept, versions, settings.topics, joint)
    fittable, why_all = _fittable(documents, vectors, settings.topics)
    topics = fit_and_assign(store, documents["day"], documents["document_id"], vectors, fittable, settings)
    labels, fitted = topics.fit["topic"].to_numpy(), documents[topics.rows]
    of_fitted = vectors[topics.rows]
    unload(vectors)
    evidence = topic_evidence(_described(store, fitted, versions), labels, of_fitted)
    names = topic_names(store, evidence, fitted["document_id"], labels, providers["topic_names"])
    personal = personal_names(store, names, providers["text_pii"])
    names |= {topic: f"untitled ({topic})" for topic in personal}
    columns = {
        "document_id": documents["document_id"],
        "topic": topics.found.labels,
        "probability": topics.found.probabilities,
    }
    positions = {"x": topics.found.positions[:, 0].copy(), "y": topics.found.positions[:, 1].copy()}
    name = pl.col("topic").replace_strict(dict(names), return_dtype=pl.String).alias("name")
    members = pl.DataFrame(columns | positions).with_columns(name).select(frame_schema(TopicMember).names())
    notes = _notes(kept.height, topics, too_few(of_fitted, settings.topics), settings)
    notes += why_all + _write_changes(store, members)
    notes += [f"{len(personal)} topics are untitled: their names held personal data"] if personal else []
    store.replace(TABLE, pl.concat(topics.tried))
    store.replace("topic_tree", topic_tree(of_fitted, labels))
    store.replace("topics", members)
    outliers = members.filter(topic=-1).height
    counts = {"documents": len(vectors), "topics": len(names) - 1, "outliers": outliers, "fitted": len(labels)}
    return StageReport(stage="topics", counts=counts, notes=notes)


def _fittable(documents: pl.DataFrame, vectors: Vectors, settings: TopicSettings) -> tuple[Chosen, list[str]]:
    """Bool (n,): which documents may be fitted; all of them, and a note, if the settings leave too few."""
    wanted = {
        "single-turn": (settings.single_turn, pl.col("num_turns") == 1),
        "with an image": (settings.needs_image, pl.col("image_ids").list.len() > 0),
        f"in language {settings.language!r}": (
            settings.language is not None,
            pl.col("language") == pl.lit(settings.language),
        ),
    }
    asked = {name: condition for name, (on, condition) in wanted.items() if on}
    chosen = documents.select(pl.all_horizontal(pl.lit(value=True), *asked.values()).fill_null(value=False))
    fittable = np.broadcast_to(chosen.to_series().to_numpy(), len(vectors))
    if fittable.all() or not too_few(vectors, settings, np.flatnonzero(fittable)):
        return fittable, []
    if too_few(vectors, settings):
        return np.ones(len(vectors), bool), []
    return np.ones(len(vectors), bool), [f"documents of every kind were fitted: too few are {', '.join(asked)}"]


def _described(store: Store, documents: pl.DataFrame, versions: Versions) -> pl.DataFrame:
    """Text without personal data, person, language, and tags with taxonomy of each document."""
    ids, documents = documents["document_id"], with_released_turns(store, documents)
    tags = signal_values(store, "categories", versions["categories"], list(TAGS), ids)
    domain = ["image_domain", "image_subdomain", "question_subcategory"]
    places = signal_values(store, "taxonomy", versions["taxonomy"], domain, ids)
    said: list[pl.Expr] = [pl.when(tag).then(pl.lit(tag.replace("_", " "))) for tag in TAGS]
    said += [pl.coalesce("image_subdomain", "image_domain"), pl.col("question_subcategory")]
    return (
        documents.join(tags, left_on="document_id", right_on="content_id", how="left", maintain_order="left")
        .join(places, left_on="document_id", right_on="content_id", how="left", maintain_order="left")
        .select(
            text=impersonal_prompts(store, documents, versions),
            person=pl.col("user_id").fill_null(pl.col("document_id")),
            language=pl.col("language").fill_null("unknown"),
            tags=pl.concat_list(said).list.drop_nulls(),
        )
    )


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
    return [changes_in_words(changes, after)]
