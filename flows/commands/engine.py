"""Runs flows on the Prefect server of PREFECT_API_URL, or else on a temporary one in a thread of this process."""

import atexit
import gc
import logging
import os
import shutil
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread

from flows.before_work import checked
from flows.running.prefect_server import check_server
from schemas.errors import EngineUnwell
from schemas.run import StageReport
from schemas.settings import Settings
from tasks.runtime.progress import tell

Flow = Callable[[Settings], list[StageReport]]

_QUIET = {"PREFECT_LOGGING_LEVEL": "CRITICAL", "PREFECT_SERVER_LOGGING_LEVEL": "CRITICAL"}
"""Defaults of Prefect settings for every command; the user's own settings win."""
_TEMPORARY = {
    "PREFECT_SERVER_REGISTER_BLOCKS_ON_START": "false",
    "PREFECT_SERVER_MEMOIZE_BLOCK_AUTO_REGISTRATION": "false",  # it would import Dask and Ray
    "PREFECT_SERVER_SERVICES_EVENT_PERSISTER_ENABLED": "false",
    "PREFECT_SERVER_SERVICES_TRIGGERS_ENABLED": "false",
    "PREFECT_CLIENT_CSRF_SUPPORT_ENABLED": "false",  # it would ask for a token before each client's first request
}
"""Prefect settings of a temporary server: it has no blocks, automations, event feed or browser to serve."""

_OBJECTS_A_SEARCH = 20_000
"""New objects between two searches for garbage, which with Python's 700 are 6 % of a night's CPU seconds."""

_NO_ROOM = {sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR}
"""SQLite's codes of a full disk, and of a quota or another limit that is reached."""


def run_flows(settings: Settings, *loads: Callable[[], Flow]) -> list[StageReport]:
    """Run the flows that `loads` import, in order, and return all their reports.

    Raises CurateError for a setting that cannot be used and StoreBusy when another run is writing to the store, both
    before anything starts, and EngineUnwell when Prefect's server does not answer or start. Heartbeats are off: Prefect
    would wait a second for them at the end of every flow.
    """
    from tasks.storage.lock import writing

    with checked(settings):
        prepare_engine(settings.store)
        with writing(settings.store):
            tell("starting Prefect …")
            return _run(settings, _imported(loads))


def _run(settings: Settings, flows: Iterable[Flow]) -> list[StageReport]:
    from prefect.settings import PREFECT_API_URL, PREFECT_FLOWS_HEARTBEAT_FREQUENCY, temporary_settings

    with (
        _server(PREFECT_API_URL.value()) as url,
        temporary_settings({PREFECT_FLOWS_HEARTBEAT_FREQUENCY: None, PREFECT_API_URL: url}),
    ):
        return [report for flow in flows for report in flow(settings)]


def _imported(loads: Iterable[Callable[[], Flow]]) -> list[Flow]:
    """Import Prefect and the flows without collecting garbage: all of it stays, and searching it takes 1.3 CPU s."""
    gc.disable()
    try:
        if "PREFECT_API_URL" not in os.environ:
            import prefect.server.api.server  # noqa: F401 - for `_server`
        return [load() for load in loads]
    finally:
        gc.freeze()
        gc.set_threshold(_OBJECTS_A_SEARCH)
        gc.enable()


def prepare_engine(store: str) -> None:
    """Set Prefect's environment variables; Prefect reads them on import.

    Without PREFECT_API_URL the run's history is kept in the store, or in a temporary folder when the store is not a
    local folder; nothing is written to the user's own Prefect database.
    """
    if "prefect" in sys.modules:
        return
    for name, value in _QUIET.items():
        os.environ.setdefault(name, value)
    if "PREFECT_API_URL" not in os.environ:
        os.environ |= {"PREFECT_HOME": _home(store), **_TEMPORARY}
        os.environ.pop("PREFECT_SERVER_DATABASE_CONNECTION_URL", None)


def _home(store: str) -> str:
    if "://" not in store:
        folder = str(Path(store).resolve() / ".prefect")
        # nobody else reads parameters and log lines; SQLite keeps the mode of the file
        database = Path(folder, "prefect.db")
        database.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        database.touch(mode=0o600)
        database.chmod(0o600)
        return folder
    folder = tempfile.mkdtemp(prefix="prefect-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


@contextmanager
def _server(configured: str | None) -> Iterator[str]:
    """The address of the configured server, or of a temporary one that stops at the end."""
    if configured:
        check_server(configured)
        yield configured
        return
    import uvicorn
    from prefect.server.api.server import create_app

    app = create_app(ephemeral=True, final=True, ignore_cache=True)
    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=0, log_config=None, lifespan="on"))
    thread = Thread(target=server.run, daemon=True)
    with _room_for_history():
        thread.start()
        while not server.started:
            if not thread.is_alive():
                raise EngineUnwell(
                    "Prefect's server does not start (see `.prefect` in the store); start one yourself (prefect server "
                    "start) and set PREFECT_API_URL=http://127.0.0.1:4200/api"
                )
            time.sleep(0.02)
        try:
            yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}/api"
        finally:
            server.should_exit = True
            thread.join()


@contextmanager
def _room_for_history() -> Iterator[None]:
    """Turn what a temporary server answers, or that it does not start, into one line when its database has no room."""
    import httpx
    from sqlalchemy import Engine, event
    from sqlalchemy.engine import ExceptionContext

    full: list[BaseException] = []

    def note(context: ExceptionContext) -> None:
        if getattr(context.original_exception, "sqlite_errorcode", 0) & 0xFF in _NO_ROOM:
            full.append(context.original_exception)
            logging.raiseExceptions = False  # Prefect's threads would print each failure, also while Python ends

    event.listen(Engine, "handle_error", note)
    try:
        yield
    except (EngineUnwell, httpx.HTTPError):
        if not full:
            raise
        raise EngineUnwell(
            f"no room left for the history of runs in {os.environ['PREFECT_HOME']!r} or the temporary folder "
            f"{tempfile.gettempdir()!r} ({full[0]}); free some and run again: what was stored stays, and it goes on "
            "from there"
        ) from None
    finally:
        event.remove(Engine, "handle_error", note)
