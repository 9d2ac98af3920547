"""Prefect's `flow`, but errors are one clear line, and runs have names and states that say what they are."""

import logging
import re
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import prefect
from prefect.client.orchestration import get_client
from prefect.client.schemas.objects import FlowRun, State
from prefect.context import FlowRunContext
from prefect.runtime import deployment, flow_run
from prefect.settings import PREFECT_API_URL
from prefect.states import Crashed, Failed

from flows.commands.engine import check_server
from schemas.errors import CurateError
from tasks.runtime.progress import json_asked, json_log_line

KILLED = "The run's process was killed, perhaps for lack of memory. The next run continues its work."
P = ParamSpec("P")
R = TypeVar("R")


class CheckedFlow(prefect.Flow[P, R]):
    """A flow for notebooks and other flows. Without PREFECT_API_URL, Prefect starts a temporary server for the call."""

    def __call__(self, *args: Any, **options: Any) -> Any:
        """Run the flow. Raises EngineUnwell when the configured server does not answer."""
        if url := PREFECT_API_URL.value():
            check_server(url)
        return super().__call__(*args, **options)


class OneLine(logging.Filter):
    """Logs an error of ours, such as a missing key, as its line; Prefect would log the traceback of a task."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Replace message and traceback. Every record passes."""
        error = record.exc_info[1] if record.exc_info else None
        if isinstance(error, CurateError):
            record.msg, record.args, record.exc_info, record.exc_text = str(error), (), None, None
        return True


class JsonLines(logging.Formatter):
    """Formats a record as one JSON object a line, with the figures of a stage as fields."""

    def format(self, record: logging.LogRecord) -> str:
        """`at`, `message`, `level`, the run's name, and `stage` where the record is about one."""
        run = getattr(record, "flow_run_name", None)
        about = {"level": record.levelname.lower(), "run": run, "stage": getattr(record, "stage", None)}
        error = {"error": record.exc_info[0].__name__} if record.exc_info and record.exc_info[0] else {}
        known = {name: value for name, value in about.items() if value is not None}
        return json_log_line(record.getMessage(), **known, **error)


def log_as_asked() -> None:
    """Have what Prefect logs on this process's streams be JSON lines, where these are asked for."""
    for name in ("root", "prefect", "prefect.flow_runs", "prefect.task_runs") if json_asked() else ():
        for handler in logging.getLogger(name).handlers:
            if isinstance(handler, logging.StreamHandler):
                handler.setFormatter(JsonLines())


for _name in ("prefect.flow_runs", "prefect.task_runs"):  # what the UI shows
    logging.getLogger(_name).addFilter(OneLine())


def flow(name: str) -> Callable[[Callable[P, R]], prefect.Flow[P, R]]:
    """Decorator: make a function a flow of this name, whose runs are named by `run_name`."""
    return lambda stage: CheckedFlow(stage, name=name, flow_run_name=run_name, on_crashed=[tell_killed])


def tell_killed(flow: Any, flow_run: FlowRun, state: State[Any]) -> None:
    """Give a run that was killed a state that says what happens next, in place of Prefect's. Its worker calls this."""
    if "exited with" in (state.message or ""):
        with get_client(sync_client=True) as client:
            client.set_flow_run_state(flow_run.id, Crashed(name="Killed", message=KILLED), force=True)


def run_name() -> str:
    """Deployment, or else flow, and the UTC day for which the run was scheduled: `nightly 2024-09-18`."""
    context = FlowRunContext.get()
    inner = context and context.flow_run and context.flow_run.parent_task_run_id  # the server need not be asked
    what = None if inner else deployment.name
    return f"{what or flow_run.flow_name} {flow_run.scheduled_start_time:%Y-%m-%d}"


def ended(error: CurateError) -> Any:
    """The state of a run that ends with this error: its line, and a name such as `Held` or `Missing provider`.

    Prefect raises the error for the caller of the flow, but logs no traceback. Outside a flow run it is raised here.
    """
    if FlowRunContext.get() is None:
        raise error
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", type(error).__name__).capitalize()
    return Failed(name="Held" if error.exit_status == 3 else words, message=str(error), data=error)
