"""Lines of Prefect's log as `deploy/worker.sh` asks for them, and names of runs that the scheduler has made."""

import json
import logging
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from prefect.client.orchestration import get_client
from prefect.client.schemas.actions import DeploymentScheduleCreate
from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterDeploymentId
from prefect.client.schemas.objects import FlowRun
from prefect.client.schemas.schedules import CronSchedule
from prefect.settings import PREFECT_API_URL, temporary_settings

from flows.running.log_lines import PlainLines
from flows.running.run_names import name_of, name_scheduled
from tests.waiting import wait_until

WORKER = Path(__file__).parents[2] / "deploy" / "worker.sh"


def _record(error: BaseException) -> logging.LogRecord:
    about = (type(error), error, None)
    return logging.LogRecord("prefect.observer", logging.WARNING, "observers.py", 1, "it failed\nhandle", (), about)


@pytest.mark.parametrize("error", [ConnectionRefusedError("refused"), TimeoutError(), ConnectionResetError()])
def test_a_server_that_is_away_is_one_line_without_a_traceback(error):
    line = PlainLines().format(_record(error))
    assert "\n" not in line and line.endswith(f"it failed handle ({type(error).__name__})")


def test_other_errors_keep_their_traceback():
    assert PlainLines().format(_record(KeyError("a"))).endswith("KeyError: 'a'")


@pytest.mark.parametrize("kind", ["PlainLines", "JsonLines"])
def test_prefect_takes_the_formatter_that_the_worker_names_in_the_environment(kind):
    exported = dict(re.findall(r"(PREFECT_LOGGING_\w+)=['\"]?([^'\" \n]+)", WORKER.read_text("utf-8")))
    exported["PREFECT_LOGGING_FORMATTERS_JSON_CLASS"] = f"flows.running.log_lines.{kind}"
    code = "from prefect.logging import get_logger; import prefect.main; get_logger('worker').warning('a line')"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | exported | {"PREFECT_LOGGING_LEVEL": "INFO"},
        capture_output=True,
        text=True,
        check=True,
    )
    if kind == "JsonLines":
        assert json.loads(done.stderr)["message"] == "a line"
    else:
        assert re.fullmatch(r"\d\d:\d\d:\d\d\.\d{3} \| WARNING \| prefect.worker - a line\n", done.stderr)


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
