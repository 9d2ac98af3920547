"""Measures how well a benchmark represents its pool of prompts, against random samples of the same size."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
from scipy.spatial.distance import jensenshannon

from schemas.benches.bench import BenchMeasure
from tasks.storage.queries.signals import Vectors

Labels = npt.NDArray[np.int64]
Rows = npt.NDArray[np.int64]
RANDOM_SAMPLES = 100
POOL_MAX = 2000
"""Most prompts of the pool that distances are measured to; a random sample of larger pools."""


def measures(topics: Labels, vectors: Vectors, drawn: Rows, seed: int) -> list[BenchMeasure]:
    """Every measure of the benchmark and of random samples of the pool; empty when nothing was drawn.

    `topics` int64 (n,) and unit `vectors` float32 (n, dimension) describe the pool; `drawn` are the benchmark's rows.
    """
    if not len(drawn):
        return []
    generator = np.random.default_rng(seed)
    samples = [np.sort(generator.choice(len(topics), len(drawn), replace=False)) for _ in range(RANDOM_SAMPLES)]
    others = np.sort(generator.choice(len(topics), min(POOL_MAX, len(topics)), replace=False))
    found = []
    for name, measure in _measures(topics, vectors, others).items():
        random = np.array([measure(sample) for sample in samples])
        low, high = np.quantile(random, [0.025, 0.975])
        numbers = {"value": measure(drawn), "random_mean": random.mean(), "random_low": low, "random_high": high}
        rounded = {key: round(float(number), 6) for key, number in numbers.items()}
        found.append(BenchMeasure(measure=name, **rounded, prompts=len(drawn), pool=len(topics)))
    return found


def _measures(topics: Labels, vectors: Vectors, others: Rows) -> dict[str, Callable[[Rows], float]]:
    count = int(topics.max()) + 1
    pool = np.bincount(topics, minlength=count) / len(topics)
    even = (pool > 0) / (pool > 0).sum()
    cosines = vectors @ vectors[others].T
    among_pool = float(_distance(cosines[others]).mean())

    def of_topics(rows: Rows) -> npt.NDArray[np.float64]:
        return np.bincount(topics[rows], minlength=count) / len(rows)

    def energy(rows: Rows) -> float:
        among = _distance(vectors[rows] @ vectors[rows].T).mean()
        return float(2 * _distance(cosines[rows]).mean() - among - among_pool)

    return {
        "topic_coverage": lambda rows: float((of_topics(rows) > 0).sum() / (pool > 0).sum()),
        "distance_to_even_topics": lambda rows: float(jensenshannon(of_topics(rows), even, base=2)),
        "distance_to_pool_topics": lambda rows: float(jensenshannon(of_topics(rows), pool, base=2)),
        "energy_distance_to_pool": energy,
        "nearest_cosine": lambda rows: float(cosines[rows].max(axis=0).mean()),
    }


def _distance(cosines: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
    """Euclidean distance of unit vectors with these cosines."""
    return np.sqrt(np.maximum(0.0, 2 - 2 * cosines.astype(np.float64)))
