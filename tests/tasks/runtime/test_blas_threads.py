"""After `one_blas_thread`, BLAS has one thread: results do not depend on concurrent work."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from tasks.providers.embedded.text_embedding import sentence_encoder
from tasks.runtime.blas_threads import one_blas_thread

ROOT = Path(__file__).parents[3]
LIMITED = """
import os
from concurrent.futures import ThreadPoolExecutor
import scipy.linalg
from threadpoolctl import threadpool_info
from tasks.runtime.blas_threads import one_blas_thread

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
