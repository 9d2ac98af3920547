"""What each topic is about: its class TF-IDF words and its most central documents (BERTopic's definitions)."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from sklearn.feature_extraction.text import CountVectorizer

from tasks.providers.capabilities import TopicEvidence

WORDS, EXEMPLARS = 10, 5
CHARACTERS = 2000
_WORD = r"(?u)\b[^\W\d_]{2,}\b"


def topic_evidence(
    texts: Sequence[str], labels: npt.NDArray[np.int32], vectors: npt.NDArray[np.float32]
) -> list[TopicEvidence]:
    """Evidence for topics 0, 1, …; outliers describe nothing."""
    count = int(labels.max(initial=-1)) + 1
    words = _class_tf_idf([[t for t, label in zip(texts, labels, strict=True) if label == n] for n in range(count)])
    return [TopicEvidence(words[n], _central(texts, vectors, np.flatnonzero(labels == n))) for n in range(count)]


def _class_tf_idf(topics: Sequence[Sequence[str]]) -> list[tuple[str, ...]]:
    """Strongest words of each topic: term frequency in the topic times log(1 + mean words a topic / frequency)."""
    joined = [" ".join(text[:CHARACTERS] for text in texts) for texts in topics]
    vectorizer = CountVectorizer(token_pattern=_WORD, stop_words="english", max_features=20_000)
    try:
        counts = vectorizer.fit_transform(joined).toarray().astype(np.float64)
    except ValueError:  # no words at all
        return [() for _ in topics]
    names = vectorizer.get_feature_names_out()
    frequency = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    weight = frequency * np.log1p(counts.sum() / len(topics) / np.maximum(counts.sum(axis=0), 1))
    order = np.argsort(-weight, axis=1, kind="stable")[:, :WORDS]
    return [tuple(str(names[i]) for i in row if weight[n, i] > 0) for n, row in enumerate(order)]


def _central(texts: Sequence[str], vectors: npt.NDArray[np.float32], members: npt.NDArray[np.int64]) -> tuple[str, ...]:
    cosine = vectors[members] @ vectors[members].mean(axis=0)
    nearest = members[np.argsort(-cosine, kind="stable")]
    distinct = dict.fromkeys(texts[i] for i in nearest)
    return tuple(list(distinct)[:EXEMPLARS])
