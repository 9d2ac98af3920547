"""Pools, threads and devices: ordered results, bounded work, errors raised, one BLAS thread, cards shared."""

import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.errors import EngineUnwell, MissingProvider
from tasks.images.decode import open_image
from tasks.providers.embedded.embeddings import EfficientNet, sentence_encoder
from tasks.runtime import parallel as device
from tasks.runtime.parallel import map_in_processes, map_ordered, one_blas_thread
from tasks.signals.registry import Signal
from tests.builders import image_bytes


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


def test_processes_give_the_results_of_map_in_its_order_and_their_errors():
    assert list(map_in_processes(abs, range(-40, 3), 2)) == list(map(abs, range(-40, 3)))
    with pytest.raises(ValueError, match="invalid literal"):
        list(map_in_processes(int, ["1", "2", "x", "4"], 2))


@pytest.fixture(autouse=True)
def auto_again():
    yield
    device.use_device("auto")


def test_cuda_is_refused_without_a_card(refused, monkeypatch, tmp_path):
    monkeypatch.setattr(device, "cards", lambda: 0)
    (tmp_path / "one.png").write_bytes(image_bytes(1))
    err = refused("inspect", tmp_path / "one.png", "--set", "device=cuda")
    assert "no NVIDIA card" in err and "device=cpu" in err


def test_a_card_that_the_library_cannot_use_is_no_silent_cpu(monkeypatch):
    monkeypatch.setattr(device, "cards", lambda: 1)
    device.use_device("cuda")
    embedder, image = EfficientNet(), open_image(image_bytes(1))
    signal = Signal("image_embedding", embedder.version, "embedded", embedder.embed_images)
    if not device._onnx_on_card():
        with pytest.raises(MissingProvider, match="onnxruntime-gpu"):
            signal.values([image])
    for chosen in ("auto", "cpu"):
        device.use_device(chosen)
        assert EfficientNet().embed_images([image]).shape == (1, 1280)


@pytest.mark.parametrize(
    ("chosen", "cards", "size"), [("auto", 0, 32), ("auto", 2, 128), ("cpu", 2, 32), ("cuda", 1, 128)]
)
def test_batches_are_larger_on_a_card(monkeypatch, chosen, cards, size):
    monkeypatch.setattr(device, "cards", lambda: cards)
    device.use_device(chosen)
    assert device.batch_of(32) == size


ROOT = Path(__file__).parents[3]
LIMITED = """
import os
from concurrent.futures import ThreadPoolExecutor
import scipy.linalg
from threadpoolctl import threadpool_info
from tasks.runtime.parallel import one_blas_thread

def threads():
    return {each["num_threads"] for each in threadpool_info() if each["user_api"] == "blas"}

with ThreadPoolExecutor(1) as pool:  # whose thread is gone after this
    assert pool.submit(one_blas_thread()(threads)).result() == {1}
with one_blas_thread():
    assert threads() == {1}
child = os.fork()
with one_blas_thread():
    assert threads() == {1}
assert child == 0 or os.waitpid(child, 0)[1] == 0
"""


def test_blas_has_one_thread_in_all_threads_and_in_forked_processes():
    done = subprocess.run([sys.executable, "-c", LIMITED], cwd=ROOT, capture_output=True, text=True, timeout=100)
    assert (done.returncode, done.stderr) == (0, "")


def test_texts_have_the_same_vectors_however_many_are_embedded_side_by_side():
    encoder = sentence_encoder()
    texts = [f"where does curve {n} meet the {'x axis on squared paper, ' * (n % 9)}?" for n in range(80)]
    with one_blas_thread():
        alone = encoder.embed_texts(texts)
    with ThreadPoolExecutor(8) as pool:
        for _ in range(3):
            beside = np.concatenate(list(pool.map(lambda text: encoder.embed_texts([text]), texts)))
            assert np.array_equal(alone, beside)


def test_a_process_that_is_killed_is_told_in_one_line():
    with pytest.raises(EngineUnwell, match=r"^a worker process ended [^\n]*BrokenProcessPool[^\n]*goes on from there$"):
        list(map_in_processes(os._exit, range(9, 99), 2))
