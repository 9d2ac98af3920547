"""All pairs of embeddings within cosine 0.9: our exact bounded join against faiss's exact range search."""

import time
from itertools import pairwise
from math import log
from typing import Any

import faiss
import numpy as np
import numpy.typing as npt

from benchmarks.timing import compare
from tasks.decide.cosine_join import cosine_pairs

COSINE_MIN = 0.9
DIMENSION = 1280
SMALL = 10_000
LARGE = (10_000, 20_000, 40_000)
QUERIES = 1_000
"""Rows that faiss searches for; its seconds are scaled to all rows, for it compares all with all."""

Vectors = npt.NDArray[np.float32]


def drawn_vectors(n: int) -> Vectors:
    """Unit vectors around a mean, as embeddings lie: the k-th direction varies by k ** -0.6; one in fifty is a copy."""
    generator = np.random.default_rng(0)
    spread = np.arange(1, DIMENSION + 1, dtype=np.float32) ** -0.6
    vectors = generator.standard_normal((n, DIMENSION), np.float32) * spread
    vectors[:, 0] += 1.5
    copies = n // 50
    noise = generator.standard_normal((copies, DIMENSION), np.float32) * 0.3 * spread
    vectors[:copies] = vectors[copies : 2 * copies] + noise
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def faiss_pairs(vectors: Vectors, queries: int) -> int:
    """Pairs (i, j), i < j, of which i is among the first `queries`, by faiss's exact index."""
    index = faiss.IndexFlatIP(DIMENSION)
    index.add(vectors)
    ends, _, others = index.range_search(vectors[:queries], COSINE_MIN)
    return int((others > np.repeat(np.arange(queries), np.diff(ends).astype(np.int64))).sum())


def run() -> list[dict[str, Any]]:
    """CPU seconds side by side, then how ours grow."""
    vectors = drawn_vectors(SMALL)
    pairs, _ = cosine_pairs(vectors, COSINE_MIN)
    assert abs(int((pairs[:, 0] < QUERIES).sum()) - faiss_pairs(vectors, QUERIES)) <= 2  # rounding at the limit
    row = compare(
        "semantic near-duplicates: all pairs",
        SMALL,
        lambda: cosine_pairs(vectors, COSINE_MIN),
        "faiss IndexFlatIP",
        lambda: faiss_pairs(vectors, QUERIES),
        SMALL / QUERIES,
        pairs=len(pairs),
    )
    return [row, _growth()]


def _growth() -> dict[str, Any]:
    seconds = []
    for n in LARGE:
        vectors = drawn_vectors(n)
        started = time.process_time()
        cosine_pairs(vectors, COSINE_MIN)
        seconds.append(round(time.process_time() - started, 2))
        print(f"semantic near-duplicates, {n:,}: {seconds[-1]} CPU seconds", flush=True)
    exponents = [round(log(b / a) / log(m / n), 2) for (n, a), (m, b) in pairwise(zip(LARGE, seconds, strict=True))]
    return {"bench": "semantic near-duplicates: growth", "n": LARGE[-1], "ours_s": seconds[-1], "exponents": exponents}


if __name__ == "__main__":
    run()
