"""While anybody wants BLAS on one thread it is on one thread, whoever else comes and goes."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

import numpy as np
import pytest
from threadpoolctl import threadpool_info

from tasks.providers.embedded.text_embedding import sentence_encoder
from tasks.running.blas_threads import one_blas_thread


def _threads() -> set[int]:
    return {each["num_threads"] for each in threadpool_info() if each["user_api"] == "blas"}


ROOT = Path(__file__).parents[3]
BEFORE = np.dot([1.0], [1.0]) and _threads()
"""As many as this machine has cores."""


def test_the_first_who_leaves_gives_no_threads_to_those_who_stay():
    entered, left = Event(), Event()

    def stays() -> set[int]:
        with one_blas_thread():
            entered.set()
            assert left.wait(30)
            return _threads()

    with ThreadPoolExecutor(1) as pool:
        with one_blas_thread():
            staying = pool.submit(stays)
            assert entered.wait(30)
        left.set()
        assert staying.result() == {1}
    assert _threads() == BEFORE


def test_it_ends_with_the_last_even_after_an_error():
    with pytest.raises(ZeroDivisionError), one_blas_thread(), one_blas_thread():
        1 / 0  # noqa: B018
    assert _threads() == BEFORE


def test_it_is_a_decorator_that_may_be_called_again():
    limited = one_blas_thread()(_threads)
    assert limited() == limited() == {1}
    assert _threads() == BEFORE


FORKS = """
import os
from tests.tasks.running.test_blas_threads import _threads
from tasks.running.blas_threads import one_blas_thread

with one_blas_thread():
    child = os.fork()
    with one_blas_thread():
        assert _threads() == {1}
with one_blas_thread():
    assert _threads() == {1}
assert child == 0 or os.waitpid(child, 0)[1] == 0
"""


def test_a_process_that_is_forked_meanwhile_has_a_limit_of_its_own():
    done = subprocess.run([sys.executable, "-c", FORKS], cwd=ROOT, capture_output=True, text=True, timeout=100)
    assert (done.returncode, done.stderr) == (0, "")


def test_texts_have_the_same_vectors_however_many_are_embedded_side_by_side():
    encoder = sentence_encoder()
    texts = [f"where does curve {n} meet the {'x axis on squared paper, ' * (n % 9)}?" for n in range(80)]
    alone = encoder.embed_texts(texts)
    with ThreadPoolExecutor(8) as pool:
        for _ in range(3):
            beside = np.concatenate(list(pool.map(lambda text: encoder.embed_texts([text]), texts)))
            assert np.array_equal(alone, beside)
    assert _threads() == BEFORE
