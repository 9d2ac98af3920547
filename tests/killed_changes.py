"""Changes of an arena's operator that are killed before each step on the disk; one process for each step.

    python -m tests.killed_changes FOLDER SEED [beside]

FOLDER gets a folder of logs for each step, `first-N` and `second-N`: the first change of an arena, or the second one,
was killed before step N. The change is drawn by the seed. In the folders with the highest numbers nothing was killed.
With `beside`, another process had the folder open all the time, and looks at its audit log afterwards.
"""

import os
import signal
import sys
from collections.abc import Callable
from itertools import count
from pathlib import Path
from random import Random

from schemas.asked_model import ArenaModel
from tasks.arena.admin.steering import Steering

STEPS = {"open", "os.rename", "os.link", "os.remove", "os.mkdir", "os.listdir", "os.scandir", "fcntl.flock"}
"""What Python tells before it does it."""
CHANGES: dict[str, Callable[[Steering], None]] = {
    "paused ant": lambda steering: steering.pause("ant", True),
    "weight 2 for bee": lambda steering: steering.weigh("bee", 2),
    "budget of $3.00 a day": lambda steering: steering.limit(3),
    "languages: de, en": lambda steering: steering.speak(["de", "en"]),
    "model cat at http://h": lambda steering: steering.serve(ArenaModel(name="cat", base_url="http://h")),
}
"""What the audit log says -> the change."""
BEFORE = "paused dog"
"""The change before the second one."""


def _killed(folder: Path, change: Callable[[Steering], None], step: int) -> bool:
    """Whether a process that makes a change was killed before its step of this number."""
    child = os.fork()
    if child:
        _, status = os.waitpid(child, 0)
        if not os.WIFSIGNALED(status) and status:
            raise ChildProcessError(f"step {step}: the change ended with {status}")
        return os.WIFSIGNALED(status)
    steps = count(1)

    def watch(event: str, _: object) -> None:
        if event in STEPS and next(steps) == step:
            os.kill(os.getpid(), signal.SIGKILL)

    status = 1
    try:
        steering = Steering(folder)
        sys.addaudithook(watch)
        change(steering)
        status = 0
    finally:
        os._exit(status)


def main(place: Path, seed: int, beside: bool) -> None:
    """Kill a drawn change at each of its steps."""
    rng = Random(seed)
    for kind in ("first", "second"):
        for step in count(1):
            folder = place / f"{kind}-{step}"
            folder.mkdir()
            if kind == "second":
                Steering(folder).pause("dog", True)
            running = Steering(folder)
            was_killed = _killed(folder, CHANGES[rng.choice(sorted(CHANGES))], step)
            if beside:
                running.audited()
                (folder / "seen.json").write_text(running.now().model_dump_json())
            if not was_killed:
                break


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3:] == ["beside"])
