"""Wraps every flow that writes to a store: checks, a lock, one budget, a run record."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from functools import wraps

from flows.before_work import check_before_work
from flows.shown import show
from flows.task_runners import shards_by
from schemas.run import StageReport
from schemas.settings import Settings
from tasks.runtime.budget import one_ledger
from tasks.storage.lock import sweep, writing
from tasks.storage.run_record import keep_run_record
from tasks.storage.storage_errors import storage_errors

Stage = Callable[[Settings], list[StageReport]]


def one_writer(stage: Stage) -> Stage:
    """Decorator: lock the store while the flow runs. Raises BadInput when another process writes to it.

    Only the outermost flow checks the settings, starts the ledger (all stages share one budget) and writes the run
    record.
    """

    @wraps(stage)
    def held(settings: Settings) -> list[StageReport]:
        with one_ledger(settings.budget_usd, settings.prices) as outermost:
            if outermost:
                check_before_work(settings)
            return in_store(settings, outermost)

    def in_store(settings: Settings, outermost: bool) -> list[StageReport]:
        with writing(settings.store) as store, storage_errors(store):
            if outermost:
                sweep(store)
            with shards_by(settings):
                reports = stage(settings)
            if outermost:
                kept = store.read_bytes(keep_run_record(store, settings, reports, datetime.now(UTC)))
                show(settings, reports, json.loads(kept or b"{}"))
            return reports

    return held
