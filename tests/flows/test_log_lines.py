"""Lines of Prefect's log as `deploy/worker.sh` asks for them, and names of runs that the scheduler has made."""

import asyncio
import json
import logging
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from prefect.client.orchestration import get_client
from prefect.client.schemas.actions import DeploymentScheduleCreate
from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterDeploymentId
from prefect.client.schemas.objects import FlowRun
from prefect.client.schemas.schedules import CronSchedule
from prefect.settings import PREFECT_API_URL, temporary_settings

from flows.running.log_lines import PlainLines, is_about_lost_server
from flows.running.prefect_server import WATCH_SECONDS
from flows.running.run_names import name_of, name_scheduled
from tests.http_server import Serving
from tests.waiting import wait_until

WORKER = Path(__file__).parents[2] / "deploy" / "worker.sh"


def _record(error: BaseException | None, name: str = "prefect.observer", message: str = "it failed\nhandle"):
    about = (type(error), error, None) if error else None
    return logging.LogRecord(name, logging.WARNING, "observers.py", 1, message, ("EventsWorker", "an event"), about)


LOST = [ConnectionRefusedError("refused"), TimeoutError(), asyncio.CancelledError(), httpx.ReadError("cut"),
        OSError("Multiple exceptions: [Errno 111] Connect call failed ('::1', 4200)")]  # fmt: skip


@pytest.mark.parametrize("error", LOST)
def test_a_service_that_lost_the_server_writes_nothing(error):
    assert is_about_lost_server(_record(error)) and is_about_lost_server(_record(error, "asyncio"))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("prefect.events.clients", "Unable to connect to 'ws://127.0.0.1:4200/api/events/in'. Please check"),
        ("prefect._internal.concurrency", "Service %r failed to process item %r"),
    ],
)
def test_a_service_that_does_not_name_the_error_writes_nothing_either(name, message):
    assert is_about_lost_server(_record(None, name, message))
    assert not is_about_lost_server(_record(None, name, "Service %r could not be stopped %r"))


@pytest.mark.parametrize("name", ["prefect.flow_runs", "prefect.flow_runs.worker", "prefect.task_runs"])
def test_what_a_run_says_of_a_lost_connection_is_a_line(name):
    record = _record(ConnectionRefusedError("refused"), name, "its store is lost %s\n%s")
    record.flow_run_name = record.task_run_name = "nightly"
    assert not is_about_lost_server(record)
    line = PlainLines().format(record)
    assert "\n" not in line and line.endswith("its store is lost EventsWorker an event (ConnectionRefusedError)")


@pytest.mark.parametrize("error", [KeyError("a"), PermissionError("no"), OSError(28, "No space left on device")])
def test_other_errors_keep_their_traceback(error):
    record = _record(error, message="%s of %s failed")
    assert not is_about_lost_server(record)
    assert PlainLines().format(record).splitlines()[-1] == f"{type(error).__name__}: {error}"


HEARS = """
import logging, sys, prefect.main
for line in sys.stdin:
    logging.getLogger("prefect.observer").warning("failed", exc_info=ConnectionRefusedError())
    logging.getLogger("prefect._internal.concurrency").error("Service %r failed to process item %r", 1, 2)
    logging.getLogger("prefect.worker").warning("a line")
"""


class Healthy(Serving):
    """A server that is asked whether it is well."""

    methods = ("GET",)

    def respond(self, handler) -> None:
        """Say yes."""
        self.send(handler, True)


@pytest.fixture
def healthy() -> Iterator[Healthy]:
    """It runs at the beginning; the test may close and open it."""
    server = Healthy()
    yield server
    server.close()


@pytest.fixture(params=["", "json"])
def log_format(request) -> str:
    """What CURATE_LOG_FORMAT says."""
    return request.param


@pytest.fixture
def worker_log(log_format, healthy) -> Iterator[subprocess.Popen]:
    """A process with the log of a worker that watches `healthy`; for each line that it is sent it logs three records.

    Two of them are of services that lost the server.
    """
    own = dict(re.findall(r"(PREFECT_LOGGING_\w+)=(\S+)", WORKER.read_text("utf-8")))
    own |= {"PREFECT_LOGGING_LEVEL": "INFO", "CURATE_LOG_FORMAT": log_format}
    own |= {"PREFECT_API_URL": f"{healthy.url}/api"}
    command = ["sh", "-c", 'export CURATE_WORKER_PID=$$; exec "$0" -c "$1"', sys.executable, HEARS]
    streams = {"stdin": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, env=os.environ | own, **streams) as process:
        yield process
        process.stdin.close()


def test_a_server_that_restarts_is_one_line_that_it_is_lost_then_one_that_it_answers(worker_log, log_format, healthy):
    port = int(healthy.url.rpartition(":")[2])

    def written() -> str:
        line = worker_log.stderr.readline()
        return json.loads(line)["message"] if log_format else line.partition("prefect.worker - ")[2].strip()

    def three_records() -> None:
        worker_log.stdin.write("three\n")
        worker_log.stdin.flush()

    three_records()
    assert written() == "a line"
    for _ in range(2):
        healthy.close()
        assert written().endswith("/api does not answer; it is asked again, and runs go on")
        three_records()
        assert written() == "a line"
        time.sleep(2 * WATCH_SECONDS)
        healthy.open(port)
        assert written().endswith("/api answers again")


def test_scheduled_runs_have_the_name_of_their_deployment_and_day_before_they_start(scheduling_server):
    with temporary_settings({PREFECT_API_URL: scheduling_server}), get_client(sync_client=True) as client:
        at_half_past_two = DeploymentScheduleCreate(schedule=CronSchedule(cron="30 2 * * *", timezone="UTC"))
        flow = client.create_flow_from_name("named")
        nightly = client.create_deployment(flow, "nightly", schedules=[at_half_past_two])
        of_nightly = FlowRunFilter(deployment_id=FlowRunFilterDeploymentId(any_=[nightly]))

        def scheduled() -> list[FlowRun]:
            return client.read_flow_runs(flow_run_filter=of_nightly)

        try:
            wait_until(scheduled)
            name_scheduled(nightly, "nightly")
            names = {run.name: name_of("nightly", run.expected_start_time) for run in scheduled()}
        finally:
            client.delete_deployment(nightly)
    assert names and all(name == expected for name, expected in names.items())
    assert all(re.fullmatch(r"nightly \d{4}-\d\d-\d\d", name) for name in names)
