"""Describes topics: class TF-IDF words and central documents (as BERTopic defines them), names, and the merge tree."""

import hashlib
import json
from collections.abc import Sequence

import numpy as np
import polars as pl
from scipy.cluster.hierarchy import linkage

from schemas.topic import TopicMerge, TopicName
from tasks.providers.capabilities import Failed, TopicEvidence, TopicNamer
from tasks.storage.tables import Store, frame_schema
from tasks.topics.engines import Labels, Rows, Vectors

WORDS, EXEMPLARS = 10, 5
CHARACTERS = 2000
"""Characters of each document that are counted."""
_WORD = r"(?u)\b[^\W\d_]{2,}\b"
NAMES = "topic_names"
KEYWORDS = 4
OUTLIERS = "outliers"


def topic_evidence(texts: Sequence[str], labels: Labels, vectors: Vectors) -> list[TopicEvidence]:
    """Keywords and exemplar documents of topics 0, 1, …; empty for a topic without documents. Outliers are ignored."""
    members = [np.flatnonzero(labels == n) for n in range(int(labels.max(initial=-1)) + 1)]
    words = _class_tf_idf([" ".join(texts[row][:CHARACTERS] for row in rows.tolist()) for rows in members])
    return [TopicEvidence(words[n], _exemplars(texts, vectors, rows)) for n, rows in enumerate(members)]


def _class_tf_idf(topics: Sequence[str]) -> list[tuple[str, ...]]:
    """Top words of each topic by (term frequency in the topic) * log(1 + mean words per topic / total frequency)."""
    from sklearn.feature_extraction.text import CountVectorizer  # a second to import

    vectorizer = CountVectorizer(token_pattern=_WORD, stop_words="english", max_features=20_000)
    try:
        counts = vectorizer.fit_transform(topics).tocsr()
    except ValueError:  # the texts hold no words
        return [() for _ in topics]
    names = vectorizer.get_feature_names_out()
    rarity = np.log1p(counts.sum() / len(topics) / np.asarray(counts.sum(axis=0)).ravel())
    found = []
    for row in counts:
        weights = row.data / row.data.sum() * rarity[row.indices]
        strongest = row.indices[np.lexsort((row.indices, -weights))[:WORDS]]
        found.append(tuple(str(word) for word in names[strongest]))
    return found


def _exemplars(texts: Sequence[str], vectors: Vectors, members: Rows) -> tuple[str, ...]:
    """Distinct texts of the documents nearest to the topic's centroid."""
    if not len(members):
        return ()
    cosine = vectors[members] @ vectors[members].mean(axis=0)
    nearest = members[np.argsort(-cosine, kind="stable")]
    distinct = dict.fromkeys(texts[row] for row in nearest.tolist())
    return tuple(list(distinct)[:EXEMPLARS])


def topic_names(
    store: Store, evidence: Sequence[TopicEvidence], ids: pl.Series, labels: Labels, namer: TopicNamer
) -> dict[int, str]:
    """Topic -> name, including -1. `ids` and `labels` are those of the fitted documents.

    Names are cached in the table `topic_names` by a hash of the evidence, so the provider is asked once. The row lists
    the topic's documents, so that a takedown of one of them removes it. A topic that the provider failed to name is
    named by its keywords and asked again on the next run; a topic without documents gets no name.
    """
    kept = store.read(NAMES).filter(version=namer.version)
    known = dict(kept.select("evidence", "name").iter_rows())
    topics = set(labels.tolist())
    keys = {n: _key(each) for n, each in enumerate(evidence) if n in topics}
    fresh = [n for n, key in keys.items() if key not in known]
    answers = namer.name_topics([evidence[n] for n in fresh]) if fresh else []
    known |= {keys[n]: name for n, name in zip(fresh, answers, strict=True) if not isinstance(name, Failed)}
    rows = [
        {"evidence": key, "version": namer.version, "name": known[key], "document_ids": ids.filter(labels == n)}
        for n, key in keys.items()
        if key in known
    ]
    if fresh or len(rows) != kept.height:
        store.replace(NAMES, pl.DataFrame(rows, schema=frame_schema(TopicName)))
    names = {n: known.get(key) or ", ".join(evidence[n].keywords[:KEYWORDS]) or "untitled" for n, key in keys.items()}
    return names | {-1: OUTLIERS}


def known_names(store: Store, ids: pl.Series, labels: Labels, namer: TopicNamer) -> dict[int, str] | None:
    """The names that `topic_names` gave to the same fit before; None unless the table has these topics and no other."""
    kept = store.read(NAMES)
    rows = kept.filter(version=namer.version).select("document_ids", "name").iter_rows()
    name_of = {frozenset(members): name for members, name in rows}
    names = {n: name_of.get(frozenset(ids.filter(labels == n))) for n in set(labels.tolist()) - {-1}}
    known = {n: name for n, name in names.items() if name is not None}
    return known | {-1: OUTLIERS} if len(known) == len(names) == kept.height else None


def _key(evidence: TopicEvidence) -> str:
    content = json.dumps([evidence.keywords, evidence.exemplars]).encode()
    return hashlib.blake2b(content, digest_size=16).hexdigest()


def topic_tree(vectors: Vectors, labels: Labels) -> pl.DataFrame:
    """Rows of the `topic_tree` table: average linkage on cosine distances between topic centroids.

    `vectors` float32 (n, dimension) and `labels` int32 (n,) are of the fitted documents. With k topics, merge i makes
    node k + i, as in scipy. Topics that takedowns left without documents count in k but are not in the tree.
    """
    count = int(labels.max(initial=-1)) + 1
    topics = np.unique(labels[labels >= 0])
    sizes = dict(enumerate(np.bincount(labels[labels >= 0], minlength=count).tolist()))
    rows: list[tuple[int, int, int, float, int]] = []
    if len(topics) > 1:
        centroids = np.stack([vectors[labels == topic].mean(axis=0, dtype=np.float64) for topic in topics])
        nodes = [*topics.tolist(), *range(count, count + len(topics) - 1)]
        for node, merge in enumerate(linkage(centroids, method="average", metric="cosine"), count):
            left, right = sorted(nodes[int(place)] for place in merge[:2])
            sizes[node] = sizes[left] + sizes[right]
            rows.append((node, left, right, float(merge[2]), sizes[node]))
    return pl.DataFrame(rows, schema=frame_schema(TopicMerge), orient="row")
