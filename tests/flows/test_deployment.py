"""The deployments of prefect.yaml can be created and run by a worker on a real server."""

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.actions import WorkPoolCreate
from prefect.client.schemas.filters import (
    ArtifactFilter,
    ArtifactFilterFlowRunId,
    FlowRunFilter,
    FlowRunFilterParentFlowRunId,
)
from prefect.client.schemas.objects import FlowRun
from prefect.exceptions import PrefectHTTPStatusError
from prefect.flow_runs import resume_flow_run
from prefect.settings import PREFECT_API_URL

from tasks.demo.arena import generate_arena
from tests.builders import USER_KEY
from tests.flows.conftest import take_over_probes
from tests.hub_server import TOKEN, LoopbackHub
from tests.small_store import make_release, small_store
from tests.tampered_release import as_production
from tests.tasks.ingest.logs import chat, write

ADDRESS, MAILBOX = "203.0.113.199", "planted.person@example.com"
ROOT = Path(__file__).parents[2]
NIGHTLY, BACKFILL = "curate/nightly", "curate/backfill"
ANSWERS = {"org/approved": True, "org/refused": False}
"""Repository -> whether publishing to it is approved."""
PREFECT = [sys.executable, "-m", "prefect", "--no-prompt"]


@pytest.fixture(scope="module")
def client(prefect_server):
    with get_client(sync_client=True) as client:
        yield client


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    """A folder with logs, which will also hold the store."""
    folder = tmp_path_factory.mktemp("operated")
    generate_arena(folder, conversations=7, battles=3, seed=9, images_max=4, problems=False)
    planted = chat("planted", f"Write to {MAILBOX}.", "I did.") | {"ip": ADDRESS}
    broken = f'{{"ip": "{ADDRESS}", "text": "{MAILBOX}"'.encode()
    write(folder / "logs", "vision-tmp-2024-05-30-conv.json", planted, broken)
    (folder / "curate.yaml").write_text("logs: logs\nstore: store\n")
    return folder


@pytest.fixture(scope="module")
def hub() -> Iterator[LoopbackHub]:
    server = LoopbackHub()
    yield server
    server.close()


@pytest.fixture(scope="module")
def environment(client, place, hub) -> dict[str, str]:
    hugging_face = {"HF_ENDPOINT": hub.endpoint, "HF_TOKEN": TOKEN, "HF_HUB_DISABLE_XET": "1"}
    return (
        os.environ
        | hugging_face
        | {
            "PREFECT_API_URL": PREFECT_API_URL.value(),
            "CURATE_CONFIG": str(place / "curate.yaml"),
            "CURATE_USER_KEY": USER_KEY,
            "PREFECT_LOGGING_LEVEL": "INFO",
        }
    )


