"""Items of a paid service: stored as they come, in any order, and never asked twice."""

import threading

import pytest

from schemas.signals import Refusal
from tasks.providers.capabilities import Failed
from tasks.runtime.parallel import map_as_done
from tasks.signals.paid import Asked, measure_one_by_one
from tasks.signals.registry import Signal
from tasks.signals.run import missing
from tasks.storage.parts import ROWS_A_PART
from tasks.storage.queries.signals import signal_values
from tasks.storage.tables import Store
from tests.builders import NOON

IDS = [f"{number:032x}" for number in range(5 * ROWS_A_PART + 7)]


class Model:
    """A service that remembers what it was asked; `slow` items take until all were asked, `bad` ones fail."""

    calls_at_once = 8

    def __init__(self, slow=(), bad=(), dies_after=10**9):
        self.asked, self.slow, self.bad, self.dies_after = [], set(slow), set(bad), dies_after
        self.all_asked = threading.Event()
        self.signal = Signal("refusal", "v1", "service", self.measure, self)

    def measure(self, items):
        for item in items:
            self.asked.append(item)
            if len(self.asked) > self.dies_after:
                raise KeyboardInterrupt
            if len(self.asked) == len(IDS):
                self.all_asked.set()
            assert item not in self.slow or self.all_asked.wait(300)
        return [Failed("rate_limited") if item in self.bad else Refusal(refusal=False) for item in items]


@pytest.fixture
def store(tmp_path):
    return Store.open(str(tmp_path / "store"))


def measure(store, model):
    wanted = missing(store, model.signal, IDS)
    return measure_one_by_one(store, Asked(model.signal, model, wanted, list), now=NOON)


def test_every_item_is_asked_once_and_failures_again_by_the_next_run(store):
    first = Model(bad=IDS[3:9])
    assert measure(store, first).failures == {("refusal", "rate_limited"): 6}
    second = Model()
    assert measure(store, second).calls == {"refusal": 6}
    assert sorted(first.asked) == IDS and sorted(second.asked) == IDS[3:9]
    assert set(signal_values(store, "refusal", "v1")["content_id"]) == set(IDS)


def test_a_run_leaves_one_part(store):
    measure(store, Model())
    assert len(store.parts("signals/refusal")) == 1
    measure(store, Model())
    assert len(store.parts("signals/refusal")) == 1


def test_answers_of_an_interrupted_run_are_kept(store):
    model = Model(dies_after=100)
    with pytest.raises(KeyboardInterrupt):
        measure(store, model)
    kept = signal_values(store, "refusal", "v1").height
    assert 100 - 2 * model.calls_at_once <= kept <= 100


def test_a_slow_answer_holds_up_no_other(store):
    model = Model(slow=IDS[:7])
    measure(store, model)
    assert sorted(model.asked) == IDS


def test_results_come_as_they_are_done_and_not_far_ahead_of_their_consumer():
    ahead, lock = [0, 0], threading.Lock()

    def work(item):
        with lock:
            ahead[0] += 1
            ahead[1] = max(ahead)
        return item

    seen = []
    for item in map_as_done(work, range(100), 4):
        with lock:
            ahead[0] -= 1
        seen.append(item)
    assert sorted(seen) == list(range(100))
    assert ahead[1] <= 2 * 4
