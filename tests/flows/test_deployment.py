"""The deployments of prefect.yaml can be created and run by a worker on a real server."""

import hashlib
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.actions import WorkPoolCreate
from prefect.client.schemas.filters import ArtifactFilter, ArtifactFilterFlowRunId
from prefect.client.schemas.objects import FlowRun
from prefect.exceptions import PrefectHTTPStatusError
from prefect.flow_runs import resume_flow_run
from prefect.settings import PREFECT_API_URL

from tasks.demo.arena import generate_arena
from tests.hub_server import TOKEN, LoopbackHub
from tests.small_store import make_release, small_store
from tests.tampered_release import as_production
from tests.tasks.ingest.logs import chat, write

ADDRESS, MAILBOX = "203.0.113.199", "planted.person@example.com"
ROOT = Path(__file__).parents[2]
BACKFILL = "curate/backfill"
PREFECT = [sys.executable, "-m", "prefect", "--no-prompt"]


@pytest.fixture(scope="module")
def client(prefect_server):
    with get_client(sync_client=True) as client:
        yield client


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    """A folder with logs, which will also hold the store."""
    folder = tmp_path_factory.mktemp("operated")
    generate_arena(folder, conversations=20, battles=5, seed=9, images_max=8, problems=False)
    planted = chat("planted", f"Write to {MAILBOX}.", "I did.") | {"ip": ADDRESS}
    broken = f'{{"ip": "{ADDRESS}", "text": "{MAILBOX}"'.encode()
    write(folder / "logs", "vision-tmp-2024-05-30-conv.json", planted, broken)
    return folder


@pytest.fixture(scope="module")
def environment(client, place) -> dict[str, str]:
    return os.environ | {
        "PREFECT_API_URL": PREFECT_API_URL.value(),
        "CURATE_LOGS": str(place / "logs"),
        "CURATE_STORE": str(place / "store"),
        "CURATE_USER_KEY": "a key for the store of this test",
        "PREFECT_LOGGING_LEVEL": "INFO",
    }


