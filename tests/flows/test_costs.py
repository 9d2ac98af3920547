"""A night that asks paid services says what it will cost, is held when that is too much, and never spends more."""

import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from flows.curate import curate as curate_flow
from schemas.run import Estimate, Prices, StageReport, Use
from schemas.settings import Settings
from tasks.demo.arena import generate_arena
from tasks.runtime.budget import load_prices
from tasks.storage.layout import state_layout
from tasks.storage.records import RunRecord, left_for_later, run_records
from tasks.storage.tables import Store
from tasks.upkeep.standing import month_costs
from tests.batch_server import NO_CATEGORIES, BatchServer, result
from tests.builders import NOON
from tests.counting_server import MODEL, CountingServer

pytest.importorskip("openai", reason="production extra")
from flows.running.costs import _by_service

SERVICE = f"openai-{MODEL}"
MONEY = re.compile(r"[$]|US dollars|price|budget|cost")


@pytest.fixture(scope="module")
def logs(tmp_path_factory) -> Path:
    """Logs of a small arena."""
    folder = tmp_path_factory.mktemp("paid")
    generate_arena(folder, conversations=12, battles=3, seed=9, images_max=1, problems=False)
    return folder / "logs"


@pytest.fixture
def server(monkeypatch):
    """A server that bills what it counts."""
    monkeypatch.setenv("OPENAI_API_KEY", "test-key")
    counting = CountingServer()
    monkeypatch.setenv("OPENAI_BASE_URL", f"{counting.url}/v1")
    yield counting
    counting.close()


def _record(store: Path) -> dict[str, Any]:
    """The newest run record."""
    return json.loads(max((store / "runs").iterdir()).read_text())


def _expected(store: Path) -> dict[str, Any]:
    """What the newest run expected to cost at the only service."""
    (stage,) = (stage for stage in _record(store)["stages"] if stage["stage"] == "costs")
    (cost,) = stage["expected"]
    return cost


def _failures(store: Path) -> dict[str, int]:
    """Items that the newest run could not measure, by signal and reason."""
    return {cause: count for stage in _record(store)["stages"] for cause, count in stage["failures"].items()}


@pytest.mark.usefixtures("prefect_server")
def test_a_night_is_held_before_it_sends_stops_at_its_budget_and_the_next_one_goes_on(curate, logs, server, tmp_path):
    root = tmp_path / "store"
    command = ("run", "--logs", logs, "--store", root, "--provider", "categories=openai")
    status, out, err = curate(*command, "--budget", "0.001")
    assert (status, out, server.requests) == (3, "", []), err
    held = err.splitlines()[-1]
    assert re.search(r"^curate: held before anything is sent: the run would cost about \$0\.\d+, above --budget", held)
    assert "over_budget=part" in held
    cost = _expected(root)
    assert f"costs: {SERVICE}: {cost['calls']:,} calls, about ${cost['usd']:.4f}" in err
    assert (_record(root)["state"], cost["month_usd"]) == ("held", 0)
    assert Store(str(root)).height("conversations") > 0, "what was read stays"

    most_a_call = cost["usd_most"] / cost["calls"]
    budget = cost["usd"] / 2 + most_a_call  # half of the calls, and room for the highest price of one more
    part = (*command, "--budget", budget, "--set", "over_budget=part")
    status, _, err = curate(*part)
    assert status == 0, err
    sent = len(server.requests)
    (use,) = (stage["use"][SERVICE] for stage in _record(root)["stages"] if stage["use"])
    assert 0 < sent < cost["calls"] and use["calls"] == sent
    assert use["usd"] + use["usd_unconfirmed"] <= budget
    assert _failures(root) == {"categories: budget_reached": cost["calls"] - sent}

    status, _, err = curate(*command, "--budget", 100 * cost["usd_most"])  # nothing is new, and yet it goes on
    assert status == 0, err
    assert _expected(root)["calls"] == cost["calls"] - sent
    assert _expected(root)["month_usd"] == pytest.approx(use["usd"])
    assert len(server.requests) == cost["calls"]
    assert _failures(root) == {}


@pytest.mark.usefixtures("prefect_server")
def test_a_night_is_held_by_what_the_month_has_left_at_a_provider(curate, logs, server, tmp_path):
    store = Store.open(str(tmp_path / "store"))
    state_layout(store)
    _spent(store, usd=4.9999)
    (tmp_path / "curate.yaml").write_text("month_usd_max: 100\nmonth_usd_max_by: {openai: 5, google: 1}\n")
    status, _, err = curate("run", "--logs", logs, "--store", store.root, "--provider", "categories=openai")
    assert (status, server.requests) == (3, []), err
    assert "at openai, and of --set month_usd_max_by.openai=5 the month has $0.0001 left" in err.splitlines()[-1]
    assert "this month $5.00 so far, $5.00 of $100.00 (month_usd_max), $5.00 of $5.00 (month_usd_max_by.openai)" in err


