"""What each topic is about: its class TF-IDF words and its most central documents (BERTopic's definitions)."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_matrix
from sklearn.feature_extraction.text import CountVectorizer

from tasks.providers.capabilities import TopicEvidence

WORDS, EXEMPLARS = 10, 5
CHARACTERS = 2000
_WORD = r"(?u)\b[^\W\d_]{2,}\b"


def topic_evidence(
    texts: Sequence[str], labels: npt.NDArray[np.int32], vectors: npt.NDArray[np.float32]
) -> list[TopicEvidence]:
    """Evidence for topics 0, 1, …; outliers describe nothing, and nothing describes a topic that lost all documents."""
    members = _members(labels)
    words = _class_tf_idf([" ".join(texts[row][:CHARACTERS] for row in rows) for rows in members])
    return [TopicEvidence(words[n], _central(texts, vectors, rows)) for n, rows in enumerate(members)]


def _members(labels: npt.NDArray[np.int32]) -> list[npt.NDArray[np.int64]]:
    """The rows of topics 0, 1, …, in order, by one sort."""
    order = np.argsort(labels, kind="stable")
    starts = np.searchsorted(labels[order], np.arange(int(labels.max(initial=-1)) + 2))
    return np.split(order, starts)[1:-1]


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


def _central(texts: Sequence[str], vectors: npt.NDArray[np.float32], members: npt.NDArray[np.int64]) -> tuple[str, ...]:
    if not len(members):
        return ()
    cosine = vectors[members] @ vectors[members].mean(axis=0)
    nearest = members[np.argsort(-cosine, kind="stable")]
    distinct = dict.fromkeys(texts[i] for i in nearest)
    return tuple(list(distinct)[:EXEMPLARS])
