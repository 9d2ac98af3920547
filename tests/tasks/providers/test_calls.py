"""Calls to a service: retries, rate limits and the circuit breaker."""

import threading
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("openai", reason="production extra")
from schemas.run import PAUSED
from tasks.providers.production.calls import CallFailed, Pace, Service
from tasks.providers.production.labels import TopicName
from tasks.providers.production.language_model import Question
from tasks.providers.production.openai.client import rate_limit, span_seconds
from tasks.providers.production.openai.model import openai_model
from tasks.runtime.budget import ledger, one_ledger, start_ledger
from tasks.runtime.parallel import map_ordered


class Flaky:
    """Fails as told, then works."""

    def __init__(self, *failures):
        self.failures, self.calls = list(failures), []

    def __call__(self):
        self.calls.append(time.monotonic())
        if self.failures:
            raise self.failures.pop(0)
        return "value"


def passing(wait_seconds=0.0):
    return CallFailed("busy", may_pass=True, wait_seconds=wait_seconds)


@pytest.fixture
def service(short_waits):
    return Service("a service")


@pytest.mark.parametrize("failure", [CallFailed("no"), passing(wait_seconds=3600), ValueError("a bug")])
def test_what_waiting_cannot_mend_is_raised_at_once(service, failure):
    work = Flaky(failure)
    with pytest.raises(type(failure)):
        service.again(work)
    assert len(work.calls) == 1


def _outcome(service, work):
    try:
        return service.again(work)
    except CallFailed as failure:
        return failure.reason


@pytest.mark.parametrize(
    "refusal",
    [
        *(CallFailed(reason) for reason in ("http_401", "quota_used_up", "malformed_answer", "temperature_refused")),
        passing(wait_seconds=3600),
        CallFailed("rate_limited", may_pass=True, wait_seconds=3600),
        CallFailed("http_400"),
    ],
)
def test_ten_refusals_in_a_row_pause_a_service_for_the_run_and_a_bad_item_does_not(service, refusal):
    work = Flaky(*[refusal] * 60)
    with one_ledger(None, None):
        outcomes = list(map_ordered(lambda _: _outcome(service, work), range(55), 1))
        paused = refusal.reason != "http_400"
        assert len(work.calls) == (10 if paused else 55)
        assert outcomes.count(PAUSED) == (45 if paused else 0)
    with one_ledger(None, None):
        assert _outcome(service, work) == refusal.reason, "the next run asks again"


@pytest.mark.parametrize("workers", [1, 8, 32])
@pytest.mark.parametrize("failure", [passing(), CallFailed("server_error", may_pass=True)])
def test_a_service_that_is_down_is_asked_ten_times_and_by_one_call_with_its_attempts(service, workers, failure):
    work = Flaky(*[failure] * 500)
    with one_ledger(None, None):
        for outcome in map_ordered(lambda _: _outcome(service, work), range(100), workers):
            assert outcome in (failure.reason, PAUSED)
        assert 10 <= len(work.calls) <= 10 + workers + Service.attempts
        before = len(work.calls)
        assert ledger().try_again()
        assert {_outcome(service, work) for _ in range(20)} == {failure.reason, PAUSED}
        assert len(work.calls) == before + 1, "tried once more, by one attempt"
        work.failures.clear()
        assert _outcome(service, work) == PAUSED and ledger().try_again()
        assert list(map_ordered(lambda _: _outcome(service, work), range(20), workers)) == ["value"] * 20
        assert not ledger().try_again()


def test_a_short_outage_pauses_nothing_and_two_bad_items_among_good_ones_neither(service):
    work = Flaky(*[passing()] * 12)
    with one_ledger(None, None):
        assert list(map_ordered(lambda _: _outcome(service, work), range(40), 8)) == ["value"] * 40
        for _ in range(30):
            bad = Flaky(*[passing()] * Service.attempts)
            assert [_outcome(service, each) for each in (bad, Flaky())] == ["busy", "value"]


@pytest.mark.parametrize("reason", ["rate_limited", "resource_exhausted"])
def test_a_limit_of_the_rate_counts_once_a_call_because_it_fails_many_at_once(service, reason):
    limited = CallFailed(reason, may_pass=True)
    with one_ledger(None, None):
        works = [Flaky(*[limited] * 4) for _ in range(20)]
        assert {_outcome(service, work) for work in works} == {"value"}
        outcomes = [_outcome(service, Flaky(*[limited] * 5)) for _ in range(20)]
        assert outcomes == [reason] * 11 + [PAUSED] * 9  # ten, and one that tries alone


