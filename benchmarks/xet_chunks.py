"""A model of the Hub's Xet storage: content-defined chunks of 8 to 128 KB, 64 KB on average."""

import hashlib
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
from numba import njit

_GEAR = np.random.default_rng(7).integers(0, 2**64, 256, np.uint64)
_MIN, _MAX = 8 * 1024, 128 * 1024
_MASK = np.uint64(0xFFFF << 48)  # 16 bits: a cut every 64 KB of random content


@njit(cache=True)
def _cut(content: np.ndarray, start: int, gear: np.ndarray, mask: np.uint64) -> int:
    """End of the chunk that begins at `start`: where the gear hash of the last 64 bytes has 16 zero bits."""
    rolled = np.uint64(0)
    end = min(start + _MAX, len(content))
    for place in range(min(start + _MIN - 64, end), end):
        rolled = (rolled << np.uint64(1)) + gear[content[place]]
        if rolled & mask == 0 and place >= start + _MIN:
            return place + 1
    return end


def chunks(path: Path) -> Iterator[tuple[bytes, int]]:
    """(digest, bytes) of every chunk of a file."""
    content = np.memmap(path, np.uint8, "r")
    start = 0
    while start < len(content):
        end = _cut(content, start, _GEAR, _MASK)
        yield hashlib.blake2b(content[start:end], digest_size=16).digest(), end - start
        start = end


def uploaded_again(old: Iterable[Path], new: Iterable[Path]) -> float:
    """Share of the bytes of `new` in chunks that `old` does not have, each counted once."""
    known = {digest for path in old for digest, _ in chunks(path)}
    later = [chunk for path in new for chunk in chunks(path)]
    fresh = {digest: size for digest, size in later if digest not in known}
    return sum(fresh.values()) / sum(size for _, size in later)
