"""Times our code and its peers alternately and gives the ratio of their medians."""

import json
import statistics
import time
from collections.abc import Callable, Mapping
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
    """`compare_all` with one peer."""
    return compare_all(bench, n, ours, {peer: theirs}, peer_times, **more)[0]


def compare_all(
    bench: str,
    n: int,
    ours: Callable[[], object],
    peers: Mapping[str, Callable[[], object]],
    peer_times: float = 1,
    before: Callable[[], object] = lambda: None,
    **more: Any,
) -> list[dict[str, Any]]:
    """Run ours and the peers alternately, A B C A B C A B C, after one warm-up of ours; one row per peer.

    ratio = theirs / ours in CPU seconds, because machines are shared; `wall_ratio` is the same for elapsed time.
    `ours_s` and `peer_s` are medians. For peers measured on a part of the work, seconds are multiplied by
    `peer_times`. The time of `before`, which runs before each, is not counted.
    """
    before()
    ours()
    spent: dict[str, list[tuple[float, float]]] = {"": [], **{peer: [] for peer in peers}}
    for _ in range(ROUNDS):
        for name, work in {"": ours, **peers}.items():
            before()
            started, began = time.process_time(), time.perf_counter()
            work()
            spent[name].append((time.process_time() - started, time.perf_counter() - began))
    medians = {name: [statistics.median(each) for each in zip(*times, strict=True)] for name, times in spent.items()}
    rows = [_row(bench, n, peer, medians[""], [each * peer_times for each in medians[peer]]) | more for peer in peers]
    for row in rows:
        print(json.dumps(row), flush=True)
    return rows


def _row(bench: str, n: int, peer: str, ours: list[float], theirs: list[float]) -> dict[str, Any]:
    return {
        "bench": bench,
        "n": n,
        "ours_s": round(ours[0], 4),
        "peer": peer,
        "peer_s": round(theirs[0], 4),
        "ratio": round(theirs[0] / max(ours[0], 1e-9), 2),
        "wall_ratio": round(theirs[1] / max(ours[1], 1e-9), 2),
    }


def write(rows: list[dict[str, Any]]) -> None:
    """Write rows as one JSON object per line. Rows of benchmarks that did not run stay as they are."""
    kept = [json.loads(line) for line in RESULTS.read_text("utf-8").splitlines()] if RESULTS.exists() else []
    measured = {row["bench"] for row in rows}
    kept = [row for row in kept if row["bench"] not in measured]
    RESULTS.write_text("".join(json.dumps(row) + "\n" for row in [*kept, *rows]), encoding="utf-8")
