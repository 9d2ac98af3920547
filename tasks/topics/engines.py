"""Topic engines: unit vectors of documents -> a `Clustering`, by the engine named in `topics.engine`.

umap-learn, hdbscan and evoc are imported when a model is fitted, so a night without a new fit does not wait for them.
"""

import importlib
import warnings
from collections import Counter
from dataclasses import dataclass
from importlib.metadata import version
from typing import Protocol, cast

import numpy as np
import numpy.typing as npt

from schemas.errors import MissingProvider, install_command
from schemas.settings import TopicSettings
from tasks.runtime.arrays import RowNumbers, Vectors, cosines_of_pairs
from tasks.runtime.parallel import map_ordered, one_blas_thread

ClusterLabels = npt.NDArray[np.int32]
Neighbours = tuple[RowNumbers, Vectors]
"""Row numbers int64 (n, k), nearest first, and cosine distances float32 (n, k), 0 to 2."""

ENGINES = {
    "umap": "tasks.topics.engines:UmapHdbscan",
    "evoc": "tasks.topics.engines:Evoc",
    "bertopic": "tasks.providers.production.local.topic_engines:BerTopic",
    "cuml": "tasks.providers.production.local.topic_engines:Cuml",
}
"""Name -> module and class."""
EPOCHS, MAP_EPOCHS = 200, 50
"""UMAP epochs of the layout that is clustered (umap-learn's default beyond 10,000 documents) and of the map."""
COSINES_A_THREAD = 1 << 24
"""Cosines that a thread holds in memory at a time (64 MB, and twice that to sort them)."""
_PRODUCT_ERROR = np.float32(1e-5)
"""More than a product of blocks differs from the inner product of two unit vectors computed by itself."""
ROUNDING = np.float32(1e-6)
"""Smaller distances are rounding errors of equal float32 vectors; umap-learn needs exactly 0 there."""


@dataclass(frozen=True)
class Clustering:
    """Topics of n documents."""

    labels: ClusterLabels
    """(n,) topic numbers by falling size; -1 for outliers."""
    probabilities: Vectors
    """(n,) strength of membership, 0 to 1; 0 for outliers."""
    positions: Vectors
    """(n, 2) for the map."""


class TopicEngine(Protocol):
    """A clustering method."""

    version: str
    """Changes whenever the same vectors may get different topics."""

    def fit(self, vectors: Vectors, members_min: int, settings: TopicSettings, seed: int, workers: int) -> Clustering:
        """Fit topics on unit vectors float32 (n, dimension); topics are numbered from 0 in any order.

        The same vectors and seed give the same topics.
        """
        ...


def engine(name: str) -> TopicEngine:
    """The engine of that name. Raises MissingProvider, which says how to install it."""
    module, _, kind = ENGINES[name].partition(":")
    try:
        return cast(TopicEngine, getattr(importlib.import_module(module), kind)())
    except ImportError as error:
        get = "a CUDA machine and RAPIDS cuML" if name == "cuml" else install_command("production")
        raise MissingProvider(f"topic engine {name!r} cannot be loaded ({error.name}); it needs {get}") from None


def nearest(vectors: Vectors, queries: Vectors, count: int, workers: int = 1) -> Neighbours:
    """The `count` rows of `vectors` nearest to each query (all rows if there are fewer), by exact search.

    Both are unit vectors, float32 (n, dimension) and (m, dimension). Pairs are compared in blocks, each on one BLAS
    thread, so the result does not depend on the number of workers. The last bits of a distance depend on the place of
    its query among the others: `nearest_to_each` is for what must not.
    """
    count = min(count, len(vectors))
    if not len(queries) or not count:
        return np.empty((len(queries), count), np.int64), np.empty((len(queries), count), np.float32)
    size = block_rows(vectors)

    def of_block(top: int) -> Neighbours:
        apart = queries[top : top + size] @ vectors.T
        np.subtract(np.float32(1), apart, out=apart)
        rows = np.argpartition(apart, count - 1, axis=1)[:, :count]
        block_distances = np.take_along_axis(apart, rows, 1)
        order = np.lexsort((rows, block_distances), axis=1)
        return np.take_along_axis(rows, order, 1), np.take_along_axis(block_distances, order, 1)

    with one_blas_thread():
        blocks = list(map_ordered(of_block, range(0, len(queries), size), workers))
    rows, distances = (np.concatenate(column) for column in zip(*blocks, strict=True))
    return rows, np.where(distances < ROUNDING, np.float32(0), distances)


