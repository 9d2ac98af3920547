"""Waiting and asking again."""

import time

import pytest

from tasks.providers.production.retries import CallFailed, Outage, Retries


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


def test_passing_failures_are_retried_until_it_works():
    work = Flaky(passing(), passing())
    assert Retries(first_seconds=0.001).call(work) == "value"
    assert len(work.calls) == 3


def test_waits_grow():
    work = Flaky(passing(), passing(), passing())
    Retries(first_seconds=0.02).call(work)
    first, second, third = (after - before for before, after in zip(work.calls, work.calls[1:], strict=False))
    assert first >= 0.01
    assert second >= 0.02
    assert third >= 0.04


def test_server_is_given_the_time_it_asks_for():
    work = Flaky(passing(wait_seconds=0.1))
    Retries(first_seconds=0.001).call(work)
    assert work.calls[1] - work.calls[0] >= 0.1


def test_last_failure_is_raised_after_the_last_attempt():
    work = Flaky(*[passing()] * 9)
    with pytest.raises(CallFailed, match="busy"):
        Retries(attempts=3, first_seconds=0.001).call(work)
    assert len(work.calls) == 3


@pytest.mark.parametrize("failure", [CallFailed("no"), passing(wait_seconds=3600), ValueError("a bug")])
def test_what_waiting_cannot_mend_is_raised_at_once(failure):
    work = Flaky(failure)
    with pytest.raises(type(failure)):
        Retries().call(work)
    assert len(work.calls) == 1


class Service:
    """Is down, or works, and counts how often it was asked."""

    down, asked = True, 0

    def __call__(self):
        self.asked += 1
        if self.down:
            raise passing()
        return "value"


def _outcome(retries, service):
    try:
        return retries.call(service)
    except CallFailed as failure:
        return failure.reason


def test_a_service_that_is_down_is_asked_now_and_then_and_again_by_every_call_when_it_answers(monkeypatch):
    monkeypatch.setattr(Outage, "calls_failed_max", 3)
    monkeypatch.setattr(Outage, "asked_every_seconds", 0.3)
    service, retries = Service(), Retries(attempts=2, first_seconds=0.001)
    assert [_outcome(retries, service) for _ in range(100)] == ["busy"] * 4 + ["service_down"] * 96
    assert service.asked == 3 * 2 + 1
    service.down = False
    time.sleep(0.3)
    assert [_outcome(retries, service) for _ in range(3)] == ["value"] * 3


def test_a_call_that_is_refused_for_what_it_asks_says_that_the_service_is_there(monkeypatch):
    monkeypatch.setattr(Outage, "calls_failed_max", 2)
    retries = Retries(attempts=1)
    for failures in ([passing()], [CallFailed("http_400")], [passing()], [CallFailed("http_400")]):
        _outcome(retries, Flaky(*failures))
    assert _outcome(retries, Flaky(passing())) == "busy"
