"""No test can connect to another machine: connections, datagrams and name look-ups are limited to this one.

Tests are distributed by file, so that what the tests of a file share is made only once. `make test` has three workers
for two cores: one often waits for a server or a browser.
"""

import gc
import ipaddress
import os
import socket
import sys
import time
from collections.abc import Iterator
from functools import cache
from typing import Any

import hypothesis
import pytest
from xdist.scheduler import LoadScopeScheduling

from tests.http_server import HttpServer
from tests.places import LEFT_OUT

hypothesis.settings.register_profile("shared machine", deadline=None, max_examples=50)
hypothesis.settings.load_profile("shared machine")

# Where it is set and `make` did not unset it, every process that a test starts would compile all that it imports.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

gc.disable()  # until all is imported and collected
gc.set_threshold(
    20_000, 20, 20
)  # at the defaults, looking for garbage in all that is imported takes a fifteenth of the time

_TOPICS = "tests/tasks/topics/"  # what numba compiles for one of these files serves all
_LONGEST = ("tests/flows/", _TOPICS, "tests/test_")
_OWN_ARENAS = (
    "test_chaos", "test_deployment", "test_nights", "test_object_store", "test_operating_guide", "test_task_runners"
)  # fmt: skip
_HERE = {"localhost", socket.gethostname()}


def _on_this_machine(host: object) -> bool:
    """Whether a host, as a name or an address, is this machine. No host means this machine."""
    name = host.decode() if isinstance(host, bytes) else host
    if not name or name in _HERE:
        return True
    try:
        address = ipaddress.ip_address(str(name).partition("%")[0])
    except ValueError:
        return False
    return address.is_loopback or address.is_unspecified


def _refuse_other_machines(event: str, arguments: tuple) -> None:
    """An audit hook: it sees every Python socket, whichever library opened it."""
    if event == "socket.getaddrinfo":
        host = arguments[0]
    elif event in ("socket.connect", "socket.sendto", "socket.sendmsg"):
        opened, address = arguments
        if opened.family not in (socket.AF_INET, socket.AF_INET6) or address is None:
            return
        host = address[0]
    else:
        return
    if not _on_this_machine(host):
        # Not an Exception: code that ignores network errors must not ignore this.
        pytest.fail(f"a test may only reach this machine, not {host!r} ({event})")


for _name in [name for name in os.environ if name.lower().endswith("_proxy")]:
    del os.environ[_name]  # a proxy on this machine would be a way out

sys.addaudithook(_refuse_other_machines)


class _ByArena(LoadScopeScheduling):
    """One worker for the flow tests that share the curated arena, one for those with their own arenas; then by file."""

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        if file.startswith(_TOPICS):
            return _TOPICS
        if not file.startswith("tests/flows/"):
            return file
        return "own arenas" if file.removeprefix("tests/flows/").startswith(_OWN_ARENAS) else "flows"


def pytest_collection_finish() -> None:
    """What has been imported for good is no longer searched for garbage."""
    gc.freeze()
    gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What takes longest comes first, so that all workers end at about the same time.

    Of the flow tests, files that use the scheduling server come before the others: it ends with the last one, and takes
    a tenth of a core while it waits.
    """
    scheduling = {item.path for item in items if "scheduling_server" in getattr(item, "fixturenames", ())}
    items.sort(key=lambda item: (not item.nodeid.startswith(_LONGEST), item.path not in scheduling))


def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> LoadScopeScheduling:
    """Used instead of xdist's groups, which do not work with pytest's structured node ids."""
    return _ByArena(config, log)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """How many tests compared nothing with real data, and why, in one line."""
    if left := sum(LEFT_OUT in str(each.longrepr) for each in terminalreporter.stats.get("skipped", ())):
        terminalreporter.write_line(f"left out: {left} tests, because {LEFT_OUT}")


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    """What a test or its commands set in the environment (`curate doctor` goes offline) reaches no later process."""
    before = dict(os.environ)
    yield
    for name in os.environ.keys() - before.keys():
        del os.environ[name]
    os.environ.update(before)


class Clock:
    """The clock of this process, which a test puts forward."""

    def __init__(self) -> None:
        self._real, self._seconds = time.monotonic, 0.0

    def later(self, seconds: float) -> None:
        """So much time has passed."""
        self._seconds += seconds

    def now(self) -> float:
        """Seconds, as `time.monotonic`."""
        return self._real() + self._seconds


@pytest.fixture
def clock(monkeypatch) -> Clock:
    """The clock that `time.monotonic` reads until the test ends."""
    clock = Clock()
    monkeypatch.setattr(time, "monotonic", clock.now)
    return clock


@pytest.fixture
def short_waits(monkeypatch) -> None:
    """Waits between two attempts, or two looks at a batch, take a two hundredth of their time."""
    sleep = time.sleep
    monkeypatch.setattr(time, "sleep", lambda seconds: sleep(seconds / 200))


@pytest.fixture
def http_server() -> Iterator[HttpServer]:
    """A server on this machine that answers what a test sets."""
    server = HttpServer()
    yield server
    server.close()


@pytest.fixture
def openai_server(http_server, monkeypatch) -> HttpServer:
    """The same, as the one that OpenAI's client talks to."""
    pytest.importorskip("openai", reason="production extra")
    monkeypatch.setenv("OPENAI_API_KEY", "test-key")
    monkeypatch.setenv("OPENAI_BASE_URL", f"{http_server.url}/v1")
    return http_server


@pytest.fixture
def hub(monkeypatch):
    """An empty Hub that the client finds through the environment."""
    from tests.hub_server import LoopbackHub  # its client takes a while to import

    server = LoopbackHub()
    server.is_the_hub(monkeypatch)
    yield server
    server.close()


@cache
def _command() -> Any:
    """`curate` with its subcommands, made once for all calls: typer takes 25 ms."""
    from typer.main import get_command

    from flows.commands import command_line

    return get_command(command_line())


@pytest.fixture
def curate(monkeypatch, capsys):
    """Run the command: (exit status, stdout, stderr)."""
    from flows.commands import main  # takes a while to import, and few tests run commands

    _command()
    monkeypatch.setattr("flows.commands.command_line", _command)

    def run(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["curate", *map(str, arguments)])
        with pytest.raises(SystemExit) as stopped:
            main()
        out, err = capsys.readouterr()
        return int(stopped.value.code or 0), out, err

    return run


@pytest.fixture
def refused(curate):
    """Run a command that ends with status 2 and one line: that line."""

    def run(*arguments: object) -> str:
        status, out, err = curate(*arguments)
        assert (status, out, err.count("\n")) == (2, "", 1), err
        assert err.startswith("curate: "), err
        return err

    return run
