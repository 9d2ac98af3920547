"""Measures two ways of doing one thing, in turn, and writes the ratio of their medians."""

import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).with_name("results.jsonl")
ROUNDS = 3


def compare(
    bench: str,
    n: int,
    ours: Callable[[], object],
    peer: str,
    theirs: Callable[[], object],
    peer_times: float = 1,
    **more: Any,
) -> dict[str, Any]:
    """Run ours and theirs in turn, A B A B A B, after one warm-up of ours; ratio = theirs / ours in CPU seconds.

    CPU seconds, because machines are shared; `wall_ratio` is the same of elapsed time. `ours_s` and
    `peer_s` are medians. A peer that was measured on a
    share of the work has its seconds multiplied by `peer_times`.
    """
    ours()
    seconds: dict[str, list[float]] = {"ours": [], "peer": []}
    elapsed: dict[str, list[float]] = {"ours": [], "peer": []}
    for _ in range(ROUNDS):
        for name, work in (("ours", ours), ("peer", theirs)):
            started, began = time.process_time(), time.perf_counter()
            work()
            seconds[name].append(time.process_time() - started)
            elapsed[name].append(time.perf_counter() - began)
    mine, other = statistics.median(seconds["ours"]), statistics.median(seconds["peer"]) * peer_times
    row = {
        "bench": bench,
        "n": n,
        "ours_s": round(mine, 4),
        "peer": peer,
        "peer_s": round(other, 4),
        "ratio": round(other / max(mine, 1e-9), 2),
        "wall_ratio": round(statistics.median(elapsed["peer"]) * peer_times / statistics.median(elapsed["ours"]), 2),
        **more,
    }
    print(json.dumps(row), flush=True)
    return row


def write(rows: list[dict[str, Any]]) -> None:
    """All rows of a run, one JSON object a line."""
    RESULTS.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
