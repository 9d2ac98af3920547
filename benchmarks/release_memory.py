"""Peak memory of a release, stage by stage: joining the tables, shards, report, card, then `verify` and `diff`.

`python -m benchmarks.release_memory 200000 20000 1000000 100000` measures 200,000 conversations with 20,000 votes and a
million with 100,000, and prints both as a table, with what a conversation more adds to each stage.
"""

import json
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from benchmarks.release_store import decided_store

SIZES = ((5_000, 500), (50_000, 5_000))
"""Conversations and votes. A million take 12 GB of the disk of `TMPDIR`."""
EVERY_SECONDS = 0.1
STAGES = {
    "imports": ("pass",),
    "release": ("join(store)", "shards(store)", "report(store)", "seal(store)"),
    "verify": ("verify(store)",),
    "diff": ("diff(store)",),
}
"""Process -> what it does, one after the other, as a command does."""


def run() -> list[dict[str, Any]]:
    """One row a size: MB of every stage's peak."""
    return [_measured(*size) for size in SIZES]


def _measured(conversations: int, votes: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as name:
        decided_store(Path(name) / "store", conversations, votes)
        row: dict[str, Any] = {"bench": "release: peak memory, MB of proportional set size", "n": conversations}
        row["votes"] = votes
        for process, stages in STAGES.items():
            row |= _peaks(process, stages, Path(name) / "store")
    print(json.dumps(row), flush=True)
    return row


def _peaks(process: str, stages: tuple[str, ...], store: Path) -> dict[str, float]:
    """`<stage>_mb` and `<stage>_s`, the latter elapsed, of the stages of one process."""
    calls = "; ".join(f"print({stage.partition('(')[0]!r}, flush=True); {stage}" for stage in stages)
    code = f"from benchmarks.release_stages import *; store = {str(store)!r}; {calls}"
    found: dict[str, float] = {}
    with tempfile.TemporaryFile("w+") as told:
        worker = subprocess.Popen([sys.executable, "-c", code], stdout=told)
        began = time.perf_counter()
        while worker.poll() is None:
            told.seek(0)
            stage = (told.read().split() or [process])[-1].replace("pass", "imports")
            found[f"{stage}_mb"] = max(found.get(f"{stage}_mb", 0), tree_mb(worker.pid))
            found[f"{stage}_s"] = round(time.perf_counter() - began, 1)
            time.sleep(EVERY_SECONDS)
    if worker.returncode:
        raise RuntimeError(f"{process} ended with {worker.returncode}")
    return found


def _table(rows: list[dict[str, Any]]) -> str:
    """Peaks in MB of every size as Markdown, and below them bytes a conversation between the first and the last."""
    stages = [name for name in rows[0] if name.endswith("_mb")]
    first, last = rows[0], rows[-1]
    more = last["n"] - first["n"]
    lines = [["conversations", "votes", *(name.removesuffix("_mb") for name in stages)]]
    lines.append(["---"] * len(lines[0]))
    lines += [[f"{row['n']:,}", f"{row['votes']:,}", *(f"{row[name]:,}" for name in stages)] for row in rows]
    if more:
        slopes = [f"{(last[name] - first[name]) * 2**20 / more:,.0f}" for name in stages]
        lines.append(["bytes a conversation", "", *slopes])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def tree_mb(pid: int) -> int:
    """MB of a process and all below it; a page of memory that several hold counts for each in part."""
    kilobytes = 0
    with suppress(OSError):  # it ended meanwhile
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        kilobytes = sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        kilobytes += 1024 * sum(tree_mb(int(child)) for child in children)
    return kilobytes // 1024


if __name__ == "__main__":
    numbers = [int(each) for each in sys.argv[1:]]
    print(_table([_measured(*size) for size in zip(numbers[::2], numbers[1::2], strict=True)]))