@pytest.mark.usefixtures("prefect_server")
def test_a_night_without_paid_services_says_nothing_about_prices(curate, logs, tmp_path):
    store = tmp_path / "store"
    command = ("run", "--logs", logs, "--store", store, "--set", "month_usd_max=5", "--budget", "1")
    status, out, err = curate(*command)
    assert status == 0, err
    assert not MONEY.search(out + err)
    assert "costs" not in {stage["stage"] for stage in _record(store)["stages"]}


@pytest.mark.usefixtures("prefect_server")
def test_a_night_that_only_sends_its_batch_is_followed_by_one_that_collects_it(logs, tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "test-key")
    vendor = BatchServer(lambda rows: b"".join(result(row, NO_CATEGORIES) for row in rows))
    monkeypatch.setenv("OPENAI_BASE_URL", f"{vendor.url}/openai/v1")
    vendor.hold = True
    settings = Settings(
        logs=str(logs), store=str(tmp_path / "store"), providers={"categories": "openai"}, batch=True, batch_hours=0.0,
        budget_usd=1.0,
    )  # fmt: skip
    try:
        curate_flow(settings)
        sent = len(vendor.requests)
        assert sent == _expected(tmp_path / "store")["calls"] > 0
        vendor.hold = False
        curate_flow(settings)  # nothing is new, and yet it collects
        assert len(vendor.requests) == sent
    finally:
        vendor.close()
    store = Store(settings.store)
    assert store.height("signals/categories") == sent
    assert store.fs.find(store.at("batches")) == []
    (cost,) = month_costs(run_records(store), datetime.now(UTC))
    price = load_prices().tokens(SERVICE)
    assert (cost.requests, cost.usd_unconfirmed) == (sent, pytest.approx(0, abs=1e-9))
    assert cost.usd == pytest.approx(sent * price.batch_usd(1000, 100)), "the month has the price, once"
    (costs,) = (stage for stage in _record(tmp_path / "store")["stages"] if stage["stage"] == "costs")
    assert costs["expected"] == [], "what waits at the vendor is not expected to be paid again"


@pytest.mark.parametrize(
    ("stage", "failure", "is_left"),
    [
        ("measure_documents", "categories: budget_reached", True),
        ("screen_texts", "moderation: service_paused", True),
        ("measure_documents", "categories: waiting_for_batch", True),
        ("measure_documents", "categories: refused", False),
        ("canaries", "nsfw: budget_reached", False),
    ],
)
def test_what_the_last_whole_run_left_for_later_is_known_to_the_next(tmp_path, stage, failure, is_left):
    store = Store.open(str(tmp_path / "store"))
    settings = Settings(store=store.root)
    whole = RunRecord(store, settings, NOON)
    whole.reports = [StageReport(stage="measure_documents"), StageReport(stage=stage, failures={failure: 2})]
    whole.write("completed")
    RunRecord(store, settings, NOON + timedelta(hours=1)).add(StageReport(stage="read_logs"))  # held before it measured
    RunRecord(store, settings, NOON + timedelta(hours=2))  # the present one
    assert left_for_later(store) == is_left


@pytest.mark.parametrize(
    ("tokens", "units", "free"),
    [(None, 0, True), (0, None, True), (1, None, False), (None, 2, False), (None, None, False)],
)
def test_a_service_is_free_when_the_price_file_says_so(tokens, units, free):
    image = {"tile_pixels": 1, "tiles_max": 1, "tokens_a_tile": 1}
    entries = {
        "tokens": {"a": {"input_usd_per_million": tokens, "output_usd_per_million": 0, "image": image}},
        "units": {"a": {"usd_per_thousand": units}},
    }
    given = {"tokens": tokens, "units": units}
    prices = Prices.model_validate({kind: entries[kind] for kind, price in given.items() if price is not None})
    assert prices.is_free("a") == free


def _row(service: str, signals: str, mode: str, usd: float | None, calls: int = 10) -> Estimate:
    return Estimate(service=service, mode=mode, signals=signals, items=calls, calls=calls, usd=usd, usd_most=usd)


def test_signals_of_one_service_are_summed_in_the_way_in_which_they_are_asked():
    rows = [
        _row("a", "categories", "one by one", 4.0),
        _row("a", "categories", "batch", 2.0),
        _row("a", "topic_names (at most)", "one by one", 1.0),
        _row("b", "nsfw", "one by one", 0.0),
        _row("c", "faces", "one by one", None),
    ]
    alone = {cost.service: cost.usd for cost in _by_service(rows, {}, {}, batch=False)}
    assert alone == {"a": 5.0, "c": None}, "what is free is not said"
    (together, _) = _by_service(rows, {"a": 5}, {"a": 7.0}, batch=True)
    assert (together.calls, together.usd, together.month_usd) == (15, 2.25, 7.0)


def _spent(store: Store, usd: float) -> None:
    """The record of a run of this month."""
    record = RunRecord(store, Settings(store=store.root), datetime.now(UTC).replace(day=1, hour=0, minute=0, second=0))
    record.add(StageReport(stage="screen", use={SERVICE: Use(calls=1, usd=usd)}))
    record.write("completed")
