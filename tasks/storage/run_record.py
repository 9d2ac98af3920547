"""The record of a run: settings, reports of the stages and the funnel. Kept in the store's `runs` folder."""

import json
from collections.abc import Sequence
from datetime import datetime

from schemas.run import DropCounts, StageReport
from schemas.settings import Settings
from tasks.storage.queries.funnel import funnel
from tasks.storage.tables import Store

_FOLDER = "runs"
_PLACES = {"store", "logs", "images", "presets", "known_hashes", "prices", "task_runner_address"}
"""Settings that are left out because they are paths or addresses."""


def keep_run_record(store: Store, settings: Settings, reports: Sequence[StageReport], now: datetime) -> str:
    """Write the record; returns its path relative to the store.

    The funnel is recorded only when a release was made, because not every line has a fate before.
    """
    released = bool(reports and reports[-1].result)
    record = {
        "finished_at": now.isoformat(timespec="seconds"),
        "settings": settings.model_dump(mode="json", exclude=_PLACES),
        "stages": [report.model_dump(mode="json") for report in reports],
        "funnel": funnel(store).model_dump(mode="json") if released else None,
    }
    path = f"{_FOLDER}/{now:%Y%m%dT%H%M%S}Z.json"
    store.write_bytes(path, json.dumps(record, indent=2).encode())
    return path


def latest_run_record(store: Store) -> str:
    """Path of the newest record, relative to the store."""
    return _paths(store)[-1]


def earlier_drops(store: Store) -> list[DropCounts]:
    """Drop counts of earlier runs, oldest first; stages without drop counts are skipped."""
    stages = [stage for path in _paths(store) for stage in json.loads(store.read_bytes(path) or b"{}")["stages"]]
    return [DropCounts(**stage["drops"]) for stage in stages if stage.get("drops")]


def _paths(store: Store) -> list[str]:
    return sorted(path.removeprefix(f"{store.path}/") for path in store.fs.find(store.at(_FOLDER)))
