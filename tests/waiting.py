"""Waiting for what another process is to do, however long a busy machine takes for it."""

import socket
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

import httpx

T = TypeVar("T")


def wait_until(ready: Callable[[], T], *processes: subprocess.Popen) -> T:
    """What `ready` gives once that is true. Fails at once when one of the processes has ended.

    No limit but that of the whole test (`timeout` in pyproject.toml) holds: a shorter one is a guess about the machine.
    While `ready` raises an error of a connection, it is not true yet.
    """
    while True:
        with suppress(OSError, httpx.TransportError):
            if found := ready():
                return found
        for process in processes:
            assert process.poll() is None, f"{process.args} ended with status {process.returncode}"
        time.sleep(0.05)


def listens(port: object) -> bool:
    """Whether something on this machine listens on a port."""
    with socket.socket() as knocking:
        return knocking.connect_ex(("127.0.0.1", int(str(port)))) == 0


def free_port() -> int:
    """A port on which nothing listens."""
    with socket.socket() as opened:
        opened.bind(("127.0.0.1", 0))
        return int(opened.getsockname()[1])
