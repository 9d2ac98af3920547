"""The Prefect task of topics: vectors of kept documents -> `topics`, `topic_model`, `topic_tree`, `topic_changes`."""

import hashlib
import json
from collections.abc import Mapping

import numpy as np
import polars as pl

from schemas.items.topic import LIKE_DROPPED, PERSONAL_WORDS, TopicMember
from schemas.run import StageReport
from schemas.settings import Settings, TopicSettings
from schemas.tags import TAGS
from tasks.providers import Providers
from tasks.providers.capabilities import TopicEvidence
from tasks.runtime.arrays import Vectors
from tasks.runtime.steps import step
from tasks.storage.queries.bench import fit_in_use
from tasks.storage.queries.documents import embedded_documents
from tasks.storage.queries.released import decided_hash, require_redactions
from tasks.storage.queries.signals import Versions, signal_values, unload, versions_in_use
from tasks.storage.tables import Store, frame_schema
from tasks.topics.cluster import TOPICS_NEED, members_min, too_few
from tasks.topics.descriptions import (
    impersonal_prompts,
    names_that_stay,
    personal_names,
    topic_evidence,
    topic_names,
    topic_tree,
)
from tasks.topics.fit import (
    AskedDocuments,
    ChosenRows,
    TopicDocuments,
    Topics,
    changes_in_words,
    fit_and_assign,
    topic_changes,
)

_KEPT = """
    -- a row is one kept conversation, without its messages, and the language of its prompt; earliest first
    SELECT conversation_id, document_id, kept.prompt_id, image_ids, day, num_turns, user_id, language, true AS kept
    FROM kept LEFT JOIN prompt_languages USING (prompt_id)
    ORDER BY tstamp, conversation_id
"""
_FITTED_ONCE = """
    -- a row is one conversation as it was logged, on a document of a stored fit that is not kept any more
    SELECT
        conversation_id, document_id, conversations.prompt_id, image_ids, day, num_turns, user_id, language,
        false AS kept
    FROM conversations LEFT JOIN prompt_languages USING (prompt_id)
    SEMI JOIN (SELECT document_id FROM topic_model ANTI JOIN kept USING (document_id)) AS fitted_once
        USING (document_id)
    ORDER BY tstamp, conversation_id
"""
_AS_LOGGED = """
    -- a row is one conversation as it was logged, without its messages, and the language of its prompt
    SELECT document_id, num_turns, len(image_ids)::UINTEGER AS images, day, language
    FROM conversations LEFT JOIN prompt_languages USING (prompt_id)
"""
_MESSAGES = """
    -- a row is one of the wanted conversations with its messages as they are released
    SELECT conversation_id, turns FROM released SEMI JOIN wanted USING (conversation_id)
"""


@step
def find_topics(settings: Settings, providers: Providers, versions: Versions) -> StageReport:
    """Put every kept document with an embedding into a topic, and name the topics."""
    store = Store.open(settings.store)
    require_redactions(store)
    in_use = versions_in_use(versions)
    # Documents that were fitted and are not kept any more have no topic, and still vote on those of others.
    conversations = pl.concat([*store.batches(_KEPT, versions=in_use), *store.batches(_FITTED_ONCE, versions=in_use)])
    both = conversations.unique("document_id", keep="first", maintain_order=True).sort("document_id")
    both = both.with_columns(images=pl.col("image_ids").list.len())
    joint = providers.names["text_embedding"] == providers.names["image_embedding"] != "embedded"
    documents, vectors = embedded_documents(store, both, versions, settings.topics, joint)
    is_kept, kinds = documents["kept"].to_numpy(), _kinds(settings.topics)
    fittable, why_all = _fittable(documents, vectors, settings.topics, kinds)
    asked_documents = _asked(store, versions, {} if why_all else kinds)
    topic_documents = TopicDocuments(documents["day"], documents["document_id"], vectors, is_kept, fittable)
    topics = fit_and_assign(store, topic_documents, asked_documents, settings)
    rows = topics.fit.rows[is_kept[topics.fit.rows]]
    labels, fitted, of_fitted = topics.found.labels[rows], documents[rows], vectors[rows]
    unload(vectors)
    evidence = topic_evidence(_described(store, fitted, versions), labels, of_fitted)
    stay = names_that_stay(store, topics.fit, fitted["document_id"], evidence) if topics.fit.stands else None
    names = topic_names(store, evidence, fitted["document_id"], labels, providers["topic_names"], stay)
    personal = personal_names(store, names, providers["text_pii"])
    nameless = {*topics.found.labels[is_kept].tolist()} - names.keys()  # all that was fitted of them is not kept
    names |= {topic: LIKE_DROPPED.format(topic) for topic in nameless}
    names |= {topic: _of_tags(evidence[topic], topic) for topic in personal}
    columns = {
        "document_id": documents["document_id"],
        "topic": topics.found.labels,
        "probability": topics.found.probabilities,
    }
    positions = {"x": topics.found.positions[:, 0].copy(), "y": topics.found.positions[:, 1].copy()}
    name = pl.col("topic").replace_strict(dict(names), return_dtype=pl.String).alias("name")
    members = pl.DataFrame(columns | positions).filter(pl.Series(is_kept)).with_columns(name)
    members = members.select(frame_schema(TopicMember).names())
    kept_count = int(both["kept"].sum())
    notes = _notes(kept_count, members.height, len(rows), topics, too_few(of_fitted, settings.topics), settings)
    notes += why_all + _write_changes(store, topics, members)
    notes += (
        [f"{len(personal)} topics are named by their tags or not at all: their names held personal data"]
        if personal
        else []
    )
    topics.write(store)
    store.replace("topic_tree", topic_tree(of_fitted, labels))
    store.replace("topics", members)
    outliers = members.filter(topic=-1).height
    counts = {"documents": members.height, "topics": len(names) - 1, "outliers": outliers, "fitted": len(labels)}
    return StageReport(stage="topics", counts=counts, notes=notes)


