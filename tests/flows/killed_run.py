"""A run in its own process that kills itself at a chosen change of its store, like a power cut.

The process is forked from a server that has already imported the libraries, so that a run starts quickly.
"""

import multiprocessing
import os
import re
import signal
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.context import ForkServerContext
from pathlib import Path
from typing import Any, NamedTuple

from schemas.settings import Settings
from tests.disk_steps import step_of

_NAMES_THAT_DIFFER = re.compile(r"[0-9a-f]{20}(-\d+-\d+)?|\.\d+\.tmp|\d{8}T\d{6}Z")
"""Names of parts with their sizes, process numbers and times."""
_PRELOAD = [
    "schemas.tables", "schemas.settings", "schemas.release", "schemas.policy", "schemas.run", "schemas.upkeep",
    "schemas.asked_model", "tasks.prompts", "prefect", "prefect.flow_engine",
    "prefect.task_engine", "openai", "numba", "scipy.stats", "sklearn.linear_model", "cv2",
    "huggingface_hub", "rapidocr.main", "onnxruntime", "bpe_openai", "profanity_check.profanity_check", "datasets",
    "hdbscan", "phonenumbers", "prefect.artifacts",
]  # fmt: skip
"""Modules imported before the fork. None may import polars, whose threads do not survive a fork."""


class Change(NamedTuple):
    """One change of a store's files: what is done to which kind of file."""

    kind: str
    place: str
    """Path below the store, with a star for parts of names that differ between runs."""


class KillAt(NamedTuple):
    """When to kill the run: before the `number`-th such change (from 1); `torn` leaves half a file."""

    change: Change
    number: int
    torn: bool


class _Watch:
    """An audit hook: it sees every change that Python makes to files, whichever library asked for it."""

    def __init__(self, store: str, kill_at: KillAt | None, seen: Any) -> None:
        self._store, self._kill_at, self._seen = store.rstrip("/") + "/", kill_at, seen
        self._counts: Counter[Change] = Counter()

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        step = step_of(event, arguments)
        if step is None or step.kind == "read" or not step.path.startswith(self._store):
            return
        path = step.path
        change = Change(step.kind, _NAMES_THAT_DIFFER.sub("*", path.removeprefix(self._store)))
        self._counts[change] += 1
        if self._seen is not None:
            os.write(self._seen, f"{change.kind} {change.place}\n".encode())
        wanted = self._kill_at
        if wanted is not None and change == wanted.change and self._counts[change] >= wanted.number:
            self._die(path, change.kind == "write" and wanted.torn)

    def _die(self, path: str, torn: bool) -> None:
        self._kill_at = None
        if torn and Path(path).parent.is_dir():
            Path(path).write_bytes(b"PAR1 half a file")
        os.killpg(0, signal.SIGKILL)


@contextmanager
def fork_server() -> Iterator[ForkServerContext]:
    """Where runs are forked from."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(_PRELOAD)
    yield context
    from multiprocessing import forkserver

    forkserver._forkserver._stop()


def run(context: ForkServerContext, api: str, settings: Settings, kill_at: KillAt | None, log: Path) -> int:
    """`curate` with these settings. Returns the process's exit code.

    The changes it made are lines of `log`; after a release, all modules that the run and its check loaded are those of
    `log` with `.modules`.
    """
    environment = {name: value for name, value in os.environ.items() if name.startswith(("CURATE_", "OPENAI_"))}
    process = context.Process(target=_curate, args=(api, environment, settings.model_dump(), kill_at, str(log)))
    process.start()
    process.join(600)
    if process.exitcode is None:
        process.kill()
        process.join()
    return int(process.exitcode or 0)


def _curate(api: str, environment: dict[str, str], values: dict[str, Any], kill_at: KillAt | None, log: str) -> None:
    os.setsid()
    os.environ |= environment
    from prefect.settings import (
        PREFECT_API_URL,
        PREFECT_FLOWS_HEARTBEAT_FREQUENCY,
        PREFECT_LOGGING_LEVEL,
        temporary_settings,
    )

    from flows.curate import curate

    settings = Settings(**values)
    sys.addaudithook(_Watch(settings.store, kill_at, os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)))
    own = {PREFECT_API_URL: api, PREFECT_FLOWS_HEARTBEAT_FREQUENCY: None, PREFECT_LOGGING_LEVEL: "CRITICAL"}
    with temporary_settings(own):
        release = curate(settings)[-1].result
    import tasks.publish.steps  # noqa: F401 - what comes after a release
    from flows.products import problems_of

    assert problems_of(Path(settings.store) / str(release)) == []
    Path(f"{log}.modules").write_text("\n".join(sys.modules))
