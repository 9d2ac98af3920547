"""Pools: ordered results, bounded work in flight, errors raised to the caller."""

import os
import threading
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.errors import EngineUnwell
from tasks.runtime.parallel import map_in_processes, map_ordered


@settings(max_examples=30)
@given(st.lists(st.integers(), max_size=40), st.integers(1, 5))
def test_results_are_those_of_map_in_the_same_order(items, workers):
    def slow_at_first(item: int) -> int:
        time.sleep(0.001 if item % 3 == 0 else 0)
        return item * 2

    assert list(map_ordered(slow_at_first, items, workers)) == [item * 2 for item in items]


@pytest.mark.parametrize("workers", [1, 3])
def test_it_never_runs_far_ahead_of_its_consumer(workers):
    drawn = 0

    def items():
        nonlocal drawn
        for number in range(1000):
            drawn += 1
            yield number

    results = map_ordered(str, items(), workers)
    for consumed in range(1, 11):
        next(results)
        assert drawn <= consumed + 2 * workers
    results.close()


def test_the_workers_run_at_the_same_time():
    meeting = threading.Barrier(3)

    def meet(_: int) -> int:
        return meeting.wait()

    assert sorted(map_ordered(meet, range(3), 3)) == [0, 1, 2]


def test_an_error_comes_out_and_stops_the_rest():
    done = []

    def work(item: int) -> int:
        if item == 5:
            raise ValueError("item 5")
        done.append(item)
        return item

    with pytest.raises(ValueError, match="item 5"):
        list(map_ordered(work, range(1000), 2))
    assert len(done) < 20


def test_nothing_is_left_running_when_the_consumer_stops():
    before = threading.active_count()
    results = map_ordered(str, range(100), 4)
    next(results)
    results.close()
    assert threading.active_count() == before


def test_processes_give_the_results_of_map_in_its_order():
    assert list(map_in_processes(abs, range(-40, 3), 2)) == list(map(abs, range(-40, 3)))


def test_an_error_in_any_process_reaches_the_caller():
    with pytest.raises(ValueError, match="invalid literal"):
        list(map_in_processes(int, ["1", "2", "x", "4"], 2))


def test_a_process_that_is_killed_is_told_in_one_line():
    with pytest.raises(EngineUnwell, match=r"^a worker process ended [^\n]*BrokenProcessPool[^\n]*goes on from there$"):
        list(map_in_processes(os._exit, range(9, 99), 2))
