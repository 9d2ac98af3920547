"""Images against a list of known PDQ hashes: ours against the exact faiss index that Meta's matcher uses."""

from typing import Any

import faiss
import numpy as np

from benchmarks.timing import compare
from tasks.ingest.known_images import PDQ_DISTANCE, KnownHashes

LISTED, IMAGES = 100_000, 500


def run() -> list[dict[str, Any]]:
    """CPU seconds for all images, one thread each; one in ten is a listed hash with 20 bits changed."""
    generator = np.random.default_rng(0)
    listed = generator.integers(0, 2**64, (LISTED, 4), dtype=np.uint64)
    images = generator.integers(0, 2**64, (IMAGES, 4), dtype=np.uint64)
    images[: IMAGES // 10] = listed[: IMAGES // 10] ^ np.uint64(2**20 - 1)
    distance = np.full(LISTED, PDQ_DISTANCE, np.uint8)
    known = KnownHashes((), {}, np.ascontiguousarray(listed.T), distance, "")
    digits = [row.astype(">u8").tobytes().hex() for row in images]
    faiss.omp_set_num_threads(1)
    index = faiss.IndexBinaryFlat(256)
    index.add(_bytes(listed))

    def theirs() -> np.ndarray:
        ends, _, _ = index.range_search(_bytes(images), PDQ_DISTANCE + 1)  # its radius is exclusive
        return np.diff(ends.astype(np.int64)) > 0

    assert (known.near(digits) == theirs()).all()
    return [compare("known hashes", IMAGES, lambda: known.near(digits), "faiss", theirs, listed=LISTED)]


def _bytes(hashes: np.ndarray) -> np.ndarray:
    """uint8 (n, 32) with the same order of bits for both sides."""
    return np.ascontiguousarray(hashes).view(np.uint8).reshape(len(hashes), 32)
