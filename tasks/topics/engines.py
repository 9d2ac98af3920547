"""The engines that find topics in vectors: one interface, chosen by name (`topics.engine`).

In: unit vectors of documents. Out: a `Clustering`. umap-learn, hdbscan and evoc are imported when something is fitted:
nights without a new fit do not wait for them.
"""

import importlib
import warnings
from dataclasses import dataclass
from importlib.metadata import version
from typing import Protocol, cast

import numpy as np
import numpy.typing as npt

from schemas.errors import MissingProvider
from schemas.settings import TopicSettings
from tasks.runtime.blas_threads import one_blas_thread
from tasks.runtime.parallel import map_ordered

Vectors = npt.NDArray[np.float32]
Labels = npt.NDArray[np.int32]
Rows = npt.NDArray[np.int64]

ENGINES = {
    "umap": "tasks.topics.engines:UmapHdbscan",
    "evoc": "tasks.topics.engines:Evoc",
    "bertopic": "tasks.providers.production.topic_engines:BerTopic",
    "cuml": "tasks.providers.production.topic_engines:Cuml",
}
"""Name -> where the class lives."""
EPOCHS, MAP_EPOCHS = 200, 50
"""Rounds of a layout for clustering (umap-learn's number beyond 10,000 documents) and for the map."""
BLOCK = 1 << 24
"""Cosines that are in memory at a time for each thread (64 MB, and twice that to sort them)."""
ROUNDING = np.float32(1e-6)
"""Equal unit vectors of float32 are at most this far apart; umap-learn needs exactly 0 for them."""


@dataclass(frozen=True)
class Clustering:
    """Topics of n documents."""

    labels: Labels
    """(n,) topic numbers by falling size; -1 for outliers."""
    probabilities: Vectors
    """(n,) strength of membership, 0 to 1; 0 for outliers."""
    positions: Vectors
    """(n, 2) for the map."""


@dataclass(frozen=True)
class Graph:
    """The nearest neighbours of n documents by cosine, each document among its own."""

    vectors: Vectors
    """float32 (n, dimension), unit length."""
    rows: Rows
    """(n, k), nearest first."""
    distances: Vectors
    """(n, k) cosine distances, 0 to 2."""


class TopicEngine(Protocol):
    """Finds topics."""

    version: str
    """Changes when the same vectors may get other topics."""

    def fit(self, vectors: Vectors, members_min: int, settings: TopicSettings, seed: int, workers: int) -> Clustering:
        """Topics of unit vectors float32 (n, dimension), any labels 0 and up; the same for the same seed."""
        ...


def engine(name: str) -> TopicEngine:
    """The engine of that name. Raises MissingProvider with the way to get it."""
    module, _, kind = ENGINES[name].partition(":")
    try:
        return cast(TopicEngine, getattr(importlib.import_module(module), kind)())
    except ImportError as error:
        get = (
            "a CUDA machine and RAPIDS cuML" if name == "cuml" else 'pip install -c constraints.txt -e ".[production]"'
        )
        raise MissingProvider(f"topic engine {name!r} cannot be loaded ({error.name}); it needs {get}") from None


