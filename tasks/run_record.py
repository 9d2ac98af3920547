"""The record of a run: settings, what every stage did, where the lines went. Kept in the store's `runs` folder."""

import json
from collections.abc import Sequence
from datetime import datetime

from schemas.run import Funnel, StageReport
from schemas.settings import Settings
from tasks.tables import Store

_PATHS = {"store", "logs", "images", "presets", "known_hashes", "prices"}
"""Settings that name places on the machine."""


def keep_run_record(
    store: Store, settings: Settings, reports: Sequence[StageReport], gone: Funnel, now: datetime
) -> str:
    """Write the record; returns its path relative to the store. Machine paths are left out of it."""
    record = {
        "finished_at": now.isoformat(timespec="seconds"),
        "settings": settings.model_dump(
            mode="json", exclude={"store", "logs", "images", "presets", "known_hashes", "prices"}
        ),
        "stages": [report.model_dump(mode="json") for report in reports],
        "funnel": gone.model_dump(mode="json"),
    }
    path = f"runs/{now:%Y%m%dT%H%M%S}Z.json"
    store.write_bytes(path, json.dumps(record, indent=2).encode())
    return path
