"""Kinds of images told from their vectors: diagrams, exercises, and the domain of the taxonomy.

By logistic regressions on vectors of this package's embedder (benchmarks/tags_quality.py --fit writes them). Vectors of
another embedder tell nothing.
"""

from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

from tasks.providers.capabilities import Vectors
from tasks.runtime.yaml_files import read_yaml

KINDS_VERSION = 1
"""Version of `image_weights.yaml`."""
DOMAINS = ("Entertainment", "Expert", "Natural", "Objects", "Urban")
"""Domains of the taxonomy of which there were enough images to learn from."""
DOMAIN_PROBABILITY_MIN = 0.6


def kind_probability(kind: str, vectors: Sequence[Vectors]) -> float | None:
    """Greatest probability among the images of being of a kind (`diagram`, `homework`); None if nothing tells."""
    odds = [float(_odds((kind,), vector)[0]) for vector in _fitting(vectors)]
    return 1 / (1 + float(np.exp(-max(odds)))) if odds else None


def domain(vectors: Sequence[Vectors]) -> str | None:
    """The domain of the first image whose domain is told; None if no image's is."""
    for vector in _fitting(vectors):
        odds = _odds(DOMAINS, vector)
        shares = np.exp(odds - odds.max())
        if shares.max() >= DOMAIN_PROBABILITY_MIN * shares.sum():
            return DOMAINS[int(shares.argmax())]
    return None


def _fitting(vectors: Sequence[Vectors]) -> list[Vectors]:
    width = len(next(iter(_weights().values()))) - 1
    return [vector for vector in vectors if vector.shape == (width,)]


def _odds(kinds: Sequence[str], vector: Vectors) -> npt.NDArray[np.float32]:
    """float32 (kinds,): log odds of each."""
    rows = np.array([_weights()[kind] for kind in kinds])
    odds: npt.NDArray[np.float32] = rows[:, 1:] @ vector + rows[:, 0]
    return odds


@cache
def _weights() -> dict[str, npt.NDArray[np.float32]]:
    """Kind -> float32 (1 + dimension,): intercept and weights."""
    content = read_yaml(Path(__file__).with_name("image_weights.yaml"))
    return {kind: np.asarray(line, np.float32) for kind, line in content.items()}
