"""Topic engines of packages that are not in the core install: BERTopic, and RAPIDS cuML on a GPU."""

import warnings

import numpy as np

from schemas.settings import TopicSettings
from tasks.topics.engines import MAP_EPOCHS, Clustering, Vectors, exact_graph, layout


class BerTopic:
    """BERTopic with its default pipeline, smallest topic and seed set (VisionArena sec. 4.2).

    It looks at the vectors alone; `descriptions.py` makes words and exemplars of topics by BERTopic's definitions.
    """

    def __init__(self) -> None:
        import bertopic

        self.version = f"bertopic-{bertopic.__version__}"

    def fit(self, vectors: Vectors, members_min: int, settings: TopicSettings, seed: int, workers: int) -> Clustering:
        """BERTopic's topics; the map is umap-learn's."""
        neighbours = min(settings.neighbours, len(vectors) - 1)
        dimensions = min(settings.dimensions, len(vectors) - 2)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of its own dependencies
            from bertopic import BERTopic
            from umap import UMAP

            reducer = UMAP(
                neighbours, n_components=dimensions, min_dist=0.0, metric="cosine", random_state=seed, n_jobs=1
            )
            model = BERTopic(umap_model=reducer, min_topic_size=members_min)
            topics, probabilities = model.fit_transform(["one document"] * len(vectors), vectors)  # two words at least
        plane = layout(exact_graph(vectors, neighbours, workers), 2, MAP_EPOCHS, seed)
        return Clustering(np.asarray(topics, np.int32), np.asarray(probabilities, np.float32), plane)


class Cuml:
    """UMAP and HDBSCAN of RAPIDS cuML. Untested: it needs a CUDA machine and a package that is not in any extra."""

    def __init__(self) -> None:
        import cuml

        self.version = f"cuml-{cuml.__version__}"

    def fit(self, vectors: Vectors, members_min: int, settings: TopicSettings, seed: int, workers: int) -> Clustering:
        """Dense groups of cuML's layout."""
        from cuml.cluster import HDBSCAN
        from cuml.manifold import UMAP

        def reduced(dimensions: int) -> Vectors:
            neighbours = min(settings.neighbours, len(vectors) - 1)
            reducer = UMAP(
                n_neighbors=neighbours, n_components=dimensions, min_dist=0.0, metric="cosine", random_state=seed
            )
            return np.asarray(reducer.fit_transform(vectors), np.float32)

        found = HDBSCAN(min_cluster_size=members_min).fit(reduced(settings.dimensions))
        return Clustering(np.asarray(found.labels_, np.int32), np.asarray(found.probabilities_, np.float32), reduced(2))
