"""umap-learn and HDBSCAN. umap-learn compiles for half a minute in every process."""

import warnings

import numpy as np

from schemas.settings import TopicSettings
from tasks.sample.core_engine import dense_groups
from tasks.sample.engines import Clustering, Vectors


class UmapLearn:
    """Two runs of umap-learn: one for HDBSCAN, one for the map."""

    version = "umap-learn-0.5.12"

    def fit(self, vectors: Vectors, members_min: int, settings: TopicSettings, seed: int, workers: int) -> Clustering:
        """Topics by density in umap-learn's layout."""
        reduced = self.reduced(vectors, settings.dimensions, settings.neighbours, seed)
        labels, probabilities = dense_groups(reduced, members_min)
        return Clustering(labels, probabilities, self.reduced(vectors, 2, settings.neighbours, seed))

    def reduced(self, vectors: Vectors, dimensions: int, neighbours: int, seed: int) -> Vectors:
        """The layout, float32 (n, dimensions)."""
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
            return np.asarray(reducer.fit_transform(vectors), np.float32)
