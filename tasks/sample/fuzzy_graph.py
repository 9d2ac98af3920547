"""The weighted neighbour graph of UMAP (McInnes, Healy and Melville 2018, sec. 3.1)."""

import math

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

from tasks.running.compiled import compiled

Vectors = npt.NDArray[np.float32]
Rows = npt.NDArray[np.int32]

STEPS = 64
"""Bisection steps for the bandwidth of a point."""
BANDWIDTH_MIN = 1e-3
"""Least bandwidth as a share of the mean distance, as in umap-learn."""


def fuzzy_graph(rows: Rows, distances: Vectors) -> csr_array:
    """Symmetric weights in (0, 1], float32 (n, n), from the k nearest others of n points, both (n, k).

    A weight is exp(-(distance - nearest) / bandwidth); the bandwidth of a point makes its weights sum to
    log2(k + 1), the point itself counted as one of its neighbours. Two directions a and b become a + b - ab.
    """
    count, degree = rows.shape
    weights = _weights(distances, math.log2(degree + 1))
    starts = np.arange(count + 1, dtype=np.int32) * np.int32(degree)
    directed = csr_array((weights.ravel(), rows.ravel(), starts), shape=(count, count))
    other = directed.T.tocsr()
    graph = csr_array(directed + other - directed * other)
    graph.sort_indices()
    return graph


@compiled
def _weights(distances: Vectors, target: float) -> Vectors:
    count, degree = distances.shape
    weights = np.empty((count, degree), np.float32)
    overall = distances.mean()
    for point in range(count):
        apart = distances[point][distances[point] > 0]
        nearest = apart.min() if apart.size else np.float32(0)
        low, high, bandwidth = 0.0, math.inf, 1.0
        for _ in range(STEPS):
            total = 0.0
            for place in range(degree):
                gap = distances[point, place] - nearest
                total += math.exp(-gap / bandwidth) if gap > 0 else 1.0
            if abs(total - target) < 1e-5:
                break
            if total > target:
                high = bandwidth
                bandwidth = (low + high) / 2
            else:
                low = bandwidth
                bandwidth = bandwidth * 2 if high == math.inf else (low + high) / 2
        least = BANDWIDTH_MIN * (distances[point].mean() if nearest > 0 else overall)
        bandwidth = max(bandwidth, least)
        for place in range(degree):
            gap = distances[point, place] - nearest
            weights[point, place] = math.exp(-gap / bandwidth) if gap > 0 and bandwidth > 0 else 1.0
    return weights
