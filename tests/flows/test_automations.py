"""docs/automations.yaml creates automations on a real server, for the deployments of prefect.yaml."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest
import yaml
from prefect.blocks.notifications import CustomWebhookNotificationBlock
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.actions import WorkPoolCreate
from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterParentFlowRunId
from prefect.client.schemas.objects import FlowRun
from prefect.events import Event
from prefect.events.schemas.automations import AutomationCore
from prefect.settings import PREFECT_API_URL, temporary_settings
from prefect.states import Completed, Failed, Running

from flows.running.killed_runs import KILLED_MESSAGE
from schemas.settings import Settings
from tests.flows.test_run_states import within
from tests.http_server import HttpServer, Reply
from tests.waiting import wait_until

ROOT = Path(__file__).parents[2]
AUTOMATIONS = (ROOT / "docs" / "automations.yaml").read_text()
NOBODY = "00000000-0000-0000-0000-000000000000"
SECONDS = 10
"""The shortest time that Prefect lets an automation wait for what does not happen."""


@pytest.fixture(scope="module")
def made(prefect_server) -> dict[str, dict]:
    """The automations that the server created from the file, by name."""
    block = CustomWebhookNotificationBlock(name="test", url="http://127.0.0.1:9/told")
    told = str(block.save("told", overwrite=True))
    written = AUTOMATIONS.replace(NOBODY, told)
    with get_client(sync_client=True) as client:
        for each in yaml.safe_load(written)["automations"]:  # as `prefect automation create --from-file` does
            client.create_automation(AutomationCore.model_validate(each))
        return {each.name: json.loads(each.model_dump_json()) for each in client.read_automations()}


def test_the_server_makes_all_of_the_deployments_and_tells_through_the_block(made):
    assert made.keys() == {"end killed runs", "curation failed", "over budget", "no night for 26 hours"}
    assert all(each["enabled"] for each in made.values())
    told = [made[name]["actions"][0]["block_document_id"] for name in made if name != "end killed runs"]
    assert NOBODY not in told
    assert made["no night for 26 hours"]["trigger"]["within"] == 26 * 3600
    deployed = [each["name"] for each in yaml.safe_load((ROOT / "prefect.yaml").read_text())["deployments"]]
    assert set(made["curation failed"]["trigger"]["match_related"]["prefect.resource.name"]) == set(deployed)
    assert made["no night for 26 hours"]["trigger"]["match_related"]["prefect.resource.name"] in deployed
    tag = made["end killed runs"]["trigger"]["match_related"]["prefect.resource.id"]
    tags = [each["tags"] for each in yaml.safe_load((ROOT / "prefect.yaml").read_text())["deployments"]]
    assert all(tag.removeprefix("prefect.tag.") in each for each in tags)


@pytest.fixture(scope="module")
def server(scheduling_server) -> Iterator[str]:
    """The address of a server that runs automations, as this process's."""
    with temporary_settings({PREFECT_API_URL: scheduling_server}):
        yield scheduling_server


ASLEEP = """
import os, pathlib, time
from flows.running.checked_flow import flow
from flows.running.checked_flow import one_writer
from schemas.run import StageReport
from schemas.settings import Settings

@flow(name="inner")
@one_writer
def inner(settings: Settings):
    yield StageReport(stage="measure_documents", failures={{"categories: budget_reached": 7}})
    pathlib.Path({pid!r}).write_text(str(os.getpid()))
    time.sleep(600)

@flow(name="asleep")
@one_writer
def asleep(settings: Settings):
    yield from inner(settings)
"""


@pytest.fixture(scope="module")
def nights(server) -> Iterator[Future]:
    """How often an alarm was given while no night was, nights were and no more were completed; what it said.

    The tests with a worker run while the alarm is waited for.
    """
    told = HttpServer()
    told.answer(Reply({}))
    block = CustomWebhookNotificationBlock(name="told", url=f"{told.url}/told", json_data={"text": "{{subject}}"})

    def waits() -> tuple[list[int], list[str]]:
        wait_until(lambda: told.requests)
        deployment = client.create_deployment(client.create_flow_from_name("nights"), "nightly")
        for _ in range(6):
            client.create_flow_run_from_deployment(deployment, state=Completed())
            time.sleep(2)
        before = len(told.requests)
        wait_until(lambda: len(told.requests) > before)
        return [before, len(told.requests)], [request["text"] for request in told.requests]

    with closing(told), get_client(sync_client=True) as client, ThreadPoolExecutor(1) as beside:
        client.create_automation(shipped_automation("no night for 26 hours", str(block.save("told")), within=SECONDS))
        yield beside.submit(waits)


