"""Topic engines that need packages outside the core install: BERTopic, and RAPIDS cuML on a GPU."""

import warnings

import numpy as np

from schemas.settings import TopicSettings
from tasks.runtime.arrays import Vectors
from tasks.topics.engines import MAP_EPOCHS, Clustering, layout, nearest


class BerTopic:
    """BERTopic's default pipeline with our minimum topic size and seed (VisionArena sec. 4.2).

    It clusters the given vectors and sees no text; `tasks/topics/descriptions.py` computes words and exemplars.
    """

    def __init__(self) -> None:
        import bertopic

        self.version = f"bertopic-{bertopic.__version__}"

    def fit(self, vectors: Vectors, members_min: int, settings: TopicSettings, seed: int, workers: int) -> Clustering:
        """Fit BERTopic on the vectors; the map is laid out separately by umap-learn."""
        neighbours = min(settings.neighbours, len(vectors) - 1)
        dimensions = min(settings.dimensions, len(vectors) - 2)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # raised by its dependencies
            from bertopic import BERTopic
            from umap import UMAP

            reducer = UMAP(
                neighbours, n_components=dimensions, min_dist=0.0, metric="cosine", random_state=seed, n_jobs=1
            )
            model = BERTopic(umap_model=reducer, min_topic_size=members_min)
            topics, probabilities = model.fit_transform(["one document"] * len(vectors), vectors)  # it needs some text
        plane = layout(vectors, nearest(vectors, vectors, neighbours, workers), 2, MAP_EPOCHS, seed)
        return Clustering(np.asarray(topics, np.int32), np.asarray(probabilities, np.float32), plane)


class Cuml:
    """UMAP and HDBSCAN of RAPIDS cuML. Untested: it needs a CUDA machine, and cuML is in none of our extras."""

    def __init__(self) -> None:
        import cuml

        self.version = f"cuml-{cuml.__version__}"

    def fit(self, vectors: Vectors, members_min: int, settings: TopicSettings, seed: int, workers: int) -> Clustering:
        """Cluster cuML's layout of `settings.dimensions` dimensions."""
        from cuml.cluster import HDBSCAN
        from cuml.manifold import UMAP

        def reduced(dimensions: int) -> Vectors:
            neighbours = min(settings.neighbours, len(vectors) - 1)
            reducer = UMAP(
                n_neighbors=neighbours, n_components=dimensions, min_dist=0.0, metric="cosine", random_state=seed
            )
            return np.asarray(reducer.fit_transform(vectors), np.float32)

        clusterer = HDBSCAN(min_cluster_size=members_min).fit(reduced(settings.dimensions))
        return Clustering(
            np.asarray(clusterer.labels_, np.int32), np.asarray(clusterer.probabilities_, np.float32), reduced(2)
        )
