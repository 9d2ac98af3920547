"""Money and drift as an operator meets them: a run of a worker is held, somebody is told, and its line is pasted."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
from prefect.blocks.notifications import CustomWebhookNotificationBlock
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.actions import WorkPoolCreate
from prefect.client.schemas.objects import FlowRun
from prefect.settings import PREFECT_API_URL, temporary_settings

from tasks.demo.arena import generate_arena
from tasks.storage.records import run_records
from tasks.storage.tables import Store
from tasks.upkeep.standing import month_costs
from tests.batch_server import NO_CATEGORIES, BatchServer, result
from tests.builders import USER_KEY
from tests.flows.conftest import take_over_probes
from tests.flows.test_automations import shipped_automation
from tests.flows.test_drift import drifted_store
from tests.http_server import HttpServer, Reply
from tests.places import ROOT
from tests.waiting import wait_until

pytest.importorskip("openai", reason="production extra")
PREFECT = [sys.executable, "-m", "prefect", "--no-prompt"]
BUDGET_USD = 0.0001


def _is_up() -> bool:
    """Whether the server still answers: it ends with the last test of all that uses it."""
    with suppress(httpx.ConnectError):
        return httpx.get(f"{PREFECT_API_URL.value()}/health").is_success
    return False


@pytest.fixture(scope="module")
def client(scheduling_server) -> Iterator[SyncPrefectClient]:
    """A client of a server that runs automations."""
    with temporary_settings({PREFECT_API_URL: scheduling_server}), get_client(sync_client=True) as client:
        yield client


@pytest.fixture(scope="module")
def vendor() -> Iterator[BatchServer]:
    """A paid service whose batches take until somebody lets them end."""
    server = BatchServer(lambda rows: b"".join(result(row, NO_CATEGORIES) for row in rows))
    server.hold = True
    with closing(server):
        yield server


@pytest.fixture(scope="module")
def told(client) -> Iterator[list[dict[str, Any]]]:
    """What somebody hears whom the shipped automation tells of runs that failed or were held."""
    for automation in client.read_automations():  # of other tests, which end runs after seconds
        client.delete_automation(automation.id)
    server = HttpServer()
    server.answer(Reply({}))
    text = {"text": "{{subject}} | {{body}}"}
    block = CustomWebhookNotificationBlock(name="held", url=f"{server.url}/told", json_data=text)
    made = client.create_automation(shipped_automation("curation failed", str(block.save("held", overwrite=True))))
    with closing(server):
        yield server.requests
        if _is_up():
            client.delete_automation(made)


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    """A folder with the logs and the settings file of an arena."""
    folder = tmp_path_factory.mktemp("paid")
    generate_arena(folder, conversations=7, battles=3, seed=9, images_max=4, problems=False)
    (folder / "curate.yaml").write_text("logs: logs\nstore: store\n")
    return folder


@pytest.fixture(scope="module")
def ordered(client, place, vendor, told, backfilled) -> Iterator[Callable[..., FlowRun]]:
    """A run of a deployment with changed settings, at its end: a worker has run it."""
    take_over_probes(backfilled, str(place / "store"))
    environment = os.environ | {
        "PREFECT_API_URL": PREFECT_API_URL.value(),
        "PREFECT_WORKER_QUERY_SECONDS": "1",
        "CURATE_CONFIG": str(place / "curate.yaml"),
        "CURATE_USER_KEY": USER_KEY,
        "OPENAI_API_KEY": "test-key",
        "OPENAI_BASE_URL": f"{vendor.url}/openai/v1",
    }
    client.create_work_pool(WorkPoolCreate(name="curation", type="process"))
    deploy = subprocess.run([*PREFECT, "deploy", "--all"], cwd=ROOT, env=environment, capture_output=True, text=True)
    assert deploy.returncode == 0, deploy.stdout + deploy.stderr
    start_worker = [*PREFECT, "worker", "start", "--pool", "curation", "--type", "process"]
    log = place / "worker.log"

    def run(name: str, **settings: Any) -> FlowRun:
        deployment = client.read_deployment_by_name(name)
        parameters = {"settings": deployment.parameters["settings"] | settings}
        made = client.create_flow_run_from_deployment(deployment.id, parameters=parameters)
        wait_until(lambda: client.read_flow_run(made.id).state.is_final(), worker)
        flow_run = client.read_flow_run(made.id)
        assert flow_run.state.name in ("Completed", "Held"), f"{flow_run.state.message}\n{log.read_text()[-3000:]}"
        return flow_run

    with log.open("w") as output:
        worker = subprocess.Popen(start_worker, env=environment, stdout=output, stderr=subprocess.STDOUT)
    try:
        yield run
    finally:
        worker.kill()
        worker.wait()
        if _is_up():
            for deployment in client.read_deployments():
                client.delete_deployment(deployment.id)
            client.delete_work_pool("curation")


def bought(**more: Any) -> dict[str, Any]:
    """Settings of a night that asks the paid service for categories, in a batch for which no night waits."""
    return {"providers": {"categories": "openai"}, "batch": True, "batch_hours": 0.0} | more


def fields_in(line: str) -> dict[str, Any]:
    """What somebody pastes into the form of a deployment who reads the line of a held run."""
    fields = re.findall(r'field "(\w+)" (\{.*?\}|[^\s;,:]*[^\s;,:.])', line)
    return {name: json.loads(value) if value[0] in '{"0123456789tf' else value for name, value in fields}


@pytest.fixture(scope="module")
def over_budget(ordered, vendor) -> FlowRun:
    return ordered("curate/nightly", **bought(budget_usd=BUDGET_USD))


def test_a_night_over_its_budget_is_held_with_nothing_sent(over_budget, vendor):
    assert (over_budget.state.name, len(vendor.batches)) == ("Held", 0), over_budget.state.message


def test_somebody_is_told_the_line_of_a_held_night(over_budget, told):
    wait_until(lambda: any(over_budget.name in request["text"] for request in told))
    lines = [request["text"] for request in told if over_budget.name in request["text"]]
    assert lines == [f"arena curation: curation failed | {over_budget.name}: {over_budget.state.message}"]


def test_the_line_of_a_held_night_names_its_budget_and_the_way_to_spend_a_part(over_budget):
    assert fields_in(over_budget.state.message) == {"budget_usd": BUDGET_USD, "over_budget": "part"}


@pytest.fixture(scope="module")
def collected(ordered, over_budget, vendor) -> list[FlowRun]:
    """A night with a budget that is enough, which sends its batch, and the next one, when the batch has ended."""
    enough = fields_in(over_budget.state.message) | {"budget_usd": 10_000 * BUDGET_USD}
    sending = ordered("curate/nightly", **bought(**enough))
    vendor.hold = False
    return [sending, ordered("curate/nightly", **bought(**enough))]


def test_a_night_collects_the_batch_of_the_night_before(collected, vendor, place):
    assert [night.state.name for night in collected] == ["Completed", "Completed"]
    store = Store(str(place / "store"))
    assert len(vendor.batches) == 1
    assert len(vendor.requests) == store.height("signals/categories") > 0
    assert store.fs.find(store.at("batches")) == []


def test_the_month_counts_each_request_of_paid_nights_at_its_confirmed_price(collected, vendor, place):
    (cost,) = month_costs(run_records(Store(str(place / "store"))), datetime.now(UTC))
    assert cost.requests == len(vendor.requests) + vendor.single_calls
    assert cost.usd > 0
    assert cost.usd_unconfirmed == pytest.approx(0, abs=1e-9)


@pytest.fixture(scope="module")
def drift_held(ordered, tmp_path_factory) -> tuple[str, FlowRun]:
    """A store whose shares of drops changed, and the run that was to release it."""
    store = str(drifted_store(tmp_path_factory.mktemp("drifted")))
    return store, ordered("release/release", store=store)


def test_a_release_after_a_drift_is_held(drift_held):
    _, held = drift_held
    assert held.state.name == "Held"
    assert held.state.message.startswith("held before the release: ")


def test_a_release_after_a_drift_is_made_with_what_its_line_says(drift_held, ordered):
    store, held = drift_held
    assert fields_in(held.state.message) == {"accept_drift": True}
    ordered("release/release", store=store, accept_drift=True)
    assert len(list(Path(store).glob("releases/*/manifest.json"))) == 1
