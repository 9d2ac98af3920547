"""After a rate limit fewer calls are under way together, and none before the wait that the service asked for."""

import threading
import time

import pytest

from tasks.providers.production.pace import Pace
from tasks.providers.production.retries import CallFailed
from tasks.running.parallel import map_ordered


def _limited(wait_seconds=0.0):
    raise CallFailed("rate_limited", may_pass=True, wait_seconds=wait_seconds)


def _fail(pace, wait_seconds=0.0):
    with pytest.raises(CallFailed):
        pace.call(lambda: _limited(wait_seconds))


def test_a_rate_limit_halves_the_calls_under_way_and_success_brings_them_back():
    pace = Pace(8)
    for expected in (4.0, 2.0, 1.0, 1.0):
        _fail(pace)
        assert pace.calls_at_once == expected
    for _ in range(200):
        pace.call(lambda: None)
    assert pace.calls_at_once == 8


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


def test_no_call_starts_before_the_wait_that_was_asked_for():
    pace = Pace(8)
    _fail(pace, wait_seconds=0.3)
    begin = time.monotonic()
    pace.call(lambda: None)
    assert time.monotonic() - begin >= 0.25


def test_a_wait_beyond_our_patience_holds_nobody():
    pace = Pace(8)
    _fail(pace, wait_seconds=3600)
    assert pace.call(lambda: "through") == "through"