@pytest.fixture(scope="module")
def worker(server, nights, tmp_path_factory) -> Iterator[subprocess.Popen]:
    """A worker with a pool `killed`, whose runs send a heartbeat as they begin. The last test with it kills it."""
    environment = os.environ | {"PREFECT_API_URL": server, "PREFECT_HOME": str(tmp_path_factory.mktemp("worker"))}
    environment |= {"PREFECT_FLOWS_HEARTBEAT_FREQUENCY": "180", "PREFECT_WORKER_QUERY_SECONDS": "1"}
    prefect, worker = [sys.executable, "-m", "prefect", "--no-prompt"], ["worker", "start", "--type", "process"]
    command = [*prefect, *worker, "--pool", "killed"]
    with get_client(sync_client=True) as client:
        client.create_work_pool(WorkPoolCreate(name="killed", type="process"))
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@pytest.fixture
def told(server) -> Iterator[Callable[[], list[str]]]:
    """What a webhook on this machine was told, by the shipped automations that tell at once."""
    listening = HttpServer()
    listening.answer(Reply({}))
    text = {"text": "{{subject}} | {{body}}"}
    block = CustomWebhookNotificationBlock(name="hears", url=f"{listening.url}/told", json_data=text)
    with get_client(sync_client=True) as client, closing(listening):
        for name in ("curation failed", "over budget"):
            client.create_automation(shipped_automation(name, str(block.save("hears", overwrite=True))))
        time.sleep(3)  # until the server has read the new automations
        yield lambda: [request["text"].removeprefix("arena curation: ") for request in listening.requests]


def test_a_run_that_is_held_over_budget_or_killed_is_told_and_its_line_is_ours(server, worker, told, tmp_path):
    """The worker lives, and says of the killed run what Prefect says; the run's flow then says it better."""
    pid = tmp_path / "pid"
    with get_client(sync_client=True) as client:
        nightly = _asleep(client, pid, tmp_path)
        line = "held before the release: openai failed for 5 of 9 items"
        client.create_flow_run_from_deployment(nightly.deployment_id, state=Failed(name="Held", message=line), name="x")
        wait_until(pid.exists, worker)
        wait_until(lambda: len(told()) == 2)
        left = "left items for a later run; raise what limits the cost, or let the next nights catch up."
        assert set(told()) == {
            f"curation failed | x: {line}",
            f"over budget | {client.read_flow_run(nightly.id).name} {left}",
        }
        os.kill(int(pid.read_text()), signal.SIGKILL)
        wait_until(lambda: client.read_flow_run(nightly.id).state.name == "Killed")  # Prefect's line comes first
        assert client.read_flow_run(nightly.id).state.message == KILLED_MESSAGE
        assert client.read_flow_run(nightly.id).state.is_crashed()
        inside = FlowRunFilter(parent_flow_run_id=FlowRunFilterParentFlowRunId(any_=[nightly.id]))
        (inner,) = client.read_flow_runs(flow_run_filter=inside)
        assert inner.state.is_running()
        within(Settings(store=str(tmp_path / "store")))  # the next run of the store
        assert client.read_flow_run(inner.id).state.name == "Killed"
        wait_until(lambda: len(told()) == 3)
        assert told()[2].endswith("The next run continues its work.")
        assert told()[2].count("The next run") == 1
        time.sleep(2)
        assert len(told()) == 3  # once


