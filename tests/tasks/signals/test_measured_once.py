"""What is measured is not measured again, whatever the order and the threads, nor asked of a paid service twice."""

import math
import threading
from random import Random

import numpy as np
import pytest

from schemas.signals import Embedding, Face, Faces, Nsfw, Refusal
from tasks.providers.capabilities import Failed
from tasks.runtime.parallel import map_as_done
from tasks.signals.paid import Asked, measure_paid
from tasks.signals.registry import Signal, image_signals, signal_of, text_signals
from tasks.signals.run import ITEMS_A_CALL, ImageItems, MeasuringObserver, measure_items, measured, missing
from tasks.storage.parts import ROWS_A_PART
from tasks.storage.queries.signals import StoredImages, signal_values
from tasks.storage.tables import Store
from tests.builders import NOON, append_rows, drawn_image, image, store_with

TEXTS = {f"{number:032x}": f"text {number}" for number in range(3 * ITEMS_A_CALL + 5)}


@pytest.fixture
def store(tmp_path):
    return Store.open(str(tmp_path / "store"))


def language(providers):
    return text_signals(providers)["language"]


def load(ids):
    return [TEXTS[content_id] for content_id in ids]


def measure(store, signal, ids=TEXTS, workers=2):
    return measure_items(store, signal, missing(store, signal, ids), load, workers=workers, now=NOON)


def known(store, signal):
    return set(signal_values(store, signal.name, signal.version)["content_id"])


def test_each_content_is_measured_once(store, counting):
    measure(store, language(counting), list(TEXTS)[:-3])
    assert [measure(store, language(counting)).calls for _ in range(2)] == [{"language": 3}, {}]
    assert counting.asked == {"language": len(TEXTS)}


def test_content_that_came_later_is_known_as_well(store, counting):
    measure(store, language(counting), list(TEXTS)[:-3])
    measure(store, language(counting))
    assert known(store, language(counting)) == set(TEXTS)


@pytest.fixture
def two_versions(store, counting) -> tuple[Signal, Signal]:
    """A signal of a provider, and of its next version; all texts are measured by both."""
    old = language(counting)
    measure(store, old)
    counting.versions["language"] = "v2"
    new = language(counting)
    measure(store, new)
    return old, new


def test_the_version_of_a_provider_is_part_of_its_signal_s(two_versions):
    old, new = two_versions
    assert old.version != new.version


@pytest.mark.usefixtures("two_versions")
def test_another_version_measures_all_anew(counting):
    assert counting.asked == {"language": 2 * len(TEXTS)}


def test_facts_of_an_older_version_stay_beside_those_of_the_new_one(store, two_versions):
    old, new = two_versions
    assert known(store, old) == known(store, new) == set(TEXTS)


FAILED = {content_id for content_id, text in TEXTS.items() if text.endswith("7")}


@pytest.fixture
def failing(counting):
    """Providers whose language fails for some texts."""
    counting.fails["language"] = lambda text: text.endswith("7")
    return counting


def test_failures_are_counted_by_their_reason(store, failing):
    assert measure(store, language(failing)).failures == {("language", "over_quota"): len(FAILED)}


def test_what_failed_is_not_known(store, failing):
    measure(store, language(failing))
    assert known(store, language(failing)) == set(TEXTS) - FAILED


def test_only_what_failed_is_tried_again(store, failing):
    measure(store, language(failing))
    failing.fails.clear()
    assert measure(store, language(failing)).calls == {"language": len(FAILED)}


def test_what_failed_is_known_once_it_succeeds(store, failing):
    measure(store, language(failing))
    failing.fails.clear()
    measure(store, language(failing))
    assert known(store, language(failing)) == set(TEXTS)


def test_what_an_error_says_is_not_repeated(store, counting):
    counting.down = {"language"}
    assert "secret" not in repr(measure(store, language(counting)))


@pytest.mark.parametrize("count", [0, 1, 3])
def test_too_few_or_too_many_answers_are_failures(count):
    signal = Signal("language", "1", "someone", lambda items: [object()] * count)
    assert [failed.reason for failed in signal.values(["a", "b"])] == ["wrong_number_of_values"] * 2


