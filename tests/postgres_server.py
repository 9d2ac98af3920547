"""A PostgreSQL server on this machine, for the time of a test.

with PostgresServer() as server:
    server.run("CREATE TABLE …")
    server.stop(); server.start()
"""

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from typing import Any, Self

from tests.waiting import free_port


def is_installed() -> bool:
    """Whether this machine has PostgreSQL."""
    return shutil.which("initdb") is not None


class PostgresServer:
    """A server of its own with an empty database, which ends with the block."""

    def __enter__(self) -> Self:
        self._user = pwd.getpwnam("nobody") if os.getuid() == 0 else pwd.getpwuid(os.getuid())  # it refuses root
        self.port = free_port()
        self._folder = tempfile.mkdtemp(prefix="postgres-")
        os.chown(self._folder, self._user.pw_uid, self._user.pw_gid)
        self._call("initdb", "-D", f"{self._folder}/data", "-U", "prefect", "--auth=trust", "--no-sync")
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        shutil.rmtree(self._folder)

    @property
    def address(self) -> str:
        """Its address, without a password."""
        return f"postgresql://prefect@127.0.0.1:{self.port}/postgres"

    def start(self) -> None:
        """Start it, and wait until it answers."""
        options = f"-p {self.port} -k {self._folder} -c listen_addresses=127.0.0.1 -c fsync=off"
        self._call("pg_ctl", "-D", f"{self._folder}/data", "-o", options, "-l", f"{self._folder}/log", "-w", "start")

    def stop(self) -> None:
        """Stop it at once; open connections break."""
        # It may have been stopped before.
        self._call("pg_ctl", "-D", f"{self._folder}/data", "-m", "immediate", "stop", check=False)

    def run(self, statements: str) -> Sequence[str]:
        """The lines that psql prints for some statements."""
        command = ["psql", "-h", "127.0.0.1", "-p", str(self.port), "-U", "prefect", "-v", "ON_ERROR_STOP=1", "-qAt"]
        done = subprocess.run(
            [*command, "postgres"], input=statements, check=False, capture_output=True, text=True, timeout=300
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    def _call(self, *command: str, check: bool = True) -> None:
        who: dict[str, Any] = {}
        if os.getuid() == 0:
            who = {"user": self._user.pw_uid, "group": self._user.pw_gid}
        quiet = {"stdout": subprocess.DEVNULL, "stderr": None if check else subprocess.DEVNULL}
        subprocess.run(command, check=check, cwd=self._folder, **quiet, **who)
