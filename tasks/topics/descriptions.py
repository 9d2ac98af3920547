"""What topics are about: class TF-IDF words, central documents, names, and the tree by which they merge.

Words and central documents are by BERTopic's definitions.
"""

import hashlib
import json
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import polars as pl
from scipy.cluster.hierarchy import linkage
from scipy.sparse import csr_matrix
from sklearn.feature_extraction.text import CountVectorizer

from schemas.topic import TopicMerge, TopicName
from tasks.providers.capabilities import Failed, TopicEvidence, TopicNamer
from tasks.storage.tables import Store, frame_schema
from tasks.topics.engines import Labels, Rows, Vectors

WORDS, EXEMPLARS = 10, 5
CHARACTERS = 2000
"""How much of a document's text is counted."""
_WORD = r"(?u)\b[^\W\d_]{2,}\b"
NAMES = "topic_names"
KEYWORDS = 4
OUTLIERS = "outliers"


def topic_evidence(texts: Sequence[str], labels: Labels, vectors: Vectors) -> list[TopicEvidence]:
    """Evidence for topics 0, 1, …; outliers describe nothing, and nothing describes a topic that lost all documents."""
    members = [np.flatnonzero(labels == n) for n in range(int(labels.max(initial=-1)) + 1)]
    words = _class_tf_idf([" ".join(texts[row][:CHARACTERS] for row in rows.tolist()) for rows in members])
    return [TopicEvidence(words[n], _central(texts, vectors, rows)) for n, rows in enumerate(members)]


def _class_tf_idf(topics: Sequence[str]) -> list[tuple[str, ...]]:
    """Strongest words of each topic's text: term frequency in it times log(1 + mean words a topic / frequency)."""
    vectorizer = CountVectorizer(token_pattern=_WORD, stop_words="english", max_features=20_000)
    try:
        counts = vectorizer.fit_transform(topics).tocsr()
    except ValueError:  # no words at all
        return [() for _ in topics]
    names = vectorizer.get_feature_names_out()
    rarity = np.log1p(counts.sum() / len(topics) / np.asarray(counts.sum(axis=0)).ravel())
    return [_strongest(counts[[n]], rarity, names) for n in range(len(topics))]


def _strongest(row: csr_matrix, rarity: npt.NDArray[np.float64], names: npt.NDArray[np.str_]) -> tuple[str, ...]:
    weight = row.data / max(1, row.data.sum()) * rarity[row.indices]
    order = np.lexsort((row.indices, -weight))[:WORDS]
    return tuple(str(names[row.indices[place]]) for place in order)


def _central(texts: Sequence[str], vectors: Vectors, members: Rows) -> tuple[str, ...]:
    if not len(members):
        return ()
    cosine = vectors[members] @ vectors[members].mean(axis=0)
    nearest = members[np.argsort(-cosine, kind="stable")]
    distinct = dict.fromkeys(texts[row] for row in nearest.tolist())
    return tuple(list(distinct)[:EXEMPLARS])


def topic_names(
    store: Store, evidence: Sequence[TopicEvidence], ids: pl.Series, labels: Labels, namer: TopicNamer
) -> dict[int, str]:
    """Topic -> name, -1 included; `ids` and `labels` are those of the fitted documents.

    A provider is shown the same evidence once: the table `topic_names` keeps its answer with a hash of the evidence
    and with the topic's documents, so that a takedown of one of them removes it. A topic that the provider could not
    name has its words, and is asked again; one that a takedown left without a document has no name.
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


def _key(evidence: TopicEvidence) -> str:
    content = json.dumps([evidence.keywords, evidence.exemplars]).encode()
    return hashlib.blake2b(content, digest_size=16).hexdigest()


def topic_tree(vectors: Vectors, labels: Labels) -> pl.DataFrame:
    """Rows of the `topic_tree` table: average linkage of the cosine distances between the centroids of topics.

    `vectors` float32 (n, dimension) of the fitted documents, `labels` int32 (n,). Merge i makes the node `topics` + i,
    as in scipy; topics that a takedown left without a document have a number and no place in the tree.
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
