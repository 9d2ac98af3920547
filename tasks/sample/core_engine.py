"""The engine of the light install: UMAP as in `layout.py`, whose loops stay compiled on disk, and HDBSCAN."""

import warnings

import numpy as np

from schemas.settings import TopicSettings
from tasks.running.blas_threads import one_blas_thread
from tasks.sample.cells import nearest_others
from tasks.sample.engines import Clustering, Vectors
from tasks.sample.fuzzy_graph import fuzzy_graph
from tasks.sample.layout import initial_layout, optimise

SMALL = 10_000
ROUNDS, ROUNDS_SMALL, ROUNDS_MAP = 100, 200, 50
"""Rounds of descent for more than SMALL documents, for fewer, and for the map."""


class Core:
    """One neighbour graph, laid out in some dimensions for HDBSCAN and in two for the map."""

    version = "core-3"

    def fit(self, vectors: Vectors, members_min: int, settings: TopicSettings, seed: int, workers: int) -> Clustering:
        """Topics by density in the layout."""
        count = len(vectors)
        rounds = ROUNDS_SMALL if count <= SMALL else ROUNDS
        with one_blas_thread():  # blocks run side by side, each on one thread
            rows, distances = nearest_others(vectors, settings.neighbours - 1, workers)
            graph = fuzzy_graph(rows, distances)
            start = initial_layout(graph, min(settings.dimensions, count // 2 - 1), seed)
            reduced = optimise(graph, start, rounds, seed)
            positions = optimise(graph, start[:, :2], ROUNDS_MAP, seed)
        return Clustering(*dense_groups(reduced, members_min), positions)


def dense_groups(points: Vectors, members_min: int) -> tuple[np.ndarray[tuple[int], np.dtype[np.int32]], Vectors]:
    """Labels and strengths of membership by HDBSCAN with its defaults."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # scikit-learn's renamed arguments, which the package has not followed
        from hdbscan import HDBSCAN  # a second to import, and only needed here

        found = HDBSCAN(min_cluster_size=members_min, core_dist_n_jobs=1).fit(points.astype(np.float64))
    return found.labels_.astype(np.int32), found.probabilities_.astype(np.float32)