def nearest_to_each(vectors: Vectors, queries: Vectors, count: int) -> Neighbours:
    """`nearest`, with the same bits for a query whatever the others are.

    Products of blocks find candidates, whose distances are then computed one by one.
    """
    count = min(count, len(vectors))
    rows, distances = np.empty((len(queries), count), np.int64), np.empty((len(queries), count), np.float32)
    useful_rows = _first_of_equals(vectors, count)
    useful = vectors[useful_rows]
    size = block_rows(useful) if count else 1
    with one_blas_thread():
        for top in range(0, len(queries) if count else 0, size):
            block = queries[top : top + size]
            apart = np.float32(1) - block @ useful.T
            farthest = np.partition(apart, count - 1, axis=1)[:, [count - 1]]
            # a pair is a query of the block and a useful row that may be among its nearest
            pair_queries, pair_rows = np.nonzero(apart <= farthest + _PRODUCT_ERROR)
            pair_distances = np.float32(1) - cosines_of_pairs(block, useful, pair_queries, pair_rows)
            order = np.lexsort((pair_rows, pair_distances, pair_queries))
            first_pairs = np.searchsorted(pair_queries[order], np.arange(len(block)))
            chosen = order[first_pairs[:, None] + np.arange(count)]
            rows[top : top + size] = useful_rows[pair_rows[chosen]]
            distances[top : top + size] = pair_distances[chosen]
    return rows, np.where(distances < ROUNDING, np.float32(0), distances)


def _first_of_equals(vectors: Vectors, count: int) -> RowNumbers:
    """The rows without those that equal `count` earlier ones, which are always nearer: they come first in a tie."""
    seen = Counter[bytes]()
    useful_rows = list[int]()
    for row, vector in enumerate(vectors):
        content = vector.tobytes()
        seen[content] += 1
        if seen[content] <= count:
            useful_rows.append(row)
    return np.array(useful_rows, np.int64)


def block_rows(vectors: Vectors) -> int:
    """Queries that are compared with these vectors at a time."""
    return max(1, COSINES_A_THREAD // len(vectors))


def layout(vectors: Vectors, neighbours: Neighbours, dimensions: int, epochs: int, seed: int) -> Vectors:
    """umap-learn's layout, float32 (n, dimensions), given each row's neighbours (its own row first).

    It runs on one thread, so the same seed gives the same layout. It starts from principal components, which is
    faster than umap-learn's spectral start and no worse here.
    """
    with warnings.catch_warnings(), one_blas_thread():
        warnings.simplefilter("ignore")  # about new points with a given graph, and about optional packages
        from umap import UMAP

        reducer = UMAP(
            n_neighbors=neighbours[0].shape[1],
            n_components=min(dimensions, *vectors.shape),
            n_epochs=epochs,
            min_dist=0.0,
            metric="cosine",
            init="pca",
            random_state=seed,
            n_jobs=1,
            precomputed_knn=neighbours,
            force_approximation_algorithm=True,  # otherwise precomputed_knn is ignored below 4,096 documents
        )
        return np.asarray(reducer.fit_transform(vectors), np.float32)


class UmapHdbscan:
    """umap-learn and the package hdbscan (VisionArena sec. 4.2); one exact neighbour search serves both layouts."""

    def __init__(self) -> None:
        self.version = f"umap-learn-{version('umap-learn')}+hdbscan-{version('hdbscan')}"

    def fit(self, vectors: Vectors, members_min: int, settings: TopicSettings, seed: int, workers: int) -> Clustering:
        """Cluster a layout of `settings.dimensions` dimensions."""
        neighbours = nearest(vectors, vectors, settings.neighbours, workers)
        reduced = layout(vectors, neighbours, settings.dimensions, EPOCHS, seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # hdbscan uses arguments that scikit-learn has renamed
            from hdbscan import HDBSCAN

            clusterer = HDBSCAN(min_cluster_size=members_min, core_dist_n_jobs=1).fit(reduced.astype(np.float64))
        labels, strengths = clusterer.labels_.astype(np.int32), clusterer.probabilities_.astype(np.float32)
        return Clustering(labels, strengths, layout(vectors, neighbours, 2, MAP_EPOCHS, seed))


class Evoc:
    """EVoC: its own approximate neighbours and density clustering; the map is umap-learn's, from these neighbours."""

    def __init__(self) -> None:
        self.version = f"evoc-{version('evoc')}"

    def fit(self, vectors: Vectors, members_min: int, settings: TopicSettings, seed: int, workers: int) -> Clustering:
        """Take EVoC's most persistent cluster layer."""
        from evoc import EVoC

        clusterer = EVoC(
            base_min_cluster_size=members_min,
            n_neighbors=min(settings.neighbours, len(vectors) - 1),
            node_embedding_dim=min(settings.dimensions, *vectors.shape),
            random_state=seed,
        ).fit(vectors)
        labels = np.asarray(clusterer.labels_, np.int32)
        strengths = np.where(labels < 0, 0, clusterer.membership_strengths_).astype(np.float32)
        distances = (1 - np.exp2(-clusterer.nn_dists_)).astype(np.float32)  # nn_dists_ is -log2 of the cosine
        neighbours = clusterer.nn_inds_, np.where(distances < ROUNDING, np.float32(0), distances)
        return Clustering(labels, strengths, layout(vectors, neighbours, 2, MAP_EPOCHS, seed))
