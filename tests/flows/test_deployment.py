"""prefect.yaml deploys as it is, to a real server."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from prefect.client.orchestration import get_client
from prefect.client.schemas.actions import WorkPoolCreate
from prefect.settings import PREFECT_API_URL

from flows.curate import curate

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def nightly(prefect_server):
    """The `nightly` deployment as the server has it after `prefect deploy --all`."""
    environment = os.environ | {
        "PREFECT_API_URL": PREFECT_API_URL.value(),
        "CURATE_LOGS": "logs of the arena",
        "CURATE_STORE": "s3://bucket/store",
    }
    with get_client(sync_client=True) as client:
        client.create_work_pool(WorkPoolCreate(name="curation", type="process"))
        command = [sys.executable, "-m", "prefect", "--no-prompt", "deploy", "--all"]
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return client.read_deployment_by_name("curate/nightly")


def test_nightly_runs_once_a_night_and_never_twice_at_once(nightly):
    (schedule,) = nightly.schedules
    assert schedule.schedule.cron == "30 2 * * *"
    assert nightly.global_concurrency_limit.limit == 1


def test_nightly_passes_parameters_the_flow_takes(nightly):
    settings = curate.validate_parameters(nightly.parameters)["settings"]
    assert (settings.logs, settings.store) == ("logs of the arena", "s3://bucket/store")