@pytest.mark.parametrize(
    ("value", "broken"),
    [
        (Nsfw(nsfw_probability=0.5), Nsfw(nsfw_probability=math.nan)),
        (
            Faces(faces=[], confidence_max=0, area_fraction_max=0),
            Faces(faces=[], confidence_max=0, area_fraction_max=math.inf),
        ),
        (
            Faces(faces=[Face(box=[0, 0, 1, 1], confidence=0.5)], confidence_max=0, area_fraction_max=0),
            Faces(faces=[Face(box=[0, 0, 1, 1], confidence=math.nan)], confidence_max=0, area_fraction_max=0),
        ),
        (Embedding(vector=[1.0, 0.0]), Embedding(vector=[1.0, math.nan])),
    ],
    ids=["a number", "infinity", "a number inside", "a vector"],
)
def test_a_value_that_is_no_number_fails_alone(value, broken):
    signal = Signal("any", "1", "someone", lambda items: [value, broken, value])
    assert signal.values(["a", "b", "c"]) == [value, Failed("not_a_number"), value]


@pytest.mark.parametrize("name", ["image_embedding", "text_embedding"])
def test_a_vector_without_a_direction_fails_alone(counting, name):
    vectors = np.eye(3, dtype=np.float32)
    vectors[1] = 0
    counting.answers[name] = lambda number: vectors[number]
    first, second, third = signal_of(name, counting).values([0, 1, 2])
    assert [first.vector, second, third.vector] == [[1, 0, 0], Failed("zero_vector"), [0, 0, 1]]


def test_facts_say_who_measured_what_when(store, counting):
    measure(store, language(counting))
    row = signal_values(store, "language", language(counting).version).row(0, named=True)
    assert (row["provider"], row["measured_at"], row["language"]) == ("counting", NOON, "en")


def test_parts_that_were_stored_before_a_crash_are_not_measured_again(store, counting):
    def load_until_killed(ids):
        if list(TEXTS)[-1] in ids:
            raise KeyboardInterrupt
        return load(ids)

    signal = language(counting)
    with pytest.raises(KeyboardInterrupt):
        ids = missing(store, signal, TEXTS)
        measure_items(store, signal, ids, load_until_killed, workers=1, now=NOON, part_items=ITEMS_A_CALL)
    assert len(known(store, signal)) >= ITEMS_A_CALL
    left = len(TEXTS) - len(known(store, signal))
    assert measure(store, signal).calls == {"language": left}


THREE_IMAGES = [drawn_image(seed) for seed in range(3)]


def test_an_image_whose_facts_were_stored_before_a_crash_is_not_measured_again(store, counting, look_and_store):
    look_and_store(MeasuringObserver(store, counting, NOON), store, THREE_IMAGES[:2])  # and died before their list
    asked = counting.asked.copy()
    look_and_store(MeasuringObserver(store, counting, NOON), store, THREE_IMAGES)
    assert set((counting.asked - asked).values()) == {1}


def test_each_image_has_its_facts_once_after_a_crash(store, counting, look_and_store):
    images = THREE_IMAGES
    look_and_store(MeasuringObserver(store, counting, NOON), store, images[:2])  # and died before their list
    look_and_store(MeasuringObserver(store, counting, NOON), store, images)
    stored = signal_values(store, "nsfw", image_signals(counting)["nsfw"].version)["content_id"].to_list()
    assert sorted(stored) == sorted(each.image_id for each in images)


def rows(store, signal):
    return store.read(f"signals/{signal}").sort("content_id").to_dicts()


