"""The engines that find topics in vectors: one interface, chosen by name (`topics.engine`)."""

import importlib
from dataclasses import dataclass
from typing import Protocol, cast

import numpy as np
import numpy.typing as npt

from schemas.errors import MissingProvider
from schemas.settings import TopicSettings

Vectors = npt.NDArray[np.float32]
Labels = npt.NDArray[np.int32]

ENGINES = {
    "core": "tasks.sample.core_engine:Core",
    "umap": "tasks.sample.umap_engine:UmapLearn",
    "bertopic": "tasks.providers.production.topic_engines:BerTopic",
    "cuml": "tasks.providers.production.topic_engines:Cuml",
}
"""Name -> where the class lives."""


@dataclass(frozen=True)
class Clustering:
    """Topics of n documents."""

    labels: Labels
    """(n,) topic numbers by falling size; -1 for outliers."""
    probabilities: Vectors
    """(n,) strength of membership, 0 to 1; 0 for outliers."""
    positions: Vectors
    """(n, 2) for the map."""


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
