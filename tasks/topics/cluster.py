"""Document vectors -> topics by the chosen engine; vectors that came after the fit -> the topics that exist."""

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from schemas.errors import BadInput
from schemas.settings import TopicSettings
from tasks.topics.engines import Clustering, Labels, Rows, Vectors, engine, nearest

TOPICS_NEED = 3
"""Fewer different documents than this many smallest topics are one topic: there is nothing to tell apart."""
VOTERS = 15
REFERENCE_MAX = 20_000
"""At most so many fitted documents vote, so that the cost of a night grows with the new documents alone."""
REACH_SAMPLE, REACH_PERCENTILE = 2_000, 99


def members_min(count: int, settings: TopicSettings) -> int:
    """The smallest topic: as set, or 0.5 % of the documents, between 5 and 100."""
    return settings.members_min or max(5, min(100, count // 200))


def cluster(vectors: Vectors, settings: TopicSettings, seed: int, workers: int = 1) -> Clustering:
    """Topics of unit vectors float32 (n, dimension). Equal rows in equal order give equal topics.

    Raises BadInput when a vector is not finite or has no length.
    """
    check_vectors(vectors)
    if too_few(vectors, settings):
        count = len(vectors)
        return Clustering(np.zeros(count, np.int32), np.ones(count, np.float32), _plane(vectors))
    smallest = members_min(len(vectors), settings)
    found = engine(settings.engine).fit(vectors, smallest, settings, seed, workers)
    return replace(found, labels=_by_size(found.labels))


def check_vectors(vectors: Vectors) -> None:
    """Raises BadInput when a vector is not finite or has no length."""
    broken = ~np.isfinite(vectors).all(axis=1) | (np.abs(vectors).sum(axis=1) == 0)
    if broken.any():
        raise BadInput(
            f"{broken.sum()} of {len(vectors)} document vectors are zero or not finite (the first is row "
            f"{broken.argmax()}); remove the facts of that embedding provider and run `curate measure` again"
        )


def too_few(vectors: Vectors, settings: TopicSettings) -> bool:
    """Whether there is nothing to tell apart."""
    needed = TOPICS_NEED * members_min(len(vectors), settings)
    return len(vectors) < needed or len({vector.tobytes() for vector in vectors}) < needed


def _by_size(labels: Labels) -> Labels:
    """Labels renumbered by falling size, then by first appearance."""
    numbers, first, sizes = np.unique(labels[labels >= 0], return_index=True, return_counts=True)
    renamed = np.full(int(labels.max(initial=-1)) + 2, -1, np.int32)  # its last place stands for -1
    renamed[numbers[np.lexsort((first, -sizes))]] = np.arange(len(numbers), dtype=np.int32)
    return renamed[labels]


def _plane(vectors: Vectors) -> Vectors:
    """The two directions of largest variance, for sets too small for a layout."""
    if len(vectors) < 2:
        return np.zeros((len(vectors), 2), np.float32)
    centred = vectors - vectors.mean(axis=0)
    axes = np.linalg.svd(centred, full_matrices=False)[2][:2]
    return np.pad(centred @ axes.T, ((0, 0), (0, 2 - len(axes)))).astype(np.float32)


@dataclass(frozen=True)
class Assigned:
    """Topics of m new documents."""

    found: Clustering
    far: npt.NDArray[np.bool_]
    """(m,) whether a document lies farther from the fitted ones than 99 % of these from each other."""


def assign(fitted: Vectors, model: Clustering, reach: float, fresh: Vectors, workers: int) -> Assigned:
    """Topics of `fresh` float32 (m, dimension), each by itself: the others do not matter.

    The voters of a document are its nearest fitted ones, weighted by cosine. It is an outlier when outliers win the
    vote or its mean distance to the voters is beyond `reach`. Its probability is the winner's share of the votes,
    its place on the map the mean of the winner's voters.

    The first rows of `fitted` vote. They are in order of content id, which is a hash, so this is a random sample.
    """
    rows, distances = nearest(fitted[:REFERENCE_MAX], fresh, VOTERS, workers)
    labels, shares, positions = _vote(model, rows, distances)
    far = distances.mean(axis=1) > reach
    labels = np.where(far, np.int32(-1), labels)
    return Assigned(Clustering(labels, np.where(labels < 0, np.float32(0), shares), positions), far)


def _vote(model: Clustering, rows: Rows, distances: Vectors) -> tuple[Labels, Vectors, Vectors]:
    weights = np.maximum(1 - distances, 1e-6)
    topics = model.labels[rows]
    votes = np.stack([np.where(topics == topics[:, [n]], weights, 0).sum(axis=1) for n in range(rows.shape[1])], axis=1)
    winner = np.take_along_axis(topics, votes.argmax(axis=1)[:, None], 1)  # of equals the nearest
    winning = np.where(topics == winner, weights, 0)
    share = winning.sum(axis=1) / weights.sum(axis=1)
    positions = (model.positions[rows] * winning[:, :, None]).sum(axis=1) / winning.sum(axis=1)[:, None]
    return winner[:, 0], share.astype(np.float32), positions.astype(np.float32)


def reach_of(fitted: Vectors, workers: int) -> float:
    """The mean cosine distance to its voters that 99 % of the fitted documents stay within."""
    if len(fitted) < 2:
        return np.inf
    reference = fitted[:REFERENCE_MAX]
    _, distances = nearest(reference, reference[:REACH_SAMPLE], VOTERS + 1, workers)
    return float(np.float32(np.percentile(distances[:, 1:].mean(axis=1), REACH_PERCENTILE)))