def _of_tags(evidence: TopicEvidence, topic: int) -> str:
    """A name without any word of the prompts, for a topic whose name held personal data."""
    tags = ", ".join(evidence.tags[:3])
    return f"{tags} ({topic})" if tags else PERSONAL_WORDS.format(topic)


def _kinds(settings: TopicSettings) -> dict[str, pl.Expr]:
    """Condition of a document that is fitted, in words -> the same on num_turns, images and language."""
    conditions = {
        "single-turn": (settings.single_turn, pl.col("num_turns") == 1),
        "with an image": (settings.needs_image, pl.col("images") > 0),
        f"in language {settings.language!r}": (
            settings.language is not None,
            pl.col("language") == pl.lit(settings.language),
        ),
    }
    return {name: condition for name, (on, condition) in conditions.items() if on}


def _fittable(
    documents: pl.DataFrame, vectors: Vectors, settings: TopicSettings, kinds: Mapping[str, pl.Expr]
) -> tuple[ChosenRows, list[str]]:
    """Bool (n,): which kept documents may be fitted; all of them, and a note, if the settings leave too few."""
    kept = documents["kept"].to_numpy()
    chosen = documents.select(pl.all_horizontal("kept", *kinds.values()).fill_null(value=False))
    fittable = chosen.to_series().to_numpy()
    if (fittable == kept).all() or not too_few(vectors, settings, np.flatnonzero(fittable)):
        return fittable, []
    if too_few(vectors, settings, np.flatnonzero(kept)):
        return kept, []
    return kept, [f"documents of every kind were fitted: too few are {', '.join(kinds)}"]


def _asked(store: Store, versions: Versions, kinds: Mapping[str, pl.Expr]) -> AskedDocuments:
    """Documents of these kinds as they were asked, kept or not, and what decided which are kept."""
    conversations = pl.concat(store.batches(_AS_LOGGED, versions=versions_in_use(versions)))
    of_kinds = conversations.filter(pl.all_horizontal(pl.lit(value=True), *kinds.values()))
    documents = of_kinds.group_by("document_id").agg(pl.col("day").min()).sort("document_id")
    policy = decided_hash(store)
    decisive = json.dumps([policy, dict(versions), store.parts("reviews")], sort_keys=True).encode()
    return AskedDocuments(documents, hashlib.blake2b(decisive, digest_size=8).hexdigest(), policy)


def _described(store: Store, documents: pl.DataFrame, versions: Versions) -> pl.DataFrame:
    """Text without personal data, person, language, and tags with taxonomy of each document."""
    ids = documents["document_id"]
    messages = pl.concat(store.batches(_MESSAGES, wanted=documents.select("conversation_id")))
    documents = documents.join(messages, on="conversation_id", how="left", maintain_order="left")
    tags = signal_values(store, "categories", versions["categories"], list(TAGS), ids)
    domain = ["image_domain", "image_subdomain", "question_subcategory"]
    places = signal_values(store, "taxonomy", versions["taxonomy"], domain, ids)
    tag_columns: list[pl.Expr] = [pl.when(tag).then(pl.lit(tag.replace("_", " "))) for tag in TAGS]
    tag_columns += [pl.coalesce("image_subdomain", "image_domain"), pl.col("question_subcategory")]
    return (
        documents.join(tags, left_on="document_id", right_on="content_id", how="left", maintain_order="left")
        .join(places, left_on="document_id", right_on="content_id", how="left", maintain_order="left")
        .select(
            text=impersonal_prompts(store, documents, versions),
            person=pl.col("user_id").fill_null(pl.col("document_id")),
            language=pl.col("language").fill_null("unknown"),
            tags=pl.concat_list(tag_columns).list.drop_nulls(),
        )
    )


def _notes(kept: int, count: int, fitted: int, topics: Topics, one_topic: bool, settings: Settings) -> list[str]:
    """Notes on kept documents, on those of them with a topic (`count`), and on those of these that were fitted."""
    notes = []
    if kept > count:
        notes.append(f"{kept - count} kept documents have no embedding and no topic: run `curate measure`")
    if not count:
        notes.append("no documents: no topics")
    elif one_topic:
        needed = TOPICS_NEED * members_min(fitted, settings.topics)
        notes.append(f"one topic: clustering needs at least {needed} different documents")
    if count > fitted:
        notes.append(f"{fitted:,} documents fitted, {count - fitted:,} assigned to their topics")
    if topics.fit.stands:
        gone = topics.fit.table.height - fitted
        notes.append(
            f"topics stay as fitted under policy {topics.fit.about.policy_hash}: what else is kept now is assigned to "
            f"them, and {gone:,} fitted documents are not kept any more; --redraw fits them anew"
        )
    elif len(topics.tried) > 1:
        notes.append(f"{topics.drifted:.0%} of the documents since the fit day were far from all topics: fitted again")
    return notes


def _write_changes(store: Store, topics: Topics, members: pl.DataFrame) -> list[str]:
    """Write `topic_changes` when another fit changed documents' topics since the last run; returns a note about it."""
    past = fit_in_use(store)
    if past is not None and past.model == topics.fit.about.model:
        return []
    before = store.read("topics", ["document_id", "topic"])
    after = members.select("document_id", "topic")
    both = before.join(after, on="document_id", suffix="_new")
    if both.filter(pl.col("topic") != pl.col("topic_new")).is_empty():
        return []
    changes = topic_changes(before, after)
    store.replace("topic_changes", changes)
    return [changes_in_words(changes, after)]
