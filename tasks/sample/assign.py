"""Documents that came after the fit -> the topics that exist, by the vote of their nearest fitted documents."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tasks.running.blas_threads import one_blas_thread
from tasks.sample.engines import Clustering, Vectors
from tasks.sample.neighbours import nearest

VOTERS = 15
REFERENCE_MAX = 20_000
"""At most so many fitted documents vote, so that the cost of a night grows with the new documents alone."""
REACH_SAMPLE, REACH_PERCENTILE = 2_000, 99
VOTES_AT_ONCE = 10_000


@dataclass(frozen=True)
class Assigned:
    """Topics of m new documents."""

    found: Clustering
    far: npt.NDArray[np.bool_]
    """(m,) whether a document lies farther from the fitted ones than 99 % of these from each other."""


def reach_of(fitted: Vectors, workers: int) -> float:
    """The mean cosine distance to its voters that 99 % of the fitted documents stay within."""
    reference, voters = _reference(fitted), min(VOTERS, len(fitted) - 1)
    if voters < 1:
        return np.inf
    with one_blas_thread():
        _, distances = nearest(reference, reference[:REACH_SAMPLE], voters + 1, workers=workers)
    return float(np.float32(np.percentile(distances[:, 1:].mean(axis=1), REACH_PERCENTILE)))


def assign(fitted: Vectors, model: Clustering, reach: float, fresh: Vectors, workers: int) -> Assigned:
    """Topics of `fresh` float32 (m, dimension), each by itself: the others do not matter.

    The voters of a document are its nearest fitted ones, weighted by cosine. It is an outlier when outliers win the
    vote or its mean distance to the voters is beyond `reach`. Its probability is the winner's share of the votes,
    its place on the map the mean of the winner's voters.
    """
    reference = _reference(fitted)
    with one_blas_thread():
        rows, distances = nearest(reference, fresh, min(VOTERS, len(reference)), workers=workers)
    parts = [
        _vote(model, rows[start : start + VOTES_AT_ONCE], distances[start : start + VOTES_AT_ONCE])
        for start in range(0, max(1, len(fresh)), VOTES_AT_ONCE)
    ]
    labels, shares, positions = (np.concatenate(column) for column in zip(*parts, strict=True))
    far = distances.mean(axis=1) > reach
    labels = np.where(far, np.int32(-1), labels)
    return Assigned(Clustering(labels, np.where(labels < 0, np.float32(0), shares), positions), far)


def _reference(fitted: Vectors) -> Vectors:
    """The first rows; they are in order of content id, which is a hash, so this is a random sample."""
    return fitted[:REFERENCE_MAX]


def _vote(
    model: Clustering, rows: npt.NDArray[np.int32], distances: Vectors
) -> tuple[npt.NDArray[np.int32], Vectors, Vectors]:
    weights = np.maximum(1 - distances, 1e-6)
    topics = model.labels[rows]
    votes = ((topics[:, :, None] == topics[:, None, :]) * weights[:, None, :]).sum(axis=2)
    winner = np.take_along_axis(topics, votes.argmax(axis=1)[:, None], 1)  # of equals the nearest
    weights = np.where(topics == winner, weights, 0)
    share = weights.sum(axis=1) / np.maximum(1 - distances, 1e-6).sum(axis=1)
    positions = (model.positions[rows] * weights[:, :, None]).sum(axis=1) / weights.sum(axis=1)[:, None]
    return winner[:, 0].astype(np.int32), share.astype(np.float32), positions.astype(np.float32)
