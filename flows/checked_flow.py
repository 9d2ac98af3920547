"""Prefect's `flow`, but its errors are one clear line: of a server that does not answer, of a task that cannot work."""

import logging
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import prefect
from prefect.settings import PREFECT_API_URL

from flows.commands.engine import check_server
from flows.run_names import run_name
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
