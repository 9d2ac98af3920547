"""One small demo arena, curated twice by the real flow on a real Prefect server, for all flow tests.

The first run is the example of docs/operating.md.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import certifi
import httpx
import pytest

from schemas.run import StageReport
from schemas.settings import BenchSettings, Settings
from tasks.policy.canaries import STORE as PROBES
from tasks.storage.tables import Store
from tests.builders import USER_KEY
from tests.postgres_server import PostgresServer, is_installed
from tests.waiting import free_port, wait_until

ROOT = Path(__file__).parents[2]
OPENED: list[str] = []
_LISTENING = False
_SCHEDULING: list[subprocess.Popen] = []


def _listen(event: str, arguments: tuple[object, ...]) -> None:
    if _LISTENING and event == "open" and isinstance(arguments[0], str):
        OPENED.append(arguments[0])


sys.addaudithook(_listen)


def _certificate(folder: Path) -> str:
    """A file with one certificate instead of certifi's 150: each of Prefect's clients (40 per run) parses it."""
    first, end, _ = (
        Path(certifi.where()).read_text(encoding="ascii", errors="ignore").partition("-----END CERTIFICATE-----")
    )
    (folder / "one.pem").write_text(first + end + "\n", encoding="ascii")
    return str(folder / "one.pem")


@pytest.fixture(scope="session")
def prefect_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A temporary Prefect server; heartbeats are off, because they cost a second per flow."""
    os.environ |= {"DO_NOT_TRACK": "1", "PREFECT_SERVER_ANALYTICS_ENABLED": "false"}
    home = tmp_path_factory.mktemp("prefect")
    certificate = _certificate(home)
    os.environ |= {"PREFECT_HOME": str(home), "PREFECT_LOGGING_LEVEL": "CRITICAL"}
    os.environ["PREFECT_API_SSL_CERT_FILE"] = certificate  # for processes that tests start
    from prefect.events.worker import EventsWorker
    from prefect.settings import PREFECT_API_SSL_CERT_FILE, PREFECT_FLOWS_HEARTBEAT_FREQUENCY, temporary_settings
    from prefect.testing.utilities import prefect_test_harness

    with ExitStack() as stack:
        with pytest.MonkeyPatch.context() as patch:
            for service in ("EVENT_PERSISTER", "TASK_RUN_RECORDER"):  # a third of its time; no test looks at either
                patch.setenv(f"PREFECT_SERVER_SERVICES_{service}_ENABLED", "false")
            for setting in ("REGISTER_BLOCKS_ON_START", "MEMOIZE_BLOCK_AUTO_REGISTRATION"):  # both would import Ray
                patch.setenv(f"PREFECT_SERVER_{setting}", "false")
            stack.enter_context(prefect_test_harness(server_startup_timeout=180))
        # At its end the harness waits for all events to be sent, which a busy server may never take.
        stack.callback(setattr, EventsWorker, "drain_all", partial(EventsWorker.drain_all, timeout=10))
        own = {PREFECT_FLOWS_HEARTBEAT_FREQUENCY: None, PREFECT_API_SSL_CERT_FILE: certificate}
        stack.enter_context(temporary_settings(own))
        stack.enter_context(mock.patch("tasks.leaderboard.agreement.SAMPLES", 10))  # of 100, which its own tests draw
        yield


@pytest.fixture(scope="session")
def database() -> Iterator[str | None]:
    """A PostgreSQL server of its own, with an empty database: its address for SQLAlchemy. None without PostgreSQL."""
    if not is_installed():
        yield None
        return
    with PostgresServer() as server:
        yield server.address.replace("postgresql:", "postgresql+asyncpg:")


