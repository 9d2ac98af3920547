"""Embeddings of kept documents -> `topics`: what `curate sample` does before the benchmark is drawn."""

import numpy as np
import polars as pl

from schemas.run import StageReport
from schemas.settings import Settings
from schemas.topic import TopicMember
from tasks.lookup.facts import Versions, facts
from tasks.providers import Providers
from tasks.providers.capabilities import Failed
from tasks.sample.clusters import cluster
from tasks.sample.document_vectors import Vectors, document_vectors
from tasks.sample.engines import Clustering
from tasks.sample.kept import kept_conversations
from tasks.sample.topic_words import topic_evidence
from tasks.tables import Store, frame_of

OUTLIERS = "outliers"


def write_topics(settings: Settings, providers: Providers, versions: Versions) -> StageReport:
    """Embeddings of kept documents -> `topics`."""
    store = Store.open(settings.store)
    documents = kept_conversations(store).unique("document_id", keep="first").sort("document_id")
    prompts = _vectors(store, "text_embedding", versions)
    documents = documents.filter(pl.col("prompt_id").is_in(list(prompts)))
    joint = providers.names["text_embedding"] == providers.names["image_embedding"] != "embedded"
    pictures = _vectors(store, "image_embedding", versions)
    vectors = document_vectors(documents, prompts, pictures, settings.topics.picture_weight, joint)
    found = cluster(vectors, settings.topics, settings.seed, settings.workers)
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
