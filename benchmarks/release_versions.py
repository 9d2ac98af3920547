"""Share of bytes that the next version of a release uploads, by content-defined chunks as the Hub cuts them."""

import json
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow.parquet as pq

from benchmarks.release_rows import chat_rows, image_store
from benchmarks.xet_chunks import uploaded_again
from tasks.release.shards import ReleasedImages, write_shards

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