def nearest(vectors: Vectors, queries: Vectors, count: int, workers: int = 1) -> tuple[Rows, Vectors]:
    """The `count` rows of `vectors` nearest to each query, or as many as there are, and their cosine distances.

    Both are unit vectors, float32 (n, dimension) and (m, dimension); the answers have shape (m, count), nearest first.
    All pairs are compared, in blocks of one BLAS thread each: the number of workers changes nothing.
    """
    count = min(count, len(vectors))
    if not len(queries) or not count:
        return np.empty((len(queries), count), np.int64), np.empty((len(queries), count), np.float32)
    size = max(1, BLOCK // len(vectors))

    def of_block(top: int) -> tuple[Rows, Vectors]:
        apart = queries[top : top + size] @ vectors.T
        np.subtract(np.float32(1), apart, out=apart)
        rows = np.argpartition(apart, count - 1, axis=1)[:, :count]
        found = np.take_along_axis(apart, rows, 1)
        order = np.lexsort((rows, found), axis=1)
        return np.take_along_axis(rows, order, 1), np.take_along_axis(found, order, 1)

    with one_blas_thread():
        blocks = list(map_ordered(of_block, range(0, len(queries), size), workers))
    rows, distances = (np.concatenate(column) for column in zip(*blocks, strict=True))
    return rows, np.where(distances < ROUNDING, np.float32(0), distances)


def exact_graph(vectors: Vectors, neighbours: int, workers: int) -> Graph:
    """The graph of all pairs, with at most `neighbours` neighbours of each document."""
    return Graph(vectors, *nearest(vectors, vectors, neighbours, workers))


def layout(graph: Graph, dimensions: int, epochs: int, seed: int) -> Vectors:
    """umap-learn's layout of a graph, float32 (n, dimensions), on one thread: the same for the same seed.

    It starts from the principal components: cheaper than umap-learn's spectral start, and no worse here.
    """
    with warnings.catch_warnings(), one_blas_thread():
        warnings.simplefilter("ignore")  # that a graph cannot take new points, and that optional packages are missing
        from umap import UMAP

        reducer = UMAP(
            n_neighbors=graph.rows.shape[1],
            n_components=min(dimensions, *graph.vectors.shape),
            n_epochs=epochs,
            min_dist=0.0,
            metric="cosine",
            init="pca",
            random_state=seed,
            n_jobs=1,
            precomputed_knn=(graph.rows, graph.distances),
            force_approximation_algorithm=True,  # without it a graph of fewer than 4,096 documents is ignored
        )
        return np.asarray(reducer.fit_transform(graph.vectors), np.float32)


class UmapHdbscan:
    """umap-learn and the package hdbscan (VisionArena sec. 4.2); one exact graph serves both layouts."""

    def __init__(self) -> None:
        self.version = f"umap-learn-{version('umap-learn')}+hdbscan-{version('hdbscan')}"

    def fit(self, vectors: Vectors, members_min: int, settings: TopicSettings, seed: int, workers: int) -> Clustering:
        """Dense groups of the layout."""
        graph = exact_graph(vectors, settings.neighbours, workers)
        reduced = layout(graph, settings.dimensions, EPOCHS, seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # scikit-learn's renamed arguments, which the package has not followed
            from hdbscan import HDBSCAN

            found = HDBSCAN(min_cluster_size=members_min, core_dist_n_jobs=1).fit(reduced.astype(np.float64))
        labels, strengths = found.labels_.astype(np.int32), found.probabilities_.astype(np.float32)
        return Clustering(labels, strengths, layout(graph, 2, MAP_EPOCHS, seed))


class Evoc:
    """EVoC: its own approximate graph and density clustering; the map is umap-learn's, from the same graph."""

    def __init__(self) -> None:
        self.version = f"evoc-{version('evoc')}"

    def fit(self, vectors: Vectors, members_min: int, settings: TopicSettings, seed: int, workers: int) -> Clustering:
        """The layer of its clustering that persists most."""
        from evoc import EVoC

        found = EVoC(
            base_min_cluster_size=members_min,
            n_neighbors=min(settings.neighbours, len(vectors) - 1),
            node_embedding_dim=min(settings.dimensions, *vectors.shape),
            random_state=seed,
        ).fit(vectors)
        labels = np.asarray(found.labels_, np.int32)
        strengths = np.where(labels < 0, 0, found.membership_strengths_).astype(np.float32)
        distances = (1 - np.exp2(-found.nn_dists_)).astype(np.float32)  # it gives -log2 of cosines
        graph = Graph(vectors, found.nn_inds_, np.where(distances < ROUNDING, np.float32(0), distances))
        return Clustering(labels, strengths, layout(graph, 2, MAP_EPOCHS, seed))
