"""Wraps every flow that writes to a store: checks, a lock, one budget, a run record, log lines and artifacts."""

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from functools import wraps
from typing import cast

from prefect import tags
from prefect.runtime import deployment, flow_run
from prefect.states import Running

from flows.before_work import checked
from flows.run_names import ended
from flows.shown import Shown, show_state
from flows.task_runners import shards_by
from schemas.errors import CurateError, StoreBusy
from schemas.run import StageReport
from schemas.settings import Settings
from tasks.runtime.budget import one_ledger
from tasks.runtime.progress import WATCHERS
from tasks.storage.lock import sweep, writing
from tasks.storage.reviews import take_in
from tasks.storage.run_record import RunRecord, run_record
from tasks.storage.storage_errors import storage_errors
from tasks.storage.tables import Store

WAIT_SECONDS = 10.0
"""Time between two attempts of a waiting run to lock its store."""
_running: list[tuple[RunRecord, Shown]] = []
"""The outermost run of this process, if there is one."""


def one_writer(stage: Callable[[Settings], Iterable[StageReport]]) -> Callable[[Settings], list[StageReport]]:
    """Decorator: lock the store while the flow runs. Raises StoreBusy when another process writes to it.

    The run of a deployment waits for that process instead. The flow yields the report of each stage that ends, which is
    then recorded and shown. Only the outermost flow checks the settings, starts the ledger (all stages share one
    budget), opens the run record, gives an error its state and tags the runs of inner flows as its own.
    """

    @wraps(stage)
    def held(settings: Settings) -> list[StageReport]:
        with one_ledger(settings.budget_usd, settings.prices) as outermost:
            try:
                return work(settings, outermost)
            except CurateError as error:
                if not outermost:
                    raise
                return cast(list[StageReport], ended(error))

    def work(settings: Settings, outermost: bool) -> list[StageReport]:
        with (
            checked(settings) if outermost else nullcontext(),
            _locked(settings.store) as store,
            storage_errors(store),
            tags(*flow_run.tags),
        ):
            if outermost:
                sweep(store)
                take_in(store)
            with _run(store, settings) if outermost else nullcontext(), shards_by(settings):
                return _ended(store, stage(settings))

    return held


@contextmanager
def _locked(root: str) -> Iterator[Store]:
    """Lock the store; the run of a deployment, for which nobody waits, does so as soon as it is free."""
    with ExitStack() as stack:
        try:
            store = stack.enter_context(writing(root))
        except StoreBusy as busy:
            if deployment.id is None:
                raise
            show_state(Running(name="Waiting", message=str(busy)))
            store = _freed(stack, root)
            show_state(Running())
        yield store


def _freed(stack: ExitStack, root: str) -> Store:
    while True:
        time.sleep(WAIT_SECONDS)
        with suppress(StoreBusy):
            return stack.enter_context(writing(root))


@contextmanager
def _run(store: Store, settings: Settings) -> Iterator[None]:
    with run_record(store, settings) as record:
        shown = Shown(settings)
        _running.append((record, shown))
        WATCHERS.append(shown.progress)
        try:
            yield
        finally:
            _running.clear()
            WATCHERS.clear()
    shown.release(store, record.reports)


def _ended(store: Store, stages: Iterable[StageReport]) -> list[StageReport]:
    """The reports, each recorded and shown as its stage ends; not those of probes, which have a store of their own."""
    reports = []
    for report in stages:
        reports.append(report)
        for record, shown in _running:
            if record.store.root == store.root and report not in record.reports:
                record.add(report)
                shown.stage(record.reports)
    return reports
