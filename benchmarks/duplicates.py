"""All pairs of 64-bit hashes within 8 bits: our exact join against faiss's exact range search."""

from typing import Any

import faiss
import numpy as np
import numpy.typing as npt

from benchmarks.timing import compare
from tasks.dedup.hamming import hamming_pairs

RADIUS = 8
MIDDLE, LARGE = 100_000, 1_000_000
QUERIES = 1_000
"""Rows that faiss searches for; its seconds are scaled to all rows, because it compares all with all."""

Hashes = npt.NDArray[np.uint64]


def random_hashes(n: int) -> Hashes:
    """Uniform hashes, one in fifty a copy with one bit changed."""
    generator = np.random.default_rng(0)
    hashes = generator.integers(0, 2**64, n, dtype=np.uint64)
    copies = n // 50
    hashes[:copies] = hashes[copies : 2 * copies] ^ np.uint64(1) << generator.integers(0, 64, copies).astype(np.uint64)
    return hashes


def skewed_hashes(n: int) -> Hashes:
    """Hashes with the uneven bits of screenshots and documents.

    One in ten of 1,000 layouts, with 4 to 16 bits changed and the same 20 bits never set, one in a hundred of ten
    blank pages; the rest uniform.
    """
    generator = np.random.default_rng(1)
    hashes = generator.integers(0, 2**64, n, dtype=np.uint64)
    alike, blank = n // 10, n // 100
    layouts = generator.integers(0, 2**64, 1000, dtype=np.uint64) & np.uint64(0xFFFF_FF0F_F0FF_0F00)
    flips = np.uint64(1) << generator.integers(0, 64, (alike, 16)).astype(np.uint64)
    flips[np.arange(16) >= generator.integers(4, 17, alike)[:, None]] = 0
    hashes[:alike] = layouts[generator.integers(0, 1000, alike)] ^ np.bitwise_xor.reduce(flips, axis=1)
    hashes[alike : alike + blank] = layouts[generator.integers(0, 10, blank)]
    return generator.permutation(hashes)


def faiss_pairs(hashes: Hashes, queries: int) -> int:
    """Pairs (i, j), i < j, of which i is among the first `queries`, by faiss's exact index."""
    index = faiss.IndexBinaryFlat(64)
    rows = hashes.view(np.uint8).reshape(-1, 8)
    index.add(rows)
    found = 0
    for start in range(0, queries, 1000):
        stop = min(start + 1000, queries)
        ends, _, others = index.range_search(rows[start:stop], RADIUS + 1)  # its radius is exclusive
        found += int((others > np.repeat(np.arange(start, stop), np.diff(ends).astype(np.int64))).sum())
    return found


def run() -> list[dict[str, Any]]:
    """CPU seconds for all pairs, on even and on uneven hashes; `pairs` were the same where faiss searched for all."""
    rows = []
    for name, make in (("random", random_hashes), ("skewed", skewed_hashes)):
        for n in (MIDDLE, LARGE):
            hashes = make(n)
            queries = min(n, QUERIES)
            pairs = hamming_pairs(hashes, RADIUS)
            assert (pairs[:, 0] < queries).sum() == faiss_pairs(hashes, queries)
            rows.append(_against_faiss(name, hashes, queries, len(pairs)))
    return [*rows, _new_ones()]


def _against_faiss(name: str, hashes: Hashes, queries: int, pairs: int) -> dict[str, Any]:
    n = len(hashes)
    return compare(
        f"near-duplicates: all pairs, {name} hashes",
        n,
        lambda: hamming_pairs(hashes, RADIUS),
        "faiss IndexBinaryFlat",
        lambda: faiss_pairs(hashes, queries),
        n / queries,
        pairs=pairs,
    )


def _new_ones() -> dict[str, Any]:
    """One in a hundred is new."""
    hashes = random_hashes(LARGE)
    fresh = np.arange(LARGE) % 100 == 0
    return compare(
        "near-duplicates: 1 % new",
        LARGE,
        lambda: hamming_pairs(hashes, RADIUS, fresh),
        "all again",
        lambda: hamming_pairs(hashes, RADIUS),
    )


if __name__ == "__main__":
    run()
