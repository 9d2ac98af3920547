"""Document vectors -> topics, as in VisionArena sec. 4.2, by the engine that was chosen. Outliers keep -1."""

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from schemas.errors import BadInput
from schemas.settings import TopicSettings
from tasks.sample.engines import Clustering, Labels, Vectors, engine

TOPICS_NEED = 3
"""Fewer different documents than this many smallest topics are one topic: there is nothing to tell apart."""


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
    if len(vectors) and broken.any():
        raise BadInput(
            f"{broken.sum()} of {len(vectors)} document vectors are zero or not finite (the first is row "
            f"{broken.argmax()}); remove the facts of that embedding provider and run `curate measure` again"
        )


def too_few(vectors: Vectors, settings: TopicSettings) -> bool:
    """Whether there is nothing to tell apart."""
    needed = TOPICS_NEED * members_min(len(vectors), settings)
    if len(vectors) >= needed and len(np.unique(vectors[: 10 * needed], axis=0)) >= needed:
        return False  # without sorting all of a large set
    return len(np.unique(vectors, axis=0)) < needed


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
    axes: npt.NDArray[np.float32] = np.linalg.svd(centred, full_matrices=False)[2][:2]
    return np.pad(centred @ axes.T, ((0, 0), (0, 2 - len(axes)))).astype(np.float32)
