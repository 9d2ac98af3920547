"""The record of a run: settings, state, reports of the stages and the funnel. Kept in the store's `runs` folder."""

import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import Any

from schemas.errors import CurateError, StoreUnwell
from schemas.run import DropCounts, StageReport
from schemas.settings import Settings
from tasks.storage.audit import last_entry
from tasks.storage.queries.funnel import funnel
from tasks.storage.tables import Store

_FOLDER = "runs"
_PLACES = {
    "config",
    "environment",
    "store",
    "logs",
    "images",
    "presets",
    "known_hashes",
    "prices",
    "prompts",
    "task_runner_address",
}
_PLACES_TO_EVALUATE = {"models", "judge", "bench_release", "submission"}
"""Settings that are left out because they are paths or addresses."""
_LEFT_OUT: dict[str, Any] = {**dict.fromkeys(_PLACES, True), "evaluate": _PLACES_TO_EVALUATE}
RUNNING, COMPLETED, HELD, FAILED, KILLED = "running", "completed", "held", "failed", "killed"
"""States of a run; `killed` is written by the next run."""


class RunRecord:
    """The record of a running run: written again after every stage, so that a killed run leaves what it did.

    Its file is named by `started`. The funnel is recorded only when a release was made, because not every line has a
    outcome before.
    """

    def __init__(self, store: Store, settings: Settings, started: datetime) -> None:
        self.store, self.settings, self.started = store, settings, started
        self.reports: list[StageReport] = []
        self.write(RUNNING)

    def add(self, report: StageReport) -> None:
        """Add the report of a stage that ended."""
        self.reports.append(report)
        self.write(RUNNING)

    def write(self, state: str, error: str | None = None) -> None:
        """Write the record in this state."""
        released = state == COMPLETED and bool(self.reports and self.reports[-1].result.startswith("releases/"))
        record = {
            "started_at": self.started.isoformat(timespec="seconds"),
            "finished_at": None if state == RUNNING else datetime.now(UTC).isoformat(timespec="seconds"),
            "state": state,
            "error": error,
            "settings": self.settings.model_dump(mode="json", exclude=_LEFT_OUT),
            "stages": [report.model_dump(mode="json") for report in self.reports],
            "funnel": funnel(self.store).model_dump(mode="json") if released else None,
            "audit": None if state == RUNNING else last_entry(self.store),
        }
        path = f"{_FOLDER}/{self.started:%Y%m%dT%H%M%S}Z.json"
        self.store.write_bytes(path, json.dumps(record, indent=2).encode())


@contextmanager
def run_record(store: Store, settings: Settings) -> Iterator[RunRecord]:
    """The record of the run inside. It ends as completed, held or failed; an earlier one that never ended is killed."""
    _end_killed(store)
    record = RunRecord(store, settings, datetime.now(UTC))
    try:
        yield record
    except BaseException as error:
        with suppress(Exception):  # the store may be full or gone
            record.write(HELD if getattr(error, "exit_status", None) == 3 else FAILED, _without_places(error, settings))
        raise
    record.write(COMPLETED)


def _end_killed(store: Store) -> None:
    for path in record_paths(store)[-1:]:
        record = _read(store, path)
        if record["state"] == RUNNING:
            store.write_bytes(path, json.dumps(record | {"state": KILLED}, indent=2).encode())


def _without_places(error: BaseException, settings: Settings) -> str:
    """The error's line without paths and addresses; only its class when it is none of ours."""
    text = str(error) if isinstance(error, CurateError) else type(error).__name__
    given = {name: getattr(settings, name) for name in _PLACES - {"known_hashes"}}
    for name, place in (given | {name: getattr(settings.evaluate, name) for name in _PLACES_TO_EVALUATE}).items():
        text = text.replace(place or "\0", name)
    return text


def run_records(store: Store) -> list[dict[str, Any]]:
    """Every record, oldest first; raises `StoreUnwell` for one that cannot be read."""
    return [_read(store, path) for path in record_paths(store)]


def _read(store: Store, path: str) -> dict[str, Any]:
    try:
        record = json.loads(store.read_bytes(path) or b"")
        return {**record, "stages": [*record["stages"]]}
    except (ValueError, KeyError, TypeError):
        raise StoreUnwell(f"store {store.root!r} is damaged: {path} is no record of a run; delete it") from None


def latest_run_record(store: Store) -> str:
    """Path of the newest record, relative to the store."""
    return record_paths(store)[-1]


def earlier_drops(store: Store) -> list[DropCounts]:
    """Drop counts of earlier runs, oldest first; stages without drop counts are skipped."""
    stages = [stage for record in run_records(store) for stage in record["stages"]]
    return [DropCounts(**stage["drops"]) for stage in stages if stage.get("drops")]


def record_paths(store: Store) -> list[str]:
    """Paths of all records, relative to the store, oldest first."""
    return sorted(path.removeprefix(f"{store.path}/") for path in store.fs.find(store.at(_FOLDER)))
