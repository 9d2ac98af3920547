"""Lines of Prefect's log: plain ones, or the JSON of `CURATE_LOG_FORMAT=json`.

`deploy/worker.sh` names `WorkerLog` in the environment, which the worker and its runs have in common.
"""

import asyncio
import logging
import os
from typing import Any

import httpx
from prefect.logging.formatters import PrefectFormatter
from prefect.logging.handlers import PrefectConsoleHandler
from prefect.settings import PREFECT_API_URL
from websockets.exceptions import WebSocketException

from flows.running.prefect_server import watch_server
from tasks.runtime.progress import json_asked, json_log_line

_LOST_CONNECTION = (ConnectionError, TimeoutError, httpx.TransportError, WebSocketException, asyncio.CancelledError)
"""Errors of Prefect's own services while the server restarts; they try again."""
_OF_RUNS = ("prefect.flow_runs", "prefect.task_runs")
"""Loggers of what a run says, whose errors may be those of its store or of another service."""
_WITHOUT_ERROR = {
    "prefect.events.clients": "Unable to connect",
    "prefect._internal.concurrency": "Service %r failed to process item",
}
"""Logger of Prefect -> how its message about a lost connection begins, which comes without the error."""
_TIMED = "%(asctime)s.%(msecs)03d | %(levelname)-7s | "


class WorkerLog(PrefectConsoleHandler):
    """Writes the log that a worker and its runs have in common.

    A lost server fails every service of Prefect, in each process and several times over. None of that is written:
    the worker watches the server, and says once that it does not answer and once that it answers again.
    """

    _watches = False
    """Whether this process watches the server."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        """The arguments are those of Prefect's own handler (its logging.yml). CURATE_WORKER_PID names the worker."""
        super().__init__(*arguments, **options)
        self.addFilter(lambda record: not is_about_lost_server(record))
        logging.raiseExceptions = False  # else Prefect prints a traceback for each batch of lines that it cannot send
        url = PREFECT_API_URL.value()
        if url and os.environ.get("CURATE_WORKER_PID") == str(os.getpid()) and not WorkerLog._watches:
            WorkerLog._watches = True
            watch_server(url, logging.getLogger("prefect.worker").warning)

    def setFormatter(self, fmt: logging.Formatter | None) -> None:  # noqa: N802 - the name is logging's
        """Take JSON lines or plain ones, as the environment asks, in place of those of logging.yml."""
        super().setFormatter(JsonLines() if json_asked() else PlainLines())


def is_about_lost_server(record: logging.LogRecord) -> bool:
    """Whether one of Prefect's own services says that it lost the server. What runs say is none of that."""
    if record.name.startswith(_OF_RUNS):
        return False
    error = record.exc_info[1] if record.exc_info else None
    begins = _WITHOUT_ERROR.get(record.name)
    return _is_lost_connection(error) or (begins is not None and str(record.msg).startswith(begins))


def _is_lost_connection(error: BaseException | None) -> bool:
    # where a name has several addresses, asyncio gives one OSError for all of them
    several = isinstance(error, OSError) and "Connect call failed" in str(error)
    return several or isinstance(error, _LOST_CONNECTION)


class PlainLines(PrefectFormatter):
    """Prefect's lines for people, but a lost connection is one line without a traceback."""

    def __init__(self) -> None:
        """The formats are Prefect's own (its logging.yml)."""
        super().__init__(
            f"{_TIMED}%(name)s - %(message)s",
            "%H:%M:%S",
            flow_run_fmt=f"{_TIMED}Flow run %(flow_run_name)r - %(message)s",
            task_run_fmt=f"{_TIMED}Task run %(task_run_name)r - %(message)s",
        )

    def format(self, record: logging.LogRecord) -> str:
        """The line, with the traceback of any other error."""
        error = record.exc_info[1] if record.exc_info else None
        if not _is_lost_connection(error):
            return super().format(record)
        line = logging.makeLogRecord(record.__dict__ | {"exc_info": None, "exc_text": None})
        return f"{super().format(line)} ({type(error).__name__})".replace("\n", " ")


class JsonLines(logging.Formatter):
    """Formats a record as one JSON object a line, with the figures of a stage as fields."""

    def format(self, record: logging.LogRecord) -> str:
        """`at`, `message`, `level`, the run's name, and `stage` where the record is about one."""
        run = getattr(record, "flow_run_name", None)
        about = {"level": record.levelname.lower(), "run": run, "stage": getattr(record, "stage", None)}
        error = {"error": record.exc_info[0].__name__} if record.exc_info and record.exc_info[0] else {}
        fields = {name: value for name, value in about.items() if value is not None}
        return json_log_line(record.getMessage(), **fields, **error)


def log_as_asked() -> None:
    """Have what Prefect logs on this process's streams be JSON lines, where these are asked for."""
    for name in ("root", "prefect", "prefect.flow_runs", "prefect.task_runs") if json_asked() else ():
        for handler in logging.getLogger(name).handlers:
            if isinstance(handler, logging.StreamHandler):
                handler.setFormatter(JsonLines())
