"""The Prefect skin of sample: topics of what is kept, and the benchmark drawn from them."""

import numpy as np
import polars as pl
from prefect import task
from prefect.cache_policies import NO_CACHE

from schemas.run import StageReport
from schemas.settings import Settings
from schemas.topic import BenchItem, TopicMember
from tasks.lookup.facts import Versions, facts
from tasks.lookup.released import conversations_as_released
from tasks.providers import Providers
from tasks.providers.capabilities import Failed
from tasks.sample.clusters import Clustering, cluster
from tasks.sample.document_vectors import Vectors, document_vectors
from tasks.sample.draw import draw
from tasks.sample.topic_words import topic_evidence
from tasks.tables import Store, frame_of
from tasks.timing import timed

OUTLIERS = "outliers"
BENCH_SIZE = 500
"""VisionArena-Bench has 500 prompts."""
BENCH_SHARE = 5
"""The default benchmark takes at most one in so many eligible prompts."""


@task(cache_policy=NO_CACHE)
@timed
def find_topics(settings: Settings, providers: Providers, versions: Versions) -> StageReport:
    """Embeddings of kept documents -> `topics`."""
    store = Store.open(settings.store)
    documents = _kept(store).unique("document_id", keep="first").sort("document_id")
    prompts = _vectors(store, "text_embedding", versions)
    documents = documents.filter(pl.col("prompt_id").is_in(list(prompts)))
    joint = providers.names["text_embedding"] == providers.names["image_embedding"] != "embedded"
    pictures = _vectors(store, "image_embedding", versions)
    vectors = document_vectors(documents, prompts, pictures, settings.topics.picture_weight, joint)
    found = cluster(vectors, settings.topics, settings.seed)
    names = _names(documents, found, vectors, providers)
    rows = zip(documents["document_id"], found.labels, found.probabilities, found.positions, strict=True)
    members = [
        TopicMember(
            document_id=document, topic=int(label), probability=float(p), name=names[int(label)], x=float(x), y=float(y)
        )
        for document, label, p, (x, y) in rows
    ]
    store.replace("topics", frame_of(TopicMember, members))
    outliers = int((found.labels < 0).sum())
    counts = {"documents": len(members), "topics": len(names) - 1, "outliers": outliers}
    return StageReport(stage="topics", counts=counts)


@task(cache_policy=NO_CACHE)
@timed
def draw_bench(settings: Settings, versions: Versions) -> StageReport:
    """`topics` -> `bench`: single-turn prompts with a picture, of one language, no presets, uniformly over topics."""
    store = Store.open(settings.store)
    topics = store.read("topics", ["document_id", "topic"]).filter(pl.col("topic") >= 0)
    pool = (
        _kept(store)
        .join(topics, on="document_id")
        .filter((pl.col("num_turns") == 1) & (pl.col("image_ids").list.len() > 0) & pl.col("preset_dataset").is_null())
    )
    if settings.bench_language:
        spoken = facts(store, "language", versions["language"], ["language"])
        pool = pool.join(spoken, left_on="prompt_id", right_on="content_id").filter(language=settings.bench_language)
    first = pool.sort("tstamp", "conversation_id").unique("document_id", keep="first", maintain_order=True)
    of_topic = {t: list(ids) for t, ids in first.group_by("topic").agg("document_id").sort("topic").iter_rows()}
    size = min(BENCH_SIZE, first.height // BENCH_SHARE) if settings.bench_size is None else settings.bench_size
    drawn = {document for chosen in draw(of_topic, size, settings.seed).values() for document in chosen}
    rows = first.filter(pl.col("document_id").is_in(list(drawn))).select("conversation_id", "document_id", "topic")
    store.replace("bench", frame_of(BenchItem, [BenchItem(**row) for row in rows.iter_rows(named=True)]))
    counts = {"pool": first.height, "topics": len(of_topic), "drawn": rows.height, "asked": size}
    return StageReport(stage="bench", counts=counts)


def _kept(store: Store) -> pl.DataFrame:
    """Kept conversations, earliest first, with the preset dataset of each."""
    kept = store.read("decisions", ["item_kind", "item_id", "keep", "preset_dataset"]).filter(
        "keep", item_kind="conversation"
    )
    conversations = conversations_as_released(store)
    columns = kept.select(conversation_id="item_id", preset_dataset="preset_dataset")
    return conversations.join(columns, on="conversation_id", maintain_order="left")


def _vectors(store: Store, signal: str, versions: Versions) -> dict[str, Vectors]:
    stored = facts(store, signal, versions[signal], ["vector"])
    return {content_id: np.array(vector, np.float32) for content_id, vector in stored.iter_rows()}


def _names(documents: pl.DataFrame, found: Clustering, vectors: Vectors, providers: Providers) -> dict[int, str]:
    texts = [
        "\n\n".join(turn["content"] for turn in turns if turn["role"] == "user")
        for turns in documents["turns"].to_list()
    ]
    evidence = topic_evidence(texts, found.labels, vectors)
    given = providers["topic_names"].name_topics(evidence) if evidence else []
    words = [", ".join(e.keywords[:4]) or "untitled" for e in evidence]
    names = {n: words[n] if isinstance(name, Failed) else name for n, name in enumerate(given)}
    return names | {-1: OUTLIERS}
