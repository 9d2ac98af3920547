"""Prefect's `flow`, but errors are one clear line, runs have names and states, and one run at a time writes to a store.

Such a run is checked, has a lock, one budget, a run record, log lines (one a stage) and artifacts, which have counts
only, no items or texts.
"""

import json
import logging
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from datetime import UTC, datetime
from functools import wraps
from typing import Any, ParamSpec, TypeVar, cast
from uuid import UUID

import httpx
import prefect
from prefect import tags
from prefect.artifacts import create_markdown_artifact, create_progress_artifact, create_table_artifact
from prefect.client.orchestration import get_client
from prefect.client.schemas.actions import ArtifactUpdate
from prefect.client.schemas.objects import State
from prefect.context import FlowRunContext
from prefect.events import emit_event
from prefect.logging import get_run_logger
from prefect.runtime import deployment, flow_run
from prefect.settings import PREFECT_API_URL
from prefect.states import Failed, Running

from flows.before_work import checked
from flows.running.killed_runs import give_back, holder_tag, take_over, tell_killed
from flows.running.log_lines import log_as_asked
from flows.running.prefect_server import await_server, check_server
from flows.running.run_names import name_of, name_scheduled
from flows.running.settings_file import in_force
from flows.running.task_runners import shards_by
from schemas.errors import CurateError, StoreBusy
from schemas.run import StageReport
from schemas.settings import THREADS, Settings
from schemas.upkeep import Audited
from tasks.prompts import replaced_prompts
from tasks.runtime.budget import in_run, ledger, one_ledger
from tasks.runtime.progress import WATCHERS, tell
from tasks.storage.lock import remove_leftovers, storage_errors, writing
from tasks.storage.records import RunRecord, add_audit_entry, latest_run_record, run_record, run_records
from tasks.storage.reviews import take_in_journal
from tasks.storage.tables import Store
from tasks.upkeep.standing import month_limits

P = ParamSpec("P")
R = TypeVar("R")


class CheckedFlow(prefect.Flow[P, R]):
    """A flow for notebooks and other flows. Without PREFECT_API_URL, Prefect starts a temporary server for the call."""

    def __call__(self, *args: Any, **options: Any) -> Any:
        """Run the flow. Raises EngineUnwell when the configured server does not answer, a stage after five minutes.

        Prefect gives up at once when the server goes away as it makes a stage's run, since that client had no answer
        before. So a stage that cannot connect is called once more, when the server answers again.
        """
        url = PREFECT_API_URL.value()
        if url and FlowRunContext.get() is None:
            check_server(url)
        elif url:
            await_server(url)
            with suppress(httpx.ConnectError):
                return super().__call__(*args, **options)
            await_server(url)
        return super().__call__(*args, **options)


class OneLine(logging.Filter):
    """Logs an error of ours, such as a missing key, as its line, once; Prefect would log the traceback of a task.

    Prefect logs an error for the task and for the run that it ends, and each with the last state once more.
    """

    _logged: BaseException | None = None

    def filter(self, record: logging.LogRecord) -> bool:
        """Replace message and traceback; of the last state of what failed its name stays. False for an error again."""
        error = record.exc_info[1] if record.exc_info else None
        if isinstance(error, CurateError):
            if error is self._logged:
                return False
            self._logged = error
            record.msg, record.args, record.exc_info, record.exc_text = str(error), (), None, None
        elif state := _FAILED_IN.match(str(record.msg)):
            record.msg = state[1]  # the error is a record of its own
        return True


_FAILED_IN = re.compile(r"(Finished in state (?:Failed(?=\()|[\w ]+(?=\(.*type=FAILED\)$)))", re.DOTALL)
"""Message about the last state of what failed, before the error in brackets."""
_one_line = OneLine()
for _name in ("prefect.flow_runs", "prefect.task_runs"):  # what the UI shows
    logging.getLogger(_name).addFilter(_one_line)


def flow(name: str) -> Callable[[Callable[P, R]], prefect.Flow[P, R]]:
    """Decorator: make a function a flow of this name, whose runs are named by `run_name`."""
    return lambda stage: CheckedFlow(stage, name=name, flow_run_name=run_name, on_crashed=[tell_killed])


PROBES = "probes"
"""Tag of the runs of stages on planted probes."""


def run_name() -> str:
    """Deployment, or else flow, and the UTC day for which the run was scheduled: `nightly 2024-09-18`.

    On planted probes it is `probes: ingest`.
    """
    context = FlowRunContext.get()
    if PROBES in flow_run.tags:
        return f"{PROBES}: {flow_run.flow_name}"
    inner = context and context.flow_run and context.flow_run.parent_task_run_id  # the server need not be asked
    what = None if inner else deployment.name
    return name_of(what or flow_run.flow_name or "", flow_run.scheduled_start_time)


