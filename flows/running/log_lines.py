"""Lines of Prefect's log: plain ones, or the JSON of `CURATE_LOG_FORMAT=json`.

`deploy/worker.sh` names a formatter of these in the environment, which the worker and its runs have in common.
"""

import asyncio
import logging

import httpx
from prefect.logging.formatters import PrefectFormatter
from websockets.exceptions import WebSocketException

from tasks.runtime.progress import json_asked, json_log_line

_SERVER_IS_AWAY = (OSError, httpx.TransportError, WebSocketException, asyncio.CancelledError)
"""Errors of Prefect's own services while the server restarts; they try again, and nothing is lost."""
_TIMED = "%(asctime)s.%(msecs)03d | %(levelname)-7s | "


class PlainLines(PrefectFormatter):
    """Prefect's lines for people, but a server that is away is one line without a traceback."""

    def __init__(self, *_: object) -> None:
        """Whatever `logging` gives, the formats are Prefect's own (its logging.yml)."""
        super().__init__(
            f"{_TIMED}%(name)s - %(message)s",
            "%H:%M:%S",
            flow_run_fmt=f"{_TIMED}Flow run %(flow_run_name)r - %(message)s",
            task_run_fmt=f"{_TIMED}Task run %(task_run_name)r - %(message)s",
        )

    def format(self, record: logging.LogRecord) -> str:
        """The line, with the traceback of any other error."""
        error = record.exc_info[1] if record.exc_info else None
        if not isinstance(error, _SERVER_IS_AWAY):
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
        known = {name: value for name, value in about.items() if value is not None}
        return json_log_line(record.getMessage(), **known, **error)


def log_as_asked() -> None:
    """Have what Prefect logs on this process's streams be JSON lines, where these are asked for."""
    for name in ("root", "prefect", "prefect.flow_runs", "prefect.task_runs") if json_asked() else ():
        for handler in logging.getLogger(name).handlers:
            if isinstance(handler, logging.StreamHandler):
                handler.setFormatter(JsonLines())
