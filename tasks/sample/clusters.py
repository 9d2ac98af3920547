"""Document vectors -> topics by UMAP and HDBSCAN, as in VisionArena sec. 4.2. Outliers keep -1."""

import warnings
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from schemas.settings import TopicSettings

Vectors = npt.NDArray[np.float32]

TOPICS_NEED = 3
"""Fewer documents than this many smallest topics are one topic: there is nothing to tell apart."""


@dataclass(frozen=True)
class Clustering:
    """Topics of n documents."""

    labels: npt.NDArray[np.int32]
    """(n,) topic numbers by falling size; -1 for outliers."""
    probabilities: npt.NDArray[np.float32]
    """(n,) strength of membership, 0 to 1."""
    positions: Vectors
    """(n, 2) for the map."""


def members_min(count: int, settings: TopicSettings) -> int:
    """The smallest topic: as set, or 1 % of the documents, between 5 and 100."""
    return settings.members_min or max(5, min(100, count // 100))


def cluster(vectors: Vectors, settings: TopicSettings, seed: int) -> Clustering:
    """Topics of unit vectors float32 (n, dimension). Equal rows in equal order give equal topics.

    Raises ValueError when a vector is not finite or has no length.
    """
    count = len(vectors)
    if count and not (np.isfinite(vectors).all() and (np.abs(vectors).sum(axis=1) > 0).all()):
        raise ValueError("a document vector is zero or not finite; measure its prompt and picture again")
    smallest = members_min(count, settings)
    if len(np.unique(vectors, axis=0)) < TOPICS_NEED * smallest:
        return Clustering(np.zeros(count, np.int32), np.ones(count, np.float32), _plane(vectors))
    reduced = _umap(vectors, settings.dimensions, settings.neighbours, seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # scikit-learn's renamed arguments, which the package has not followed
        from hdbscan import HDBSCAN  # seconds to import, and only needed here

        found = HDBSCAN(min_cluster_size=smallest, core_dist_n_jobs=1).fit(reduced)
    labels = _by_size(found.labels_)
    return Clustering(labels, found.probabilities_.astype(np.float32), _umap(vectors, 2, settings.neighbours, seed))


def _umap(vectors: Vectors, dimensions: int, neighbours: int, seed: int) -> Vectors:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it tells of optional packages, and of the seed making it serial
        from umap import UMAP

        reducer = UMAP(
            n_neighbors=min(neighbours, len(vectors) - 1),
            n_components=dimensions,
            min_dist=0.0,
            metric="cosine",
            random_state=seed,
            n_jobs=1,
        )
        reduced: Vectors = np.asarray(reducer.fit_transform(vectors), np.float32)
    return reduced


def _by_size(labels: npt.NDArray[np.int64]) -> npt.NDArray[np.int32]:
    """Labels renumbered by falling size, then by first appearance."""
    numbers, first, sizes = np.unique(labels[labels >= 0], return_index=True, return_counts=True)
    renamed = {number: place for place, number in enumerate(numbers[np.lexsort((first, -sizes))])}
    return np.array([renamed.get(label, -1) for label in labels], np.int32)


def _plane(vectors: Vectors) -> Vectors:
    """The two directions of largest variance, for sets too small for UMAP."""
    if len(vectors) < 2:
        return np.zeros((len(vectors), 2), np.float32)
    centred = vectors - vectors.mean(axis=0)
    axes = np.linalg.svd(centred, full_matrices=False)[2][:2]
    return np.pad(centred @ axes.T, ((0, 0), (0, 2 - len(axes)))).astype(np.float32)
