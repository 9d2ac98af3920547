"""Peak memory of a release by stage: joining the tables, shards, report, card, then `verify` and `diff`.

`python -m benchmarks.release_memory 200000 20000 1000000 100000` measures 200,000 conversations with 20,000 votes and a
million with 100,000, and prints a table with the bytes that each further conversation adds. Without sizes, the rows of
`results.jsonl` are written.
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
from benchmarks.timing import write

SIZES = ((5_000, 500), (20_000, 2_000))
"""Conversations and votes. A million take 12 GB of the disk of `TMPDIR`."""
EVERY_SECONDS = 0.1
STAGES = {
    "imports": ("pass",),
    "release": ("join(store)", "shards(store)", "report(store)", "seal(store)"),
    "verify": ("verify(store)",),
    "diff": ("diff(store)",),
}
"""Process -> the stages that it runs one after the other."""


def run() -> list[dict[str, Any]]:
    """Peak MB of every stage, one row for each size."""
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
    """`<stage>_mb` (peak) and `<stage>_s` (seconds since the process started) of the stages of one process."""
    names = [process] if stages == ("pass",) else [stage.partition("(")[0] for stage in stages]
    calls = "; ".join(f"print({stage.partition('(')[0]!r}, flush=True); {stage}" for stage in stages)
    code = f"from benchmarks.release_stages import *; store = {str(store)!r}; {calls}"
    found: dict[str, float] = {}
    with tempfile.TemporaryFile("w+") as told:
        worker = subprocess.Popen([sys.executable, "-c", code], stdout=told)
        began = time.perf_counter()
        while worker.poll() is None:
            told.seek(0)  # stages print their names; other output is ignored
            stage = [names[0], *(word for word in told.read().split() if word in names)][-1]
            found[f"{stage}_mb"] = max(found.get(f"{stage}_mb", 0), tree_mb(worker.pid))
            found[f"{stage}_s"] = round(time.perf_counter() - began, 1)
            time.sleep(EVERY_SECONDS)
    if worker.returncode:
        raise RuntimeError(f"{process} ended with {worker.returncode}")
    return found


def _table(rows: list[dict[str, Any]]) -> str:
    """Peaks in MB as a Markdown table; the last row has bytes a conversation, from the first and the last size."""
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
    """Proportional set size in MB of a process and its children."""
    kilobytes = 0
    with suppress(OSError):  # it ended meanwhile
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        kilobytes = sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        kilobytes += 1024 * sum(tree_mb(int(child)) for child in children)
    return kilobytes // 1024


if __name__ == "__main__":
    numbers = [int(each) for each in sys.argv[1:]]
    if numbers:
        print(_table([_measured(*size) for size in zip(numbers[::2], numbers[1::2], strict=True)]))
    else:
        write(run())