def _asleep(client: SyncPrefectClient, pid: Path, folder: Path) -> FlowRun:
    """A run of a deployment `nightly` that the worker starts, and that sleeps."""
    code = folder / "code"
    code.mkdir()
    (code / "asleep.py").write_text(ASLEEP.format(pid=str(pid)))
    place = {"path": str(code), "entrypoint": "asleep.py:asleep", "work_pool_name": "killed", "tags": ["curation"]}
    place["parameters"] = {"settings": {"store": str(folder / "store")}}
    flow = client.create_flow_from_name("asleep")
    return client.create_flow_run_from_deployment(client.create_deployment(flow, "nightly", **place))


def test_a_run_that_is_killed_with_its_worker_is_crashed_and_a_run_of_others_is_not(server, worker, tmp_path):
    """Both get SIGKILL; the shipped automation waits seconds here. The run of others is one that nobody runs.

    The run of its inner flow is ended like that of the deployment.
    """
    pid = tmp_path / "pid"
    with get_client(sync_client=True) as client:
        # a busy machine starts two runs
        client.create_automation(shipped_automation("end killed runs", within=3 * SECONDS))
        flow = client.create_flow_from_name("asleep")
        others = client.create_flow_run_from_deployment(client.create_deployment(flow, "of others"), state=Running())
        time.sleep(3)  # until the server has read the new automation
        earlier = _alive(client)
        client._client.post("/events", json=[_heartbeat("of others", others)]).raise_for_status()
        nightly = _asleep(client, pid, tmp_path)
        wait_until(lambda: len(_alive(client) - earlier) == 3, worker)
        of_nightly = FlowRunFilter(parent_flow_run_id=FlowRunFilterParentFlowRunId(any_=[nightly.id]))
        (inner,) = client.read_flow_runs(flow_run_filter=of_nightly)
        assert client.read_flow_run(nightly.id).state.is_running() and inner.state.is_running()
        worker.kill()
        os.kill(int(pid.read_text()), signal.SIGKILL)
        wait_until(lambda: client.read_flow_run(nightly.id).state.is_crashed())
        assert "no heartbeat" in client.read_flow_run(nightly.id).state.message
        wait_until(lambda: client.read_flow_run(inner.id).state.is_crashed())
        assert client.read_flow_run(others.id).state.is_running()


def test_a_run_that_is_killed_before_its_first_heartbeat_is_crashed(server):
    with get_client(sync_client=True) as client:
        automation = client.create_automation(shipped_automation("end killed runs", within=SECONDS))
        time.sleep(3)  # until the server has read the new automation
        flow = client.create_flow_from_name("killed at once")
        ours = client.create_deployment(flow, "nightly at once", tags=["curation"])
        run = client.create_flow_run_from_deployment(ours, state=Running())
        wait_until(lambda: client.read_flow_run(run.id).state.is_crashed())
        client.delete_automation(automation)
        assert "no heartbeat" in client.read_flow_run(run.id).state.message


def test_an_alarm_is_given_when_no_night_was_ever_completed_and_again_when_nights_stop(nights):
    counts, said = nights.result()
    assert counts == [1, 2]
    assert "no night for 26 hours" in said[1]


def shipped_automation(name: str, block: str = NOBODY, **trigger: object) -> AutomationCore:
    """A shipped automation that tells through a block."""
    (one,) = [
        each for each in yaml.safe_load(AUTOMATIONS.replace(NOBODY, block))["automations"] if each["name"] == name
    ]
    one["trigger"] |= trigger
    return AutomationCore.model_validate(one)


def _alive(client: SyncPrefectClient) -> set[str]:
    """The runs that have sent a heartbeat."""
    asked = {"filter": {"event": {"name": ["prefect.flow-run.heartbeat"]}}}
    return {
        each["resource"]["prefect.resource.id"]
        for each in client._client.post("/events/filter", json=asked).json()["events"]
    }


def _heartbeat(deployment: str, run: FlowRun) -> dict:
    """The event that Prefect sends for a running flow."""
    related = {
        "prefect.resource.role": "deployment",
        "prefect.resource.name": deployment,
        "prefect.resource.id": f"prefect.deployment.{run.deployment_id}",
    }
    resource = {"prefect.resource.id": f"prefect.flow-run.{run.id}", "prefect.resource.name": run.name}
    event = Event(event="prefect.flow-run.heartbeat", resource=resource, related=[related])
    return event.model_dump(mode="json")
