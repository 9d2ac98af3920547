"""Runs flows on the Prefect server of PREFECT_API_URL, or else on Prefect's temporary server."""

import atexit
import http.client
import os
import shutil
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING

from schemas.errors import EngineUnwell
from schemas.run import StageReport
from schemas.settings import Settings

if TYPE_CHECKING:
    from prefect.server.api.server import SubprocessASGIServer

_QUIET = {
    "DO_NOT_TRACK": "1",
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "PREFECT_LOGGING_LEVEL": "CRITICAL",
    "PREFECT_SERVER_LOGGING_LEVEL": "CRITICAL",
}
"""Defaults of Prefect settings for every command; the user's own settings win."""
_TEMPORARY = {
    "PREFECT_SERVER_ALLOW_EPHEMERAL_MODE": "true",
    "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "120",  # the default of 20 is too short for a busy machine
}
"""Prefect's settings for its temporary server."""


def run_flow(load: Callable[[], Callable[[Settings], list[StageReport]]], settings: Settings) -> list[StageReport]:
    """Run the flow that `load` imports.

    Raises BadInput, before anything starts, when another run is writing to the store, and EngineUnwell when Prefect's
    server does not answer or start. Heartbeats are off: Prefect would wait a second for them at the end of every flow.
    """
    prepare_engine(settings.store)
    from tasks.storage.lock import writing

    with writing(settings.store):
        print("starting Prefect …", file=sys.stderr, flush=True)
        from prefect.settings import PREFECT_API_URL, PREFECT_FLOWS_HEARTBEAT_FREQUENCY, temporary_settings

        if PREFECT_API_URL.value():
            check_server(PREFECT_API_URL.value())
        else:
            start_server()
        flow = load()
        with temporary_settings({PREFECT_FLOWS_HEARTBEAT_FREQUENCY: None}):
            return flow(settings)


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
        os.environ |= {**_TEMPORARY, "PREFECT_HOME": _home(store)}
        os.environ.pop("PREFECT_SERVER_DATABASE_CONNECTION_URL", None)


def _home(store: str) -> str:
    if "://" not in store:
        return str(Path(store).resolve() / ".prefect")
    folder = tempfile.mkdtemp(prefix="prefect-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)  # runs after Prefect has stopped its server
    return folder


def check_server(url: str) -> None:
    """Raises EngineUnwell when no server answers at a configured `PREFECT_API_URL`."""
    try:
        urllib.request.urlopen(f"{url.rstrip('/')}/health", timeout=10).close()  # noqa: S310 - the operator chose the address
    except urllib.error.HTTPError:
        return  # it answers, but wants a key or has no such page
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise EngineUnwell(
            f"Prefect's server does not answer at PREFECT_API_URL={url} ({getattr(error, 'reason', error)}); start it "
            "(prefect server start), or unset PREFECT_API_URL"
        ) from None


def start_server() -> None:
    """Start Prefect's temporary server for this process, once. Raises EngineUnwell when it does not start."""
    from prefect.server.api.server import SubprocessASGIServer

    server = SubprocessASGIServer()
    if not server.running:
        Thread(target=_stop_when_killed, args=(server,), daemon=True).start()
    try:
        server.start()
    except (RuntimeError, OSError) as error:
        raise EngineUnwell(
            f"Prefect's server does not start ({str(error).splitlines()[0]}); start one yourself (prefect server "
            "start) and set PREFECT_API_URL=http://127.0.0.1:4200/api"
        ) from None


def _stop_when_killed(server: "SubprocessASGIServer") -> None:
    """Stop the server when this process is killed (at exit Prefect stops it): a shell waits for its pipe to close."""
    while server.server_process is None:
        time.sleep(0.05)
    reading, _ = os.pipe()  # the other end closes when this process ends, however it ends
    stop = ["sh", "-c", 'trap "" INT; read -r _; kill "$0" 2>/dev/null', str(server.server_process.pid)]
    os.posix_spawn("/bin/sh", stop, os.environ, file_actions=[(os.POSIX_SPAWN_DUP2, reading, 0)])
    os.close(reading)
