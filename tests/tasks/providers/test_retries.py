"""Waiting and asking again."""

import time

import pytest

from tasks.providers.production.retries import CallFailed, Retries


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
