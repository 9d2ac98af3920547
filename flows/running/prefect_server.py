"""Whether Prefect's server answers: asked before work begins, before each of its stages, and always by a worker."""

import http.client
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable

from schemas.errors import EngineUnwell

WATCH_SECONDS = 2.0
"""Time between two questions; a server takes longer to start."""
PATIENCE_SECONDS = 300.0
"""Time that a run waits for a server that does not answer as a stage begins."""


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


def await_server(url: str) -> None:
    """Wait until a server answers that did so before. Raises EngineUnwell when it does not within five minutes.

    Prefect tries a request again only where the same client had an answer before, and each stage has a new client.
    """
    patient_until = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            return check_server(url)
        except EngineUnwell:
            if time.monotonic() > patient_until:
                raise
            time.sleep(WATCH_SECONDS)


def watch_server(url: str, say: Callable[[str], None]) -> None:
    """Say in one line that a server is lost, and in one that it answers again, from a thread of its own."""
    threading.Thread(target=_watch, args=(url, say), daemon=True).start()


def _watch(url: str, say: Callable[[str], None]) -> None:
    lost = False
    while True:
        time.sleep(WATCH_SECONDS)
        try:
            check_server(url)
        except EngineUnwell:
            if not lost:
                say(f"Prefect's server at {url} does not answer; it is asked again, and runs go on")
            lost = True
        else:
            if lost:
                say(f"Prefect's server at {url} answers again")
            lost = False
