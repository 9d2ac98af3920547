"""A month's limit of cost: a run has what the month has left, and at the limit no paid call is made."""

import json
from datetime import UTC, datetime, timedelta

import pytest

from flows.before_work import checked
from flows.running.checked_flow import _limit_costs
from schemas.errors import BadInput
from schemas.run import StageReport, Use
from schemas.settings import Settings
from tasks.runtime.budget import ledger, one_ledger
from tasks.runtime.progress import timed
from tasks.storage.layout import state_layout
from tasks.storage.records import RunRecord
from tasks.storage.tables import Store

NOW = datetime.now(UTC)
MONTH = NOW.replace(day=1, hour=0, minute=0, second=0, microsecond=0)


def _spent(store: Store, at: datetime, usd: float, unconfirmed: float = 0.0) -> None:
    """The record of a run that spent this at a service."""
    record = RunRecord(store, Settings(store=store.root), at)
    record.add(StageReport(stage="screen", use={"gpt": Use(calls=1, usd=usd, usd_unconfirmed=unconfirmed)}))
    record.write("completed")


@pytest.fixture
def store(tmp_path) -> Store:
    """A store whose runs spent 40 dollars last month, and 2.5 this month in two runs."""
    store = Store(str(tmp_path / "store"))
    _spent(store, MONTH - timedelta(days=3), 40.0)
    _spent(store, MONTH, 1.0, 0.5)
    _spent(store, MONTH + timedelta(seconds=1), 1.0)
    return store


@pytest.mark.parametrize(
    ("most", "budget", "left"),
    [(None, None, None), (None, 7.0, 7.0), (10.0, None, 7.5), (10.0, 3.0, 3.0), (10.0, 9.0, 7.5), (2.0, 9.0, 0.0)],
)
def test_a_run_may_spend_what_the_month_and_its_own_budget_leave(store, capsys, most, budget, left):
    settings = Settings(store=store.root, month_usd_max=most, budget_usd=budget)
    with one_ledger(settings.budget_usd, None):
        _limit_costs(store, settings)
        assert ledger().budget_usd == (None if left is None else pytest.approx(left))
        if left is not None:
            assert (ledger().reserve("gpt", left + 0.01, wait=False), ledger().reserve("gpt", None, wait=False)) == (
                None,
                None,
            )
            with ledger().reserve("gpt", left, wait=False):
                pass
    said = capsys.readouterr().err
    assert ("month_usd_max" in said) == (most is not None and left is not None)
    assert most is None or said.count(f" of {most:,.2f} (month_usd_max)") == 1


def test_a_run_that_asks_no_paid_service_does_not_name_its_limits(store, capsys):
    with one_ledger(None, None):
        _limit_costs(store, Settings(store=store.root, month_usd_max=10.0))
    assert capsys.readouterr().err == ""


def test_a_provider_with_a_limit_of_its_own_leaves_room_at_others(store):
    _spent(store, MONTH + timedelta(seconds=2), 0.0)
    settings = Settings(store=store.root, month_usd_max=10.0, month_usd_max_by={"gpt": 3.0, "google": 1.0})
    with one_ledger(settings.budget_usd, None):
        _limit_costs(store, settings)
        assert [ledger().reserve(service, 0.51, wait=False) for service in ("gpt", "gpt-image-1")] == [None, None]
        with ledger().reserve("google_vision", 0.9, wait=False):
            assert ledger().reserve("google-gemini", 0.2, wait=False) is None
            with ledger().reserve("gptoss", 6.0, wait=False), ledger().reserve("gpt_x", 0.5, wait=False):
                assert ledger().reserve("anthropic", 0.2, wait=False) is None, "in all, 7.4 of 7.5 are taken"


@pytest.mark.parametrize("name", ["open", "nobody"])
def test_a_limit_for_a_provider_that_no_price_names_is_one_line(refused, store, name):
    state_layout(store)
    err = refused("decide", "--store", store.root, "--set", f"month_usd_max_by.{name}=5")
    assert f"the price file has no {name!r}" in err and "anthropic, google, openai" in err


def test_a_service_without_a_price_cannot_be_asked_under_a_months_limit(store, monkeypatch, tmp_path):
    monkeypatch.setenv("OPENAI_API_KEY", "any")
    monkeypatch.setenv("CURATE_OPENAI_MODEL", "a model that no price file has")
    settings = Settings(store=store.root, month_usd_max=5.0, providers={"categories": "openai"})
    with pytest.raises(BadInput, match="no price for"), checked(settings):
        pass


@pytest.mark.parametrize(("usd", "noted"), [(0.0, False), (0.25, True)])
def test_a_stage_that_cost_nothing_says_nothing_about_prices(usd, noted):
    with one_ledger(None, None):
        prices = ledger().prices
        service = next(name for name in prices.token_prices if prices.doubts([name]))

        @timed
        def stage() -> StageReport:
            bill = ledger().reserve(service, usd)
            with bill:
                bill.settle(Use(calls=1, usd=usd))
            return StageReport(stage="screen")

        assert (prices.doubts([service]) == stage().notes) == noted
        assert stage().notes == []


def test_status_says_when_the_limit_is_reached(store, curate, tmp_path):
    state_layout(store)
    for most, is_said in ((2.0, True), (20.0, False)):
        (tmp_path / "curate.yaml").write_text(f"store: store\nmonth_usd_max: {most}\n")
        code, out, _ = curate("status", store.root)
        assert (code, "the month's limit of cost" in out) == (0, is_said)


def test_status_shows_what_is_left_of_each_limit(store, curate, tmp_path):
    state_layout(store)
    (tmp_path / "curate.yaml").write_text("store: store\nmonth_usd_max: 20\nmonth_usd_max_by: {openai: 1, gpt: 2}\n")
    code, out, _ = curate("status", store.root, "--json")
    rows = [row for row in map(json.loads, out.splitlines()) if row.pop("table") == "limits"]
    assert code == 0
    assert [(row["provider"], row["usd"], row["usd_left"]) for row in rows] == [
        ("all", 2.5, 17.5),
        ("openai", 0.0, 1.0),
        ("gpt", 2.5, 0.0),
    ]
    assert "month_usd_max_by.gpt" in out
    figures = tmp_path / "curate.prom"
    assert curate("status", store.root, "--out", figures) == (0, "", "")
    assert 'curate_month_provider_usd{provider="gpt",store="store"} 2.5' in figures.read_text()
    assert 'curate_month_provider_usd_max{provider="gpt",store="store"} 2.0' in figures.read_text()