@pytest.mark.parametrize(("workers", "seed"), [(2, 0), (7, 0), (7, 1)])
def test_neither_the_order_of_texts_nor_the_threads_change_a_value(tmp_path, counting, workers, seed):
    one, other = stores = [store_with(tmp_path / name) for name in ("one", "other")]
    pii, shuffled = text_signals(counting)["text_pii"], Random(seed).sample(list(TEXTS), len(TEXTS))
    for store, ids, threads in zip(stores, (list(TEXTS), shuffled), (1, workers), strict=True):
        measure_items(store, pii, ids, load, workers=threads, now=NOON)
    assert rows(one, "text_pii") == rows(other, "text_pii")
    assert len(rows(one, "text_pii")) == len(TEXTS)


@pytest.mark.parametrize("workers", [1, 3])
def test_the_tables_of_one_order_are_the_same_bytes(tmp_path, counting, workers):
    stores = [store_with(tmp_path / name) for name in ("one", "other")]
    for store, threads in zip(stores, (1, workers), strict=True):
        measure(store, text_signals(counting)["text_pii"], workers=threads)
    one, other = (store.parts("signals/text_pii") for store in stores)  # parts are named by their content
    assert one == other


def test_an_image_has_the_same_values_whether_it_is_measured_when_taken_in_or_later(tmp_path, counting):
    images = [drawn_image(seed) for seed in range(ITEMS_A_CALL + 8)]
    one, other = (store_with(tmp_path / name, images=[image(each) for each in images]) for name in ("one", "other"))
    signals, items = list(image_signals(counting).values()), ImageItems(other, StoredImages(other).part_of)
    append_rows(one, measured(signals, [each.image_id for each in images], images, NOON)[0])
    ids = items.ordered(each.image_id for each in reversed(images))
    measure_items(other, signals, ids, items.load, workers=3, now=NOON)
    for signal in signals:
        assert rows(one, signal.name) == rows(other, signal.name)
        assert len(rows(one, signal.name)) == len(images)


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


def asked(store, model):
    wanted = missing(store, model.signal, IDS)
    return measure_paid(store, [Asked(model.signal, model, wanted, list)], None, NOON)


@pytest.fixture(scope="module")
def two_runs(tmp_path_factory):
    """A store after a run in which six items failed and another one; of both their model and report."""
    store = store_with(tmp_path_factory.mktemp("paid"))
    first, second = Model(bad=IDS[3:9]), Model()
    return store, (first, asked(store, first)), (second, asked(store, second))


def test_a_run_asks_every_item_once(two_runs):
    _, (model, _), _ = two_runs
    assert sorted(model.asked) == IDS


def test_failures_of_a_paid_service_are_counted_by_their_reason(two_runs):
    _, (_, report), _ = two_runs
    assert report.failures == {("refusal", "rate_limited"): 6}


def test_the_next_run_asks_again_what_failed_alone(two_runs):
    _, _, (model, report) = two_runs
    assert report.calls == {"refusal": 6}
    assert sorted(model.asked) == IDS[3:9]


def test_answers_of_all_runs_are_stored(two_runs):
    assert set(signal_values(two_runs[0], "refusal", "v1")["content_id"]) == set(IDS)


def test_a_run_leaves_one_part(store):
    asked(store, Model())
    assert len(store.parts("signals/refusal")) == 1


def test_a_run_that_asks_nothing_leaves_no_further_part(store):
    asked(store, Model())
    asked(store, Model())
    assert len(store.parts("signals/refusal")) == 1


def test_answers_of_an_interrupted_run_are_kept(store):
    model = Model(dies_after=100)
    with pytest.raises(KeyboardInterrupt):
        asked(store, model)
    kept = signal_values(store, "refusal", "v1").height
    assert 100 - 2 * model.calls_at_once <= kept <= 100


def test_a_slow_answer_holds_up_no_other(store):
    model = Model(slow=IDS[:7])
    asked(store, model)
    assert sorted(model.asked) == IDS


@pytest.fixture(scope="module")
def consumed():
    """Results of work in four threads, and how many were worked on ahead of their consumer at most."""
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
    return seen, ahead[1]


def test_every_item_has_one_result(consumed):
    assert sorted(consumed[0]) == list(range(100))


def test_results_come_not_far_ahead_of_their_consumer(consumed):
    assert consumed[1] <= 2 * 4
