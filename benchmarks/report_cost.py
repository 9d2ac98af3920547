"""The report's share of a whole run of the demo's arena, and whether it is the same twice.

`python -c "from benchmarks import report_cost; report_cost.run()"`. CPU seconds, user and system.
"""

import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.end_to_end import CURATE
from tasks.demo.arena import generate_arena

CONVERSATIONS, BATTLES = 600, 400
"""As `make demo` draws."""
SHARE_MAX = 0.03
"""Goal."""
_WRITE = "import sys; from benchmarks.report_cost import write; write(*sys.argv[1:])"


def run(conversations: int = CONVERSATIONS, battles: int = BATTLES) -> dict[str, Any]:
    """CPU seconds of the report, and of the run that it is the end of."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        generate_arena(folder / "arena", conversations=conversations, battles=battles)
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        command = [*CURATE, "--logs", folder / "arena" / "logs", "--store", folder / "store"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        whole = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        reports = [folder / "first", folder / "second"]
        spent = [_spent(folder / "store", report) for report in reports]
        contents = [{path.name: path.read_bytes() for path in sorted(each.rglob("*.*"))} for each in reports]
        row = {"bench": "report, share of a run", "n": conversations + battles, "ours_s": round(min(spent), 2)}
        row |= {"run_s": round(whole, 1), "share": round(min(spent) / whole, 4), "goal_share": SHARE_MAX}
        row |= {"same_bytes": contents[0] == contents[1], "figures": len(list(reports[0].rglob("*.svg")))}
        row |= {"page_mb": round(len(contents[0]["index.html"]) / 1e6, 3)}
    print(row, flush=True)
    return row


def write(store: str, folder: str) -> None:
    """Write the report of a store, and print the CPU seconds of that, its libraries included."""
    from tasks.providers import Providers
    from tasks.signals.steps import signal_versions
    from tasks.storage.tables import Store

    versions, opened = signal_versions(Providers()), Store.existing(store)
    began = time.process_time()
    from tasks.report.content import report_content
    from tasks.report.page import write_report

    about = {"first_day": "", "last_day": "", "policy": "", "policy_hash": "", "embedded": []}
    write_report(Path(folder), report_content(opened, versions), about)
    print(time.process_time() - began)


def _spent(store: Path, folder: Path) -> float:
    done = subprocess.run([sys.executable, "-c", _WRITE, store, folder], check=True, capture_output=True, text=True)
    return float(done.stdout)
