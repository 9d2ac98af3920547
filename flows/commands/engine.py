"""How commands run flows: Prefect's own server when one is configured, else a temporary one for this run."""

import os
import sys
from collections.abc import Callable
from pathlib import Path

from flows.commands.own_server import check_server, own_server
from schemas.run import StageReport
from schemas.settings import Settings


def prepare_engine(store: str) -> None:
    """Prefect's environment, before Prefect is imported. What the user has set already stays."""
    defaults = {
        "DO_NOT_TRACK": "1",
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "PREFECT_LOGGING_LEVEL": "CRITICAL",
        "PREFECT_SERVER_LOGGING_LEVEL": "CRITICAL",
    }
    if "://" not in store and "PREFECT_API_URL" not in os.environ:
        defaults["PREFECT_HOME"] = str(Path(store).resolve() / ".prefect")
    for name, value in defaults.items():
        os.environ.setdefault(name, value)


def run_flow(load: Callable[[], Callable[[Settings], list[StageReport]]], settings: Settings) -> list[StageReport]:
    """Run the flow that `load` imports. Raises BadInput before anything starts when another run holds the store.

    Raises EngineUnwell when a server is configured and does not answer.

    A server that nobody configured starts while the flow is imported.

    Heartbeats are off: they would cost a second at the end of every stage.
    """
    prepare_engine(settings.store)
    from tasks.store.lock import writing

    with writing(settings.store):
        print("starting Prefect …", file=sys.stderr, flush=True)
        from prefect.settings import PREFECT_API_URL, PREFECT_FLOWS_HEARTBEAT_FREQUENCY, temporary_settings

        if PREFECT_API_URL.value():
            check_server(PREFECT_API_URL.value())
        server = None if PREFECT_API_URL.value() else own_server()
        flow = load()
        own = {PREFECT_API_URL: server.url()} if server else {}
        with temporary_settings({PREFECT_FLOWS_HEARTBEAT_FREQUENCY: None, **own}):
            return flow(settings)
