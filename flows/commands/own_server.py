"""A Prefect server for one command. It starts while the command imports its flows, and ends with the command.

Prefect starts one by itself where none is configured, but the command would first import the whole server for that and
then wait for it: 4 CPU seconds, and most of the time until the first stage. And a killed command would leave it behind.
"""

import atexit
import http.client
import os
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from functools import cache

from schemas.errors import EngineUnwell

ANSWERS_WITHIN_SECONDS = 300.0
"""A first start makes the server's database, on a machine that may be small and busy."""
_TEMPORARY = {"PREFECT_UI_ENABLED": "0", "PREFECT__SERVER_EPHEMERAL": "1", "PREFECT__SERVER_FINAL": "1"}
"""What Prefect gives a server of this kind: no pages, and only the services that a single run needs."""
_HOST, _ATTEMPTS = "127.0.0.1", 3


def check_server(url: str) -> None:
    """Raises EngineUnwell when no server answers at a configured `PREFECT_API_URL`."""
    try:
        urllib.request.urlopen(f"{url.rstrip('/')}/health", timeout=10).close()  # noqa: S310 - as the operator says
    except urllib.error.HTTPError:
        return  # it answers, and asks for a key or has no such page
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise EngineUnwell(
            f"Prefect's server does not answer at PREFECT_API_URL={url} ({getattr(error, 'reason', error)}); start it "
            "(prefect server start), or unset PREFECT_API_URL"
        ) from None


@cache
def own_server() -> "OwnServer":
    """The server of this process; the first call starts it and does not wait."""
    return OwnServer()


class OwnServer:
    """A server on a free port of this machine, in a process of its own."""

    def __init__(self) -> None:
        self._begin()
        atexit.register(self.end)

    def url(self) -> str:
        """Where its API is, as soon as it answers. Raises EngineUnwell when it does not."""
        until, ended = time.monotonic() + ANSWERS_WITHIN_SECONDS, 0
        while time.monotonic() < until and ended < _ATTEMPTS:
            if self._answers():
                return f"http://{_HOST}:{self._port}/api"
            if self._process.poll() is not None:  # another program may have taken the port first
                ended += 1
                self._begin()
            time.sleep(0.05)
        raise EngineUnwell(
            "Prefect's server does not start: its message is above. Or start one yourself (prefect server start) and "
            "set PREFECT_API_URL=http://127.0.0.1:4200/api"
        )

    def _begin(self) -> None:
        with socket.socket() as free:
            free.bind((_HOST, 0))
            self._port = int(free.getsockname()[1])
        command = [sys.executable, "-m", __name__, str(self._port), str(os.getpid())]
        self._process = subprocess.Popen(command, env=os.environ | _TEMPORARY, stdout=sys.stderr)  # noqa: S603 - our own

    def _answers(self) -> bool:
        asking = http.client.HTTPConnection(_HOST, self._port, timeout=10)
        try:
            asking.request("GET", "/api/health")
            return asking.getresponse().status == http.HTTPStatus.OK
        except (OSError, http.client.HTTPException):
            return False
        finally:
            asking.close()

    def end(self) -> None:
        """Stop it. The process that began it does so by itself when it ends."""
        self._process.terminate()
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def _serve(port: int, parent: int) -> None:
    import uvicorn

    threading.Thread(target=_end_with_parent, args=(parent,), daemon=True).start()
    uvicorn.run(
        "prefect.server.api.server:create_app", factory=True, host=_HOST, port=port, log_level="error", lifespan="on"
    )


def _end_with_parent(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(0)


if __name__ == "__main__":
    _serve(*map(int, sys.argv[1:]))