@pytest.fixture(scope="module", autouse=True)
def deployed(client, environment) -> None:
    client.create_work_pool(WorkPoolCreate(name="curation", type="process"))
    command = [*PREFECT, "deploy", "--all"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
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


@pytest.fixture(scope="module")
def releasable(tmp_path_factory) -> Path:
    """A release whose manifest names production providers."""
    store = small_store(tmp_path_factory.mktemp("releasable"))
    make_release(store, release="1.0.0")
    release = Path(store.root) / "releases" / "1.0.0"
    as_production(release)
    return release


@dataclass
class Operated:
    """Ids of the scheduled runs, and what the two workers printed."""

    nightly: UUID
    backfill: UUID
    no_days: UUID
    refreshed: UUID
    published: dict[str, UUID]
    """Repository -> run that publishes to it."""
    printed: list[str]
    unasked: tuple[list[str], set[str]]
    """States of the runs that publish, and repositories of the hub, before anybody answered."""


@pytest.fixture(scope="module")
def operated(client, environment, place, hub, releasable, backfilled) -> Operated:
    """One worker for a night and a backfill at once, and two runs that publish; then a second one.

    The second worker runs a new draw of the benchmark, a backfill whose days are reversed, and the runs that publish,
    which somebody has answered; nothing can be learned any more about the repository for which the answer is no.
    """
    take_over_probes(backfilled, str(place / "store"))
    backwards = {"since": "2024-06-30", "until": "2024-06-01", "store": str(place / "untouched")}
    nightly, backfill = _ordered(client, NIGHTLY).id, _ordered(client, BACKFILL).id
    publish = client.read_deployment_by_name("publish/publish").id
    published = {
        repo: client.create_flow_run_from_deployment(publish, parameters={"release": str(releasable), "repo": repo}).id
        for repo in ANSWERS
    }
    printed = [_work(environment)]
    unasked = [_state(client, run) for run in published.values()], set(hub.repos)
    sealed = hashlib.sha256((releasable / "manifest.json").read_bytes()).hexdigest()[:12]
    for repo, run in published.items():
        answer = {"approve": ANSWERS[repo], "approved_by": "A. Person", "manifest": sealed}
        resume_flow_run(run, run_input=answer)
    hub.fail("GET", "org/refused", 401, times=1_000)
    with (place / "curate.yaml").open("a") as file:  # and nothing is deployed again
        file.write("seed: 7\nbench: {size: 2}\n")
    refreshed = _ordered(client, "refresh-bench/refresh-bench", release="refreshed").id
    no_days = _ordered(client, BACKFILL, **backwards).id
    printed.append(_work(environment))
    return Operated(nightly, backfill, no_days, refreshed, published, printed, unasked)


def _stages(client: SyncPrefectClient, run: UUID) -> list[str]:
    return [row["stage"] for row in json.loads(_artifacts(client, run)["stages"])]


def _artifacts(client: SyncPrefectClient, run: UUID) -> dict[str, str]:
    of_run = ArtifactFilter(flow_run_id=ArtifactFilterFlowRunId(any_=[run]))
    return {each.key: str(each.data) for each in client.read_artifacts(artifact_filter=of_run)}


def _inside(client: SyncPrefectClient, *runs: UUID) -> list[FlowRun]:
    """The stages of runs."""
    within = FlowRunFilterParentFlowRunId(any_=list(runs))
    return client.read_flow_runs(flow_run_filter=FlowRunFilter(parent_flow_run_id=within))


def test_a_worker_runs_the_night_to_a_release_in_stages_named_by_day_and_tagged(client, operated, place):
    assert _state(client, operated.nightly) == "Completed", operated.printed[0]
    dated = sorted(folder for folder in (place / "store" / "releases").iterdir() if folder.name[0] == "2")
    assert len(dated) == 1 and (dated[0] / "manifest.json").exists()
    _shows_its_stages_and_no_person(client, operated.nightly, operated.printed[0])
    stages, of_both = _inside(client, operated.nightly), _inside(client, operated.nightly, operated.backfill)
    day = f"{client.read_flow_run(operated.nightly).expected_start_time:%Y-%m-%d}"
    assert {run.name for run in stages} >= {f"canaries {day}", f"ingest {day}"}
    assert {"screen", "describe"} <= {run.name.split()[0] for run in of_both}  # the second finds nothing new
    assert all(run.name.endswith(day) and {"curation", "nightly"} <= set(run.tags) for run in stages)


def test_of_a_night_and_a_backfill_at_once_one_waits_for_the_other_and_both_complete(client, operated):
    states = [
        [state.name for state in client.read_flow_run_states(run)] for run in (operated.nightly, operated.backfill)
    ]
    assert [names[-1] for names in states] == ["Completed"] * 2, operated.printed[0]
    assert sum("Waiting" in names for names in states) == 1, states
    assert "another run has been writing to store" in operated.printed[0]


def test_changed_settings_hold_without_a_new_deploy_and_days_that_end_before_they_begin_fail(client, operated, place):
    assert _state(client, operated.refreshed) == "Completed", operated.printed[1]
    drawn = ["topics", "bench", "bench_failures", "measure_answers"]
    assert _stages(client, operated.refreshed) == [*drawn, "check_providers", "drift", "rate", "report", "release"]
    manifest = json.loads((place / "store" / "releases" / "refreshed" / "manifest.json").read_text())
    assert manifest["counts"]["bench"] == 2 and manifest["settings"]["seed"] == 7
    state = client.read_flow_run(operated.no_days).state
    assert state.is_final() and not state.is_completed()
    assert 'field "until" 2024-06-01 is before field "since" 2024-06-30' in state.message
    assert not (place / "untouched").exists()


def _shows_its_stages_and_no_person(client: SyncPrefectClient, run: UUID, printed: str) -> None:
    artifacts = _artifacts(client, run)
    assert artifacts.keys() == {"stages", "progress", "funnel", "dropped", "release"}
    assert "take_in_images" in artifacts["stages"] and "pii_text" in artifacts["dropped"]
    for stage in ("read_logs", "decide", "release"):
        assert f'stage {{"stage": "{stage}", ' in printed
    for personal in (ADDRESS, MAILBOX):
        assert personal not in printed
        assert not any(personal in data for data in artifacts.values())


def test_deploying_schedules_the_coming_nights_under_their_names(client):
    nightly = client.read_deployment_by_name(NIGHTLY).id
    runs = client.read_flow_runs(flow_run_filter=FlowRunFilter(deployment_id={"any_": [nightly]}))
    coming = [run for run in runs if run.auto_scheduled]
    assert len(coming) >= 3
    assert {run.name for run in coming} == {f"nightly {run.expected_start_time:%Y-%m-%d}" for run in coming}


@pytest.mark.parametrize("wrong", [{"sinse": "2024-01-01"}, {"workers": "many"}])
def test_a_misspelt_or_mistyped_setting_is_refused_before_a_run_exists(client, wrong):
    with pytest.raises(PrefectHTTPStatusError, match="Validation failed"):
        _ordered(client, BACKFILL, **wrong)


def test_nothing_is_published_before_somebody_approves_and_nothing_without(client, operated, hub):
    assert operated.unasked == (["Suspended"] * 2, set()), operated.printed[0]
    states = {repo: _state(client, run) for repo, run in operated.published.items()}
    assert states == {"org/approved": "Completed", "org/refused": "NotApproved"}, operated.printed[1]
    assert {name: list(repo.tags) for name, repo in hub.repos.items()} == {"org/approved": ["1.0.0"]}