@pytest.fixture(scope="session")
def scheduling_server(database: str | None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """`prefect server start`, on PostgreSQL where it is installed: the address of its API.

    Unlike `prefect_server` it schedules the runs of deployments and runs automations.
    """
    port, environment = str(free_port()), {name: os.environ[name] for name in os.environ if name != "PREFECT_API_URL"}
    environment |= {
        "PREFECT_HOME": str(tmp_path_factory.mktemp("served")),
        "PREFECT_SERVER_SERVICES_TRIGGERS_PROACTIVE_GRANULARITY": "1",
    }
    if database:
        environment["PREFECT_SERVER_DATABASE_CONNECTION_URL"] = database
    command = [sys.executable, "-m", "prefect", "server", "start", "--host", "127.0.0.1", "--port", port, "--no-ui"]
    url = f"http://127.0.0.1:{port}/api"
    with subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as started:
        wait_until(lambda: httpx.get(f"{url}/health").status_code == 200, started)
        _SCHEDULING.append(started)
        yield url
        started.terminate()


def pytest_runtest_teardown(item: pytest.Function) -> None:
    """With the last test that uses it, the scheduling server ends: idle, it takes a tenth of a core."""
    users = [each for each in item.session.items if "scheduling_server" in getattr(each, "fixturenames", ())]
    for started in _SCHEDULING if item in users[-1:] else ():
        started.terminate()


@pytest.fixture(scope="session")
def arena(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with logs, presets and expected.jsonl; CURATE_TEST_ARENA names one to use instead of the drawn one."""
    from tasks.demo.arena import generate_arena  # a product, which few of the tests need

    if given := os.environ.get("CURATE_TEST_ARENA"):
        return Path(given)
    folder = tmp_path_factory.mktemp("arena")
    generate_arena(folder, conversations=40, battles=30, seed=3, images_max=16)
    return folder


def take_over_probes(settings: Settings, store: str) -> None:
    """Copy the measured probes of one store to another: a run of a new store then measures only its own logs.

    They are a dozen images and texts. The user key, if one is given, is that of both stores. Tests of probes, of kills
    and of a fresh clone measure them.
    """
    known, other = Store(f"{settings.store}/{PROBES}"), Store(f"{store}/{PROBES}")
    other.fs.put(f"{known.path}/", f"{other.path}/", recursive=True)


def _documented(logs: Path, store: Path) -> dict[str, Any]:
    """Names that the Python example of docs/operating.md defines, run on these folders."""
    (example,) = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "operating.md").read_text(), re.DOTALL)
    for placeholder, folder in (("path/to/logs", logs), ("path/to/store", store)):
        assert example.count(placeholder) == 1
        example = example.replace(placeholder, str(folder))
    names: dict[str, Any] = {}
    exec(example, names)
    return names


@dataclass(frozen=True)
class Curated:
    """The results of two runs on one store."""

    arena: Path
    settings: Settings
    store: Store
    first: list[StageReport]
    second: list[StageReport]
    opened_first: list[str]
    opened_second: list[str]
    first_release: Path
    """Copy of the release after the first run, from the path that the documented example gives."""

    @property
    def release(self) -> Path:
        """The release after the second run."""
        return Path(self.settings.store) / self.second[-1].result


@pytest.fixture(scope="session")
def curated(prefect_server: None, arena: Path, tmp_path_factory: pytest.TempPathFactory) -> Curated:
    """The arena curated twice."""
    global _LISTENING
    store, runs, opened = tmp_path_factory.mktemp("store"), [], []
    copy = tmp_path_factory.mktemp("first") / "release"
    for number in range(2):
        OPENED.clear()
        _LISTENING = True
        example = _documented(arena / "logs", store)
        _LISTENING = False
        runs.append(example["reports"])
        opened.append(list(OPENED))
        if number == 0:
            shutil.copytree(example["release"], copy)
    return Curated(arena, example["settings"], Store.open(str(store)), *runs, *opened, copy)


@pytest.fixture(scope="session")
def backfilled(prefect_server: None, tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """Settings of one run with one worker on a smaller arena without planted problems."""
    from flows.curate import curate
    from tasks.demo.arena import generate_arena

    folder = tmp_path_factory.mktemp("backfilled")
    generate_arena(folder, conversations=28, battles=8, seed=9, images_max=5, problems=False)
    bench = BenchSettings(hidden_fraction=0.2)  # so that the hidden split of a small arena is not empty
    settings = Settings(logs=str(folder / "logs"), store=str(folder / "store"), workers=1, bench=bench)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CURATE_USER_KEY", USER_KEY)
        curate(settings)
    return settings