def test_outside_of_a_run_a_paused_service_is_asked_every_few_seconds(service, clock):
    service.attempts = 1
    work = Flaky(*[passing()] * 12)
    start_ledger()
    outcomes = [_outcome(service, work) for _ in range(100)]
    assert outcomes == ["busy"] * 12 + [PAUSED] * 88  # ten, one that tries alone, and the first of every 15 seconds
    clock.later(service.asked_every_seconds)
    assert [_outcome(service, work) for _ in range(3)] == ["value"] * 3


def test_an_item_over_the_budget_shows_nothing_of_its_service(service):
    with one_ledger(None, None):
        for _ in range(30):
            _outcome(service, Flaky(CallFailed("http_401")))
            _outcome(service, Flaky(CallFailed("budget_reached")))
        assert _outcome(service, Flaky()) == PAUSED


def _limited(wait_seconds=0.0):
    raise CallFailed("rate_limited", may_pass=True, wait_seconds=wait_seconds)


def _fail(pace, wait_seconds=0.0):
    with pytest.raises(CallFailed):
        pace.call(lambda: _limited(wait_seconds))


def test_calls_grow_fast_until_a_rate_limit_halves_them_and_success_brings_them_back():
    pace = Pace(8)
    for expected in (4.0, 2.0, 1.0, 1.0):
        _fail(pace)
        assert pace.calls_at_once == expected
    for _ in range(200):
        pace.call(lambda: None)
    assert pace.calls_at_once == 8
    pace = Pace(32)
    for expected in (9, 10, 11):
        pace.call(lambda: None)
        assert pace.calls_at_once == expected


def test_never_more_calls_are_under_way_than_the_pace_allows():
    pace, lock, now, most = Pace(8), threading.Lock(), [0], [0]
    for _ in range(2):
        _fail(pace)

    def work():
        with lock:
            now[0] += 1
            most[0] = max(most[0], now[0])
        time.sleep(0.01)
        with lock:
            now[0] -= 1
        raise CallFailed("refused")  # neither more nor less

    def one(_):
        with pytest.raises(CallFailed):
            pace.call(work)

    list(map_ordered(one, range(20), 8))
    assert most[0] == 2


def test_a_pace_waits_as_long_as_it_is_asked_to_but_not_beyond_our_patience():
    pace = Pace(8)
    _fail(pace, wait_seconds=0.3)
    begin = time.monotonic()
    pace.call(lambda: None)
    assert time.monotonic() - begin >= 0.25
    pace = Pace(8)
    _fail(pace, wait_seconds=3600)
    assert pace.call(lambda: "through") == "through"


def headers(limit, left, reset, what="requests"):
    names = ("limit", "remaining", "reset")
    values = zip(names, (limit, left, reset), strict=True)
    return {f"x-ratelimit-{name}-{what}": str(value) for name, value in values}


@pytest.mark.parametrize(
    ("text", "seconds"), [("6m0s", 360), ("120ms", 0.12), ("1s", 1), ("1h2m3.5s", 3723.5), ("2", 2), ("0s", 0)]
)
def test_a_span_is_read_as_openai_writes_it(text, seconds):
    assert span_seconds(text) == pytest.approx(seconds)


@given(st.text(max_size=12))
def test_no_header_breaks_us(text):
    limit = rate_limit(headers("10", "5", text), 3)
    assert limit is None or limit[0] == 5


def test_the_tighter_limit_counts():
    both = headers(100, 60, "20s") | headers(10_000, 1000, "9s", "tokens")
    assert rate_limit(both, 500) == (2, pytest.approx(0.5))
    assert rate_limit(both, None) == (60, pytest.approx(0.5))
    assert rate_limit({}, 500) is None


@pytest.mark.parametrize("vendor", ["openai"], indirect=True)
def test_the_headers_of_an_answer_set_the_pace(vendor, http_server, reply, short_waits):
    http_server.answer(reply(vendor.completed('{"name": "a"}'), 200, headers(10, 0, "1s")))
    model, begin = openai_model(), time.monotonic()
    for _ in range(5):
        assert model.ask(Question("Name it.", "x"), TopicName) == TopicName(name="a")
    assert time.monotonic() - begin >= 0.3
