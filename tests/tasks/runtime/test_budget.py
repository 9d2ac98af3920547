"""A budget is never exceeded by concurrent calls; an unusable price file gives one clear line."""

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.errors import BadInput
from schemas.run import TokenPrice, Use
from tasks.runtime.budget import Ledger, in_run, ledger, load_prices, one_ledger, start_ledger


@pytest.fixture(scope="module", autouse=True)
def no_budget_for_other_tests():
    yield
    start_ledger()


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50)), max_size=30), st.integers(0, 200))
def test_no_sequence_of_calls_exceeds_the_budget(calls, budget):
    ledger = Ledger(load_prices(), float(budget))
    for most, used in calls:
        bill = ledger.reserve("s", float(most))
        if bill is not None:
            with bill:
                bill.settle(Use(calls=1, usd=float(min(most, used))))
    assert sum(use.usd for use in ledger.use().values()) <= budget


def test_a_call_waits_for_the_room_that_calls_under_way_may_leave():
    ledger, got = Ledger(load_prices(), 1.0), []
    with ledger.reserve("s", 1.0) as bill:
        waiting = threading.Thread(target=lambda: got.append(ledger.reserve("s", 0.5)))
        waiting.start()
        waiting.join(0.05)
        assert waiting.is_alive()
        bill.settle(Use(calls=1, usd=0.25))
    waiting.join(5)
    assert got[0] is not None


def test_a_call_counts_as_its_highest_price_and_has_no_room_without_one():
    ledger = Ledger(load_prices(), 1.0)
    with ledger.reserve("s", 0.75):
        pass
    assert ledger.use()["s"].usd_unconfirmed == 0.75
    assert ledger.reserve("s", 0.5) is None
    assert Ledger(load_prices(), 100.0).reserve("s", None) is None
    assert Ledger(load_prices()).reserve("s", None) is not None


@pytest.mark.parametrize(("counted", "used", "room"), [(None, 0.75, 0.25), (2.0, 1.5, 1.0), (0.25, 0.75, 0.5)])
def test_of_a_call_of_an_earlier_run_a_budget_pays_what_that_run_has_not_counted(counted, used, room):
    ledger = Ledger(load_prices(), 1.0)
    with ledger.late_bill("s", counted) as bill:
        bill.settle(Use(calls=1, usd=used))
    assert ledger.reserve("s", room + 0.01) is None
    assert ledger.reserve("s", room) is not None


def test_a_request_that_an_earlier_run_has_counted_at_no_price_is_counted_once():
    ledger = Ledger(load_prices())
    with ledger.late_bill("s", 0.0) as bill:
        bill.settle_tokens(10, 20)
    with ledger.late_bill("s", 0.0):
        pass
    assert ledger.use()["s"] == Use(calls=0, calls_unpriced=1, input_tokens=10, output_tokens=20)


def test_what_has_no_price_is_counted_as_requests_without_one():
    ledger = start_ledger()
    for service in ("nobody's", "openai_moderation"):
        with ledger.reserve(service, None) as bill:
            bill.settle_units(3)
    with ledger.reserve("nobody's", None) as bill:
        bill.settle_tokens(10, 20)
    assert ledger.use()["nobody's"] == Use(calls=2, calls_unpriced=2, units=3, input_tokens=10, output_tokens=20)
    assert ledger.use()["openai_moderation"] == Use(calls=1, units=3)


def test_every_shipped_price_has_a_source_and_a_date_and_an_image_costs_its_tiles():
    prices = load_prices()
    for price in [*prices.token_prices.values(), *prices.unit_prices.values()]:
        assert price.source
        assert len(price.date) == len("2026-01-01")
    price: TokenPrice = load_prices().token_prices["google-gemini-3.8-flash"]
    assert price.image_tokens(768, 768) == 258
    assert price.image_tokens(1600, 769) == 3 * 2 * 258


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("tokens: {m: {input_usd_per_million: -1}}", "must be at least 0"),
        ("token: {}", "token: is no key"),
        ("[", "not YAML"),
        ("units: {google_vision: {usd_per_thousand: .inf}}", "google_vision"),
    ],
)
def test_a_price_file_that_cannot_be_used_is_one_clear_line(tmp_path, text, word):
    file = tmp_path / "prices.yaml"
    file.write_text(text)
    with pytest.raises(BadInput, match=word) as wrong:
        start_ledger(None, str(file))
    assert "\n" not in str(wrong.value)


def test_stages_of_one_run_share_a_budget_and_the_next_run_has_its_own():
    with one_ledger(1.0, None):
        with one_ledger(1.0, None):
            _spend(0.75)
        assert in_run() and ledger().reserve("s", 0.5) is None
    assert not in_run()
    with one_ledger(1.0, None):
        assert ledger().use() == {}


def _spend(usd):
    with ledger().reserve("s", usd) as bill:
        bill.settle(Use(calls=1, usd=usd))
