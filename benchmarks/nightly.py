"""What a night costs: a first run, a night with 1 % more lines, and a night with nothing new, stage by stage.

    python -m benchmarks.nightly                              # on a drawn arena: half an hour on two cores
    python -m benchmarks.nightly --logs LOGS --store STORE    # on a copy of a store that a run over LOGS has just made

Prints a Markdown table: seconds of every stage and of what lies outside of stages, and model calls.
"""

import json
import math
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from argparse import ArgumentParser, Namespace
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path

from tasks.demo.arena import generate_arena

SHARE = 0.01
CURATE = [sys.executable, "-c", "from flows.commands import main; main()"]
NEW = ("read_logs", "take_in_pictures", "catch_up_pictures", "screen_texts", "measure_redacted", "describe_texts",
       "measure_documents")  # fmt: skip
"""Stages that cost what is new; all others but the probes are over the whole set."""
PROBES = "canaries"


@dataclass
class Run:
    """One run of `curate run`."""

    stages: dict[str, float]
    """Seconds of each stage, repeated ones together."""
    calls: int
    """Model calls, those of the probes left out."""
    wall: float
    """Seconds of the whole command; 0 when only its record is known."""
    cpu: float
    """CPU seconds of the command and its server; 0 when only its record is known."""

    def of(self, kind: str) -> float:
        """Seconds of one kind of stages: `new`, `set` or `probes`."""
        kinds = {name: "new" if name in NEW else "probes" if name == PROBES else "set" for name in self.stages}
        return sum(seconds for name, seconds in self.stages.items() if kinds[name] == kind)

    @property
    def outside(self) -> float:
        """Seconds that are in no stage: start of Python, Prefect and its server, flows, artifacts, end."""
        return max(0.0, self.wall - sum(self.stages.values()))


def from_record(store: Path, wall: float = 0.0, cpu: float = 0.0) -> Run:
    """The newest run of a store."""
    record = json.loads(max((store / "runs").iterdir()).read_text())
    stages: dict[str, float] = {}
    for stage in record["stages"]:
        stages[stage["stage"]] = stages.get(stage["stage"], 0.0) + stage["seconds"]
    calls = sum(sum(stage["model_calls"].values()) for stage in record["stages"] if stage["stage"] != PROBES)
    return Run(stages, calls, wall, cpu)


def curate(logs: Path, store: Path) -> Run:
    """One run, by the command line."""
    began, before = time.perf_counter(), _cpu_seconds()
    subprocess.run([*CURATE, "run", "--logs", str(logs), "--store", str(store)], check=True, stdout=sys.stderr)
    return from_record(store, time.perf_counter() - began, _cpu_seconds() - before)


def _cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def lines_of(logs: Path) -> int:
    """Lines of all log files."""
    return sum(path.read_bytes().count(b"\n") for path in logs.glob("*-conv.json"))


def add_a_day(logs: Path, count: int) -> None:
    """One more log file, of the day after the last, with lines, texts and pictures that nothing in the logs holds."""
    last = max(path.name.removesuffix("-conv.json")[-10:] for path in logs.glob("*-conv.json"))
    with tempfile.TemporaryDirectory() as folder:
        generate_arena(Path(folder), conversations=count, battles=count // 4, seed=99, images_max=count, problems=False)
        drawn = Path(folder) / "logs"
        lines = [line for path in sorted(drawn.glob("vision-tmp-*")) for line in path.read_bytes().splitlines(True)]
        day = date.fromisoformat(last) + timedelta(days=1)
        (logs / f"vision-tmp-{day}-conv.json").write_bytes(b"".join(lines[-count:]))
        for picture in (drawn / "serve_images").iterdir():
            shutil.copy2(picture, logs / "serve_images")


def measured(given: Namespace, folder: Path) -> tuple[int, list[Run]]:
    """Lines of the first run, and the three runs."""
    logs, store = folder / "arena" / "logs", folder / "store"
    if given.logs is None:
        generate_arena(folder / "arena", conversations=600, battles=400)
        first = curate(logs, store)
    else:
        shutil.copytree(given.logs.parent, folder / "arena")
        shutil.copytree(given.store, store)
        first = from_record(store)
    lines = lines_of(logs)
    add_a_day(logs, math.ceil(SHARE * lines))
    return lines, [first, curate(logs, store), curate(logs, store)]


def table(lines: int, runs: list[Run]) -> str:
    """The figures as Markdown; a share is of the first run's stages that cost what is new."""
    rows = [f"| {lines:,} lines | first run, s | 1 % more, s | nothing new, s |", "|---|---|---|---|"]
    for name in runs[0].stages:
        rows.append(f"| {name} | " + " | ".join(f"{run.stages.get(name, 0.0):.1f}" for run in runs) + " |")
    for title, kind in (("stages that cost what is new", "new"), ("stages over the set", "set"), ("probes", "probes")):
        rows.append(f"| **{title}** | " + " | ".join(f"{run.of(kind):.1f}" for run in runs) + " |")
    for title, name in (("outside of stages", "outside"), ("wall", "wall"), ("CPU", "cpu")):
        cells = [f"{getattr(run, name):.1f}" if run.wall else "-" for run in runs]
        rows.append(f"| **{title}** | " + " | ".join(cells) + " |")
    rows.append("| **model calls** | " + " | ".join(f"{run.calls:,}" for run in runs) + " |")
    share = [f"{run.of('new') / runs[0].of('new'):.1%}" for run in runs]
    rows.append("| share of the first run's cost of what is new | " + " | ".join(share) + " |")
    return "\n".join(rows)


if __name__ == "__main__":
    options = ArgumentParser(description=__doc__)
    options.add_argument("--logs", type=Path, help="log folder of --store; its folder is copied")
    options.add_argument("--store", type=Path, help="a store that a run over --logs made")
    with tempfile.TemporaryDirectory() as place:
        print(table(*measured(options.parse_args(), Path(place))))
