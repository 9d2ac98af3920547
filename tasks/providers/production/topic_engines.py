"""Topic engines that come with other people's packages: BERTopic, and cuML on a GPU."""

import warnings

import numpy as np

from schemas.settings import TopicSettings
from tasks.sample.engines import Clustering, Vectors
from tasks.sample.umap_engine import UmapLearn


class BerTopic:
    """BERTopic with its default pipeline, smallest topic and seed set (VisionArena sec. 4.2).

    It looks at the vectors alone; words and exemplars are made by `topic_words.py`, by BERTopic's definitions.
    """

    def __init__(self) -> None:
        import bertopic

        self.version = f"bertopic-{bertopic.__version__}"

    def fit(self, vectors: Vectors, members_min: int, settings: TopicSettings, seed: int, workers: int) -> Clustering:
        """BERTopic's topics; the map is umap-learn's."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of its own dependencies
            from bertopic import BERTopic
            from umap import UMAP

            count = min(settings.neighbours, len(vectors) - 1)
            reducer = UMAP(count, settings.dimensions, min_dist=0.0, metric="cosine", random_state=seed)
            model = BERTopic(umap_model=reducer, min_topic_size=members_min)
            topics, probabilities = model.fit_transform(["one document"] * len(vectors), vectors)  # two words at least
        plane = UmapLearn().reduced(vectors, 2, settings.neighbours, seed)
        return Clustering(np.asarray(topics, np.int32), np.asarray(probabilities, np.float32), plane)


class Cuml:
    """UMAP and HDBSCAN of RAPIDS cuML. Untested: it needs a CUDA machine and a package that is not in any extra."""

    def __init__(self) -> None:
        import cuml

        self.version = f"cuml-{cuml.__version__}"

    def fit(self, vectors: Vectors, members_min: int, settings: TopicSettings, seed: int, workers: int) -> Clustering:
        """Topics by density in cuML's layout."""
        from cuml.cluster import HDBSCAN
        from cuml.manifold import UMAP

        def reduced(dimensions: int) -> Vectors:
            count = min(settings.neighbours, len(vectors) - 1)
            reducer = UMAP(n_neighbors=count, n_components=dimensions, min_dist=0.0, metric="cosine", random_state=seed)
            return np.asarray(reducer.fit_transform(vectors), np.float32)

        found = HDBSCAN(min_cluster_size=members_min).fit(reduced(settings.dimensions))
        return Clustering(np.asarray(found.labels_, np.int32), np.asarray(found.probabilities_, np.float32), reduced(2))
