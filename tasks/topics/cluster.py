"""Clusters document vectors into topics, and assigns documents that came after the fit to the nearest topics."""

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from schemas.errors import BadInput
from schemas.settings import TopicSettings
from tasks.runtime.arrays import RowNumbers, Vectors
from tasks.storage.queries.documents import DOCUMENTS_AT_ONCE
from tasks.storage.queries.signals import Block, unload, vectors_of
from tasks.topics.engines import Clustering, ClusterLabels, engine, nearest, nearest_to_each

TOPICS_NEED = 3
"""Clustering needs at least this many times `members_min` distinct documents; fewer become one topic."""
VOTERS = 15
"""Fitted neighbours that vote on the topic of a new document."""
REFERENCE_MAX = 20_000
"""Most fitted documents that are searched for neighbours; it bounds the cost of each new document."""
LENT = "text_embedding"
"""Signal in whose table workers find the fitted vectors."""
REACH_SAMPLE, REACH_PERCENTILE = 2_000, 99


def members_min(count: int, settings: TopicSettings) -> int:
    """Size of the smallest topic: the setting, or 0.5 % of the documents, at least 5 and at most 100."""
    return settings.members_min or max(5, min(100, count // 200))


def cluster(vectors: Vectors, settings: TopicSettings, seed: int, workers: int = 1) -> Clustering:
    """Fit topics on unit vectors float32 (n, dimension). The same rows in the same order give the same topics.

    Raises BadInput when a vector is zero or not finite.
    """
    check_vectors(vectors)
    if too_few(vectors, settings):
        count = len(vectors)
        return Clustering(np.zeros(count, np.int32), np.ones(count, np.float32), _principal_components(vectors))
    smallest = members_min(len(vectors), settings)
    clustering = engine(settings.engine).fit(vectors, smallest, settings, seed, workers)
    return replace(clustering, labels=_numbered_by_size(clustering.labels))


def check_vectors(vectors: Vectors) -> None:
    """Raises BadInput when a vector is zero or not finite."""
    pieces = (vectors[start : start + DOCUMENTS_AT_ONCE] for start in range(0, len(vectors), DOCUMENTS_AT_ONCE))
    broken = np.zeros(0, bool)
    for piece in pieces:
        broken = np.append(broken, ~np.isfinite(piece).all(axis=1) | (np.abs(piece).sum(axis=1) == 0))
        unload(vectors)
    if broken.any():
        raise BadInput(
            f"{broken.sum()} of {len(vectors)} document vectors are zero or not finite (the first is row "
            f"{broken.argmax()}); remove the signals of that embedding provider and run `curate measure` again"
        )


def too_few(vectors: Vectors, settings: TopicSettings, rows: RowNumbers | None = None) -> bool:
    """Whether there are too few distinct documents, of these rows or all, for more than one topic."""
    rows = np.arange(len(vectors)) if rows is None else rows
    needed, distinct = TOPICS_NEED * members_min(len(rows), settings), set[bytes]()
    for row in rows:
        distinct.add(vectors[row].tobytes())
        if len(distinct) >= needed:
            return False
    return True


def _numbered_by_size(labels: ClusterLabels) -> ClusterLabels:
    """Renumber topics by size, largest first; of equal sizes, the one that appears first."""
    numbers, first, sizes = np.unique(labels[labels >= 0], return_index=True, return_counts=True)
    renamed = np.full(int(labels.max(initial=-1)) + 2, -1, np.int32)  # index -1, the last, is for outliers
    renamed[numbers[np.lexsort((first, -sizes))]] = np.arange(len(numbers), dtype=np.int32)
    return renamed[labels]


def _principal_components(vectors: Vectors) -> Vectors:
    """float32 (n, 2): map positions for sets that are too small for UMAP."""
    if len(vectors) < 2:
        return np.zeros((len(vectors), 2), np.float32)
    centred = vectors - vectors.mean(axis=0)
    axes = np.linalg.svd(centred, full_matrices=False)[2][:2]
    return np.pad(centred @ axes.T, ((0, 0), (0, 2 - len(axes)))).astype(np.float32)


def assign(
    fitted: Vectors, model: Clustering, reach: float | Vectors, fresh: Vectors
) -> tuple[Clustering, npt.NDArray[np.bool_]]:
    """Assign each row of `fresh` float32 (m, dimension) to a topic of `model`, independently of the other rows.

    The 15 nearest fitted documents vote, weighted by cosine. A document is an outlier when outliers win the vote, or
    when its mean distance to the voters exceeds `reach` (one, or float32 (m,)). Its probability is the winner's share
    of the votes; its map position is the weighted mean of the voters for the winner. Also returns bool (m,): which rows
    are beyond `reach`.

    Only the first 20,000 rows of `fitted` vote. Rows are ordered by content id, a hash, so this is a random sample.
    """
    rows, distances = nearest_to_each(fitted[:REFERENCE_MAX], fresh, VOTERS)
    labels, shares, positions = _vote(model, rows, distances)
    far = distances.mean(axis=1) > reach
    labels = np.where(far, np.int32(-1), labels)
    return Clustering(labels, np.where(labels < 0, np.float32(0), shares), positions), far


def assign_shard(
    root: str, fitted: Block | Vectors, model: Clustering, shard: tuple[Vectors, Vectors]
) -> tuple[Clustering, npt.NDArray[np.bool_]]:
    """`assign` for documents given by their reach (m,) and vectors (m, dimension); a worker reads `fitted` itself."""
    return assign(vectors_of(root, LENT, fitted), model, *shard)


def _vote(model: Clustering, rows: RowNumbers, distances: Vectors) -> tuple[ClusterLabels, Vectors, Vectors]:
    weights = np.maximum(1 - distances, 1e-6)
    topics = model.labels[rows]
    votes = np.stack([np.where(topics == topics[:, [n]], weights, 0).sum(axis=1) for n in range(rows.shape[1])], axis=1)
    winner = np.take_along_axis(topics, votes.argmax(axis=1)[:, None], 1)  # ties go to the nearest neighbour's topic
    winning = np.where(topics == winner, weights, 0)
    share = winning.sum(axis=1) / weights.sum(axis=1)
    positions = (model.positions[rows] * winning[:, :, None]).sum(axis=1) / winning.sum(axis=1)[:, None]
    return winner[:, 0], share.astype(np.float32), positions.astype(np.float32)


def reach_of(fitted: Vectors, workers: int) -> float:
    """99th percentile, over fitted documents, of the mean cosine distance to the 15 nearest others."""
    if len(fitted) < 2:
        return np.inf
    reference = fitted[:REFERENCE_MAX]
    _, distances = nearest(reference, reference[:REACH_SAMPLE], VOTERS + 1, workers)
    return float(np.float32(np.percentile(distances[:, 1:].mean(axis=1), REACH_PERCENTILE)))
