"""A whole run beside a plain script of the same libraries and models; the next night; a night with 1 % new lines.

    python -m benchmarks.demo.end_to_end [LOGS]    # a FastChat log folder; by default real logs, or a drawn arena

CPU seconds (user and system) of whole processes with their children, because machines are shared. `ratio` is the
script's seconds over ours, so the goals are 0.9 for the first run and 10 for the others. `written_share` is the
share of a release that the last night wrote; its goal is 0.15, and it is near 1 in a night that fits topics anew.
"""

import math
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import date, timedelta
from pathlib import Path
from typing import Any

from benchmarks.release_rows import written_share
from benchmarks.timing import write
from tasks.demo.arena import generate_arena

NEW_LINES = 0.01
REAL_LOGS = Path(__file__).parents[3] / "shared" / "data" / "arena-logs" / "logs"
"""Used by default where it is present; otherwise an arena is drawn."""
CURATE = [sys.executable, "-c", "from flows.commands import main; main()", "run"]
SCRIPT = [sys.executable, "-m", "benchmarks.plain_script"]


def run(logs: Path | None = None) -> list[dict[str, Any]]:
    """The script once, then three runs over one store."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        arena = folder / "arena" / "logs"
        logs = logs or (REAL_LOGS if REAL_LOGS.is_dir() else None)
        if logs is None:
            generate_arena(arena.parent, conversations=600, battles=400)
        else:
            shutil.copytree(logs.parent, arena.parent)
        lines, curate = _lines(arena), [*CURATE, "--logs", str(arena), "--store", str(folder / "store")]
        script = _spent([*SCRIPT, str(arena), str(folder / "script")])
        runs = {"first run": _spent(curate), "second run, nothing new": _spent(curate)}
        images = len(list((arena / "serve_images").iterdir()))
        _add_a_day(arena, math.ceil(NEW_LINES * lines), math.ceil(NEW_LINES * images))
        runs["1 % new lines"] = _spent(curate)
        share = written_share(
            *sorted((folder / "store" / "releases").iterdir(), key=lambda each: each.stat().st_mtime)[-2:]
        )
    rows = [_row(name, lines, ours, script) for name, ours in runs.items()]
    return [*rows[:-1], rows[-1] | {"written_share": round(share, 3)}]


def _row(name: str, lines: int, ours: tuple[float, float], script: tuple[float, float]) -> dict[str, Any]:
    return {
        "bench": f"end to end: {name}",
        "n": lines,
        "ours_s": round(ours[0], 1),
        "peer": "a plain script of the same libraries and models, one pass",
        "peer_s": round(script[0], 1),
        "ratio": round(script[0] / ours[0], 2),
        "ours_elapsed_s": round(ours[1], 1),
        "peer_elapsed_s": round(script[1], 1),
    }


def _spent(command: Sequence[str]) -> tuple[float, float]:
    """CPU and elapsed seconds of a command."""
    before, began = _cpu_seconds(), time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return _cpu_seconds() - before, time.perf_counter() - began


def _cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _lines(logs: Path) -> int:
    return sum(path.read_bytes().count(b"\n") for path in logs.glob("*-conv.json"))


def _add_a_day(logs: Path, count: int, images: int) -> None:
    """One more log file, of the day after the last, with lines, texts and images that nothing in the logs holds."""
    last = max(path.name.removesuffix("-conv.json")[-10:] for path in logs.glob("*-conv.json"))
    with tempfile.TemporaryDirectory() as place:
        generate_arena(Path(place), conversations=count, battles=count // 4, seed=99, images_max=images, problems=False)
        drawn = Path(place) / "logs"
        lines = [line for path in sorted(drawn.glob("vision-tmp-*")) for line in path.read_bytes().splitlines(True)]
        day = date.fromisoformat(last) + timedelta(days=1)
        (logs / f"vision-tmp-{day}-conv.json").write_bytes(b"".join(lines[-count:]))
        for image in (drawn / "serve_images").iterdir():
            shutil.copy2(image, logs / "serve_images")


if __name__ == "__main__":
    write(run(Path(sys.argv[1]) if len(sys.argv) > 1 else None))