def ended(error: CurateError) -> Any:
    """The state of a run that ends with this error: its line, and a name such as `Held` or `Missing provider`.

    Prefect raises the error for the caller of the flow, but logs no traceback. Outside a flow run it is raised here.
    """
    if FlowRunContext.get() is None:
        raise error
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", type(error).__name__).capitalize()
    return Failed(name="Held" if error.exit_status == 3 else words, message=str(error), data=error)


def _limit_costs(store: Store, settings: Settings) -> None:
    """Leave a run what its store's month has left. Call it while holding the lock, so that no other run spends it.

    A line says how much that is when the run first asks a paid service, and so never in a run that asks none.
    """
    if not settings.has_month_limit:
        return
    limits = month_limits(run_records(store), settings, datetime.now(UTC))
    for limit in limits:
        ledger().limit(limit.usd_left, limit.provider)
    words = [f"{limit.usd_left:,.2f} of {limit.usd_max:,.2f} ({limit.setting})" for limit in limits]
    ledger().announce = lambda: tell(f"the month has left, in US dollars: {'; '.join(words)}")


WAIT_SECONDS = 10.0
"""Time between two attempts of a waiting run to lock its store."""
_running: list[tuple[RunRecord, "Shown"]] = []
"""The outermost run of this process, if there is one."""


def one_writer(stage: Callable[[Settings], Iterable[StageReport]]) -> Callable[[Settings], list[StageReport]]:
    """Decorator: lock the store while the flow runs. Raises StoreBusy when another process writes to it.

    The run of a deployment waits for that process instead. The flow yields the report of each stage that ends, which is
    then recorded and shown. Only the outermost flow reads the settings file, checks the settings, starts the ledger
    (all stages share one budget), opens the run record, gives an error its state and tags the runs of inner flows as
    its own.
    """

    @wraps(stage)
    def held(settings: Settings) -> list[StageReport]:
        inner = in_run()
        try:
            settings = settings if inner else in_force(settings)
            log_as_asked()
            with one_ledger(settings.budget_usd, settings.prices):
                return work(settings, not inner)
        except CurateError as error:
            if inner:
                raise
            return cast(list[StageReport], ended(error))

    def work(settings: Settings, outermost: bool) -> list[StageReport]:
        with (
            replaced_prompts(settings.prompts),
            checked(settings) if outermost else nullcontext(),
            _locked(settings.store) as store,
            storage_errors(store),
            _holding(store) if outermost else tags(*flow_run.tags),
        ):
            if outermost:
                remove_leftovers(store)
                take_in_journal(store)
                _limit_costs(store, settings)
                for what in ("drift", "shrunk"):
                    if getattr(settings, f"accept_{what}"):
                        add_audit_entry(store, Audited.ACCEPTED, {}, what)
            runner = nullcontext() if settings.task_runner == THREADS else shards_by(settings)
            with _run(store, settings) if outermost else nullcontext(), runner:
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


@contextmanager
def _holding(store: Store) -> Iterator[None]:
    """Tag this run and those of its inner flows as the store's writer, and end killed ones that still have that tag."""
    own_tags, tag = list(flow_run.tags), holder_tag(store)
    with _artifacts():
        get_run_logger()
        take_over(UUID(flow_run.id), own_tags, tag)
        if deployment.id and deployment.name:
            name_scheduled(UUID(deployment.id), deployment.name)
    try:
        with tags(*own_tags, tag):
            yield
    finally:
        with _artifacts():
            get_run_logger()
            give_back(UUID(flow_run.id), own_tags)


def _freed(stack: ExitStack, root: str) -> Store:
    while True:
        time.sleep(WAIT_SECONDS)
        with suppress(StoreBusy):
            return stack.enter_context(writing(root))


@contextmanager
def _run(store: Store, settings: Settings) -> Iterator[None]:
    with run_record(store, settings, deployment.name or flow_run.flow_name or "") as record:
        display = Shown(settings)
        _running.append((record, display))
        WATCHERS.append(display.progress)
        try:
            yield
        finally:
            _running.clear()
            WATCHERS.clear()
    display.release(store, record.reports)


def _ended(store: Store, stages: Iterable[StageReport]) -> list[StageReport]:
    """The reports, each recorded and shown as its stage ends; not those of probes, which have a store of their own."""
    reports = []
    for report in stages:
        reports.append(report)
        for record, display in _running:
            if record.store.root == store.root and report not in record.reports:
                record.add(report)
                display.stage(record.reports)
    return reports


