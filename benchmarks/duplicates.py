"""All pairs of 64-bit hashes within 8 bits: our exact search against imagehash's own subtraction."""

from typing import Any

import imagehash
import numpy as np

from benchmarks.timing import compare
from tasks.decide.near_pictures import hamming_pairs

RADIUS = 8
SMALL, LARGE = 1_000, 20_000


def run() -> list[dict[str, Any]]:
    """Seconds for all pairs; the peer only at the smaller size, where it ends in time."""
    generator = np.random.default_rng(0)
    hashes = generator.integers(0, 2**63, LARGE, dtype=np.uint64)
    bits = np.unpackbits(hashes[:SMALL].astype(">u8").view(np.uint8)).reshape(SMALL, 8, 8).astype(bool)
    objects = [imagehash.ImageHash(each) for each in bits]

    def peer() -> int:
        return sum(objects[i] - objects[j] <= RADIUS for i in range(SMALL) for j in range(i + 1, SMALL))

    assert peer() == len(hamming_pairs(hashes[:SMALL], RADIUS))
    small = compare(
        "near-duplicates: all pairs",
        SMALL,
        lambda: hamming_pairs(hashes[:SMALL], RADIUS),
        "imagehash subtraction",
        peer,
    )
    large = compare(
        "near-duplicates: growth 1k to 20k",
        LARGE,
        lambda: hamming_pairs(hashes, RADIUS),
        "ourselves at 1k",
        lambda: hamming_pairs(hashes[:SMALL], RADIUS),
    )
    return [small, large]
