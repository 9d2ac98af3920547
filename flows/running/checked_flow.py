"""Prefect's `flow`, but errors are one clear line, and runs have names and states that say what they are."""

import logging
import re
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import prefect
from prefect.context import FlowRunContext
from prefect.runtime import deployment, flow_run
from prefect.settings import PREFECT_API_URL
from prefect.states import Failed

from flows.commands.engine import check_server
from schemas.errors import CurateError

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


for _name in ("prefect.flow_runs", "prefect.task_runs"):  # what the UI shows
    logging.getLogger(_name).addFilter(OneLine())


def flow(name: str) -> Callable[[Callable[P, R]], prefect.Flow[P, R]]:
    """Decorator: make a function a flow of this name, whose runs are named by `run_name`."""
    return lambda stage: CheckedFlow(stage, name=name, flow_run_name=run_name)


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