class Shown:
    """Shows the outermost run as its stages end, as log lines and the artifacts `stages` and `progress`.

    A release adds `funnel`, `dropped` and `release`.

    Does nothing outside a flow run. A refusal by the server is only logged: the run record has the same figures.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._stages: UUID | None = None
        self._run_id = flow_run.id
        self._over_budget = False
        self._progress: UUID | None = None
        with _artifacts():
            get_run_logger()
            artifact = create_table_artifact(key="stages", table=[], description="What each stage did")
            self._stages = artifact if isinstance(artifact, UUID) else None
            artifact = create_progress_artifact(0.0, key="progress", description="Share of the present piece of work")
            self._progress = artifact if isinstance(artifact, UUID) else None

    def stage(self, reports: Sequence[StageReport]) -> None:
        """Log the last report and show all of them in the artifact `stages`; tell of a budget that is reached, once."""
        with _artifacts():
            items_left = 0 if self._over_budget else _over_budget(reports[-1])
            if items_left and deployment.id:  # without a deployment, Prefect asks the server each time
                self._over_budget = True
                about = {
                    "prefect.resource.id": f"prefect.flow-run.{self._run_id}",
                    "curation.items-left": str(items_left),
                }
                emit_event("curation.over-budget", about)
            fields = reports[-1].model_dump(mode="json", exclude={"drops", "made_from"})
            line = {name: value for name, value in fields.items() if value}
            get_run_logger().info("stage %s", json.dumps(line), extra={"stage": line})
            if self._stages is not None:
                rows = json.dumps([_row(report) for report in reports])
                with get_client(sync_client=True) as client:
                    client.update_artifact(self._stages, ArtifactUpdate(data=rows))

    def progress(self, what: str, done: int, total: int) -> None:
        """Show how far a long piece of work is in the artifact `progress`. Thread-safe; failures are ignored."""
        if self._progress is not None:
            text = f"{what}: {done:,} of {total:,}"
            with suppress(Exception), get_client(sync_client=True) as client:
                client.update_artifact(self._progress, ArtifactUpdate(data=100 * done / total, description=text))

    def release(self, store: Store, reports: Sequence[StageReport]) -> None:
        """Show the funnel and the release of a run that made one."""
        with _artifacts():
            get_run_logger()
            if gone := json.loads(store.read_bytes(latest_run_record(store)) or b"{}")["funnel"]:
                outcomes = [{"outcome": outcome, "lines": gone[outcome]} for outcome in ("kept", "dropped", "rejected")]
                create_table_artifact(key="funnel", table=outcomes, description=f"Where {gone['lines']:,} lines went")
                rows = [
                    {"outcome": outcome, "reason": reason, "lines": lines}
                    for outcome in ("dropped", "rejected")
                    for reason, lines in gone[f"{outcome}_by"].items()
                ]
                create_table_artifact(key="dropped", table=rows, description="Lines by the first reason that fired")
                released = reports[-1]
                place = f"{self._settings.store}/{released.result}"
                new = "New" if released.counts.get("new") else "Unchanged"
                changed = "".join(f"* {line}\n" for line in released.changed)
                text = f"{new}: `{place}`\n\n{changed}\nFigures and tables: `{place}/report/index.html`"
                create_markdown_artifact(key="release", markdown=text, description="The release of this run")


def show_state(state: State[Any]) -> None:
    """Give the present run another state, such as `Running` with a name of its own, and log its message."""
    with _artifacts(), get_client(sync_client=True) as client:
        get_run_logger().info("%s", state.message or state.name)
        client.set_flow_run_state(str(flow_run.id), state)


@contextmanager
def _artifacts() -> Iterator[None]:
    """Logs any failure of the server or the connection. Outside a flow run `get_run_logger` ends the block."""
    try:
        yield
    except Exception as error:
        if FlowRunContext.get() is not None:
            get_run_logger().warning("not shown by Prefect (%s)", type(error).__name__)


def _over_budget(report: StageReport) -> int:
    """Number of items that were left for a later run, because they did not fit in the budget."""
    return sum(count for why, count in report.failures.items() if why.endswith(": budget_reached"))


def _row(report: StageReport) -> dict[str, Any]:
    return {
        "stage": report.stage,
        "seconds": report.seconds,
        "rows per second": report.rows_per_second,
        "peak MB": report.peak_memory_mb,
        "counts": ", ".join(f"{name} {count:,}" for name, count in report.counts.items()),
        "measured": sum(report.model_calls.values()),
        "failed": sum(report.failures.values()),
        "US dollars": round(sum(use.usd + use.usd_unconfirmed for use in report.use.values()), 4),
    }