@pytest.fixture(scope="module", autouse=True)
def deployed(client, environment) -> None:
    client.create_work_pool(WorkPoolCreate(name="curation", type="process"))
    done = subprocess.run(
        [*PREFECT, "deploy", "--all"], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def _ordered(client: SyncPrefectClient, name: str, **settings: Any) -> FlowRun:
    """A scheduled run of a deployment with changed settings."""
    deployment = client.read_deployment_by_name(name)
    parameters = {"settings": deployment.parameters["settings"] | settings}
    return client.create_flow_run_from_deployment(deployment.id, parameters=parameters)


def _work(environment: dict[str, str]) -> str:
    """Run a worker once, with every run that is scheduled; returns its output."""
    command = [*PREFECT, "worker", "start", "--pool", "curation", "--type", "process", "--run-once"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=500)
    return done.stdout + done.stderr


def _state(client: SyncPrefectClient, run: UUID) -> str:
    return client.read_flow_run(run).state_name or ""


@pytest.mark.parametrize("missing", ["CURATE_LOGS", "CURATE_STORE"])
def test_without_its_folders_nothing_is_deployed_and_one_line_says_so(environment, missing):
    without = {name: value for name, value in environment.items() if name != missing}
    done = subprocess.run(
        [*PREFECT, "deploy", "--all"], cwd=ROOT, env=without, capture_output=True, text=True, check=False
    )
    assert done.returncode != 0
    assert f"prefect deploy: {missing} not set" in done.stderr and "Traceback" not in done.stderr + done.stdout


def test_nightly_runs_once_a_night_and_never_twice_at_once(client):
    nightly = client.read_deployment_by_name("curate/nightly")
    (schedule,) = nightly.schedules
    assert schedule.schedule.cron == "30 2 * * *"
    assert nightly.global_concurrency_limit.limit == 1


@dataclass
class Operated:
    """Ids of the scheduled runs, and the output of the worker for each."""

    backfill: UUID
    nightly: UUID
    refreshed: UUID
    no_days: UUID
    printed: dict[UUID, str]


@pytest.fixture(scope="module")
def operated(client, environment, place) -> Operated:
    """A backfill; a nightly run together with a backfill whose days are reversed; a refreshed benchmark."""
    ordered = {
        "backfill": (BACKFILL, {"since": "2024-04-15", "until": "2024-06-30"}),
        "nightly": ("curate/nightly", {}),
        "refreshed": ("refresh-bench/refresh-bench", {"seed": 7, "bench": {"size": 4}, "release": "refreshed"}),
    }
    backwards = {"since": "2024-06-30", "until": "2024-06-01", "store": str(place / "untouched")}
    runs, printed = {}, {}
    for step, (name, settings) in ordered.items():
        runs[step] = _ordered(client, name, **settings).id
        if step == "nightly":
            runs["no_days"] = _ordered(client, BACKFILL, **backwards).id
        printed[runs[step]] = _work(environment)
    return Operated(**runs, printed=printed)


def _stages(client: SyncPrefectClient, run: UUID) -> list[str]:
    return [row["stage"] for row in json.loads(_artifacts(client, run)["stages"])]


def _artifacts(client: SyncPrefectClient, run: UUID) -> dict[str, str]:
    of_run = ArtifactFilter(flow_run_id=ArtifactFilterFlowRunId(any_=[run]))
    return {each.key: str(each.data) for each in client.read_artifacts(artifact_filter=of_run)}


def test_a_worker_runs_a_backfill_and_then_the_night_to_a_release(client, operated, place):
    for run in (operated.backfill, operated.nightly):
        assert _state(client, run) == "Completed", operated.printed[run]
    dated = sorted(folder.name for folder in (place / "store" / "releases").iterdir() if folder.name[0] == "2")
    assert len(dated) == 2
    assert all((place / "store" / "releases" / name / "manifest.json").exists() for name in dated)
    _shows_its_stages_and_no_person(client, operated.backfill, operated.printed[operated.backfill])


def test_a_refreshed_benchmark_is_released_and_nothing_is_read_or_measured_for_it(client, operated, place):
    assert _state(client, operated.refreshed) == "Completed", operated.printed[operated.refreshed]
    assert _stages(client, operated.refreshed) == ["topics", "bench", "failures", "drift", "rate", "report", "release"]
    manifest = json.loads((place / "store" / "releases" / "refreshed" / "manifest.json").read_text())
    assert manifest["counts"]["bench"] == 4 and manifest["settings"]["seed"] == 7


def _shows_its_stages_and_no_person(client: SyncPrefectClient, run: UUID, printed: str) -> None:
    artifacts = _artifacts(client, run)
    assert artifacts.keys() == {"stages", "progress", "funnel", "dropped", "release"}
    assert "take_in_images" in artifacts["stages"] and "pii_text" in artifacts["dropped"]
    for stage in ("read_logs", "decide", "release"):
        assert f'stage {{"stage": "{stage}", ' in printed
    for personal in (ADDRESS, MAILBOX):
        assert personal not in printed
        assert not any(personal in data for data in artifacts.values())


@pytest.mark.parametrize("wrong", [{"sinse": "2024-01-01"}, {"workers": "many"}])
def test_a_misspelt_or_mistyped_setting_is_refused_before_a_run_exists(client, wrong):
    with pytest.raises(PrefectHTTPStatusError, match="Validation failed"):
        _ordered(client, BACKFILL, **wrong)


def test_days_that_end_before_they_begin_fail_with_one_line_and_no_work(client, operated, place):
    state = client.read_flow_run(operated.no_days).state
    assert state.is_final() and not state.is_completed()
    assert "--until 2024-06-01 is before --since 2024-06-30" in state.message
    assert not (place / "untouched").exists()


@pytest.fixture
def hub():
    server = LoopbackHub()
    yield server
    server.close()


@pytest.fixture
def releasable(tmp_path) -> Path:
    """A release whose manifest names production providers."""
    store = small_store(tmp_path)
    make_release(store, release="1.0.0")
    release = Path(store.root) / "releases" / "1.0.0"
    as_production(release)
    return release


def test_nothing_is_published_before_somebody_approves_and_nothing_without(client, environment, hub, releasable):
    environment = environment | {"HF_ENDPOINT": hub.endpoint, "HF_TOKEN": TOKEN, "HF_HUB_DISABLE_XET": "1"}
    deployment = client.read_deployment_by_name("publish/publish")
    sealed = hashlib.sha256((releasable / "manifest.json").read_bytes()).hexdigest()[:12]
    answers = {
        "org/approved": (True, sealed, "Completed"),
        "org/refused": (False, sealed, "NotApproved"),
    }
    runs = {
        repo: client.create_flow_run_from_deployment(
            deployment.id, parameters={"release": str(releasable), "repo": repo}
        ).id
        for repo in answers
    }
    printed = _work(environment)
    assert [_state(client, run) for run in runs.values()] == ["Suspended"] * 2, printed
    assert hub.repos == {}
    for repo, run in runs.items():
        approve, manifest, _ = answers[repo]
        resume_flow_run(run, run_input={"approve": approve, "approved_by": "A. Person", "manifest": manifest})
    printed = _work(environment)
    assert [_state(client, run) for run in runs.values()] == [after for *_, after in answers.values()], printed
    assert {name: list(repo.tags) for name, repo in hub.repos.items()} == {"org/approved": ["1.0.0"]}
