"""Share of bytes that the next version of a release uploads, by content-defined chunks as the Hub cuts them."""

import hashlib
import json
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow.parquet as pq
from numba import njit

from benchmarks.release_rows import chat_rows, image_store
from tasks.release.shards import ReleasedImages, write_shards

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


ROWS, CHANGED = 4_000, 0.01


def run() -> list[dict[str, Any]]:
    """Share of the bytes that each later version uploads: ours, and with pyarrow's defaults."""
    few = int(ROWS * CHANGED)
    everything = range(ROWS + 2 * few)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        store = image_store(folder / "store", everything)
        images = ReleasedImages(store)
        first = _written(chat_rows(range(ROWS)), images, folder / "first")
        return [_compared(change, first, _written(rows, images, folder / change)) for change, rows in _later(few)]


def _later(few: int) -> Iterable[tuple[str, pl.DataFrame]]:
    """1 % of the rows changed, in five ways."""
    spread = frozenset(np.random.default_rng(1).choice(ROWS, few, replace=False).tolist())
    fresh = dict(zip(sorted(spread), range(ROWS, ROWS + few), strict=True))
    yield "rows appended", chat_rows(range(ROWS + few))
    yield "one stretch of rows removed", chat_rows([n for n in range(ROWS) if not 0 <= n - ROWS // 3 < few])
    yield "rows removed all over", chat_rows([n for n in range(ROWS) if n not in spread])
    yield "texts changed all over", chat_rows(range(ROWS), spread)
    yield "rows replaced all over, text and image", chat_rows([fresh.get(n, n) for n in range(ROWS)])


def _written(rows: pl.DataFrame, images: ReleasedImages, folder: Path) -> dict[str, list[Path]]:
    ours = write_shards("chat", [rows], images, folder)
    peers: dict[str, list[Path]] = {"defaults": [], "chunking": []}
    for path in ours:
        for peer, paths in peers.items():
            paths.append(folder / f"{peer}-{path.name}")
            pq.write_table(pq.read_table(path), paths[-1], use_content_defined_chunking=peer == "chunking")
    return {"ours": ours} | peers


def _compared(change: str, old: dict[str, list[Path]], new: dict[str, list[Path]]) -> dict[str, Any]:
    shares = {name: round(uploaded_again(old[name], new[name]), 4) for name in new}
    row = {
        "bench": f"release: uploaded again, 1 % {change}",
        "n": ROWS,
        "peer": "pyarrow defaults, without and with content-defined chunking",
        "ours_share": shares["ours"],
        "peer_share": shares["defaults"],
        "peer_chunked_share": shares["chunking"],
    }
    print(json.dumps(row), flush=True)
    return row
