"""Every pair of vectors within a cosine is found, in blocks of any size."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tasks.dedup import cosine
from tasks.dedup.cosine import close_rows, cosine_pairs


def _vectors(count: int, seed: int, dimension: int = 24) -> np.ndarray:
    """Unit vectors in a cone, some of them copies of others with noise of all sizes."""
    generator = np.random.default_rng(seed)
    vectors = generator.normal(size=(count, dimension)) + 0.3
    copies = generator.integers(0, count, count // 2)
    noise = generator.normal(size=(len(copies), dimension)) * generator.uniform(0, 1.5, (len(copies), 1))
    vectors[: len(copies)] = vectors[copies] + noise
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


@pytest.fixture
def small_blocks(monkeypatch):
    for name, value in {"ROWS": 7, "COLUMNS": 11}.items():
        monkeypatch.setattr(cosine, name, value)


@given(seed=st.integers(0, 2**32 - 1), count=st.integers(0, 60), cosine_min=st.sampled_from([0.0, 0.5, 0.9, 0.99]))
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_exactly_the_pairs_within_the_cosine_are_found(small_blocks, seed, count, cosine_min):
    vectors = _vectors(count, seed)
    i, j, cosines = cosine_pairs(vectors, cosine_min)
    found = list(zip(i.tolist(), j.tolist(), strict=True))
    exact = vectors.astype(np.float64) @ vectors.T.astype(np.float64)
    sure, possible = (
        set(zip(*np.nonzero(np.triu(exact >= cosine_min + off, 1)), strict=True)) for off in (1e-6, -1e-6)
    )
    assert found == sorted(set(found))
    assert sure <= set(found) <= possible
    assert np.allclose(cosines, exact[i, j], atol=1e-6)


def test_a_cosine_does_not_depend_on_which_rows_are_compared_together(small_blocks):
    vectors = _vectors(40, 0)
    _, _, together = close_rows(vectors, vectors, -1.0)
    alone = [close_rows(vectors[i : i + 1], vectors[j : j + 1], -1.0)[2][0] for i in range(40) for j in range(40)]
    assert together.tolist() == alone
