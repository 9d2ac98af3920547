"""Every pair of vectors within a cosine is found, though most are never compared in all dimensions."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tasks.decide import cosine_join
from tasks.decide.cosine_join import bounds, cosine_pairs, directions


def _vectors(count: int, seed: int, dimension: int = 200) -> np.ndarray:
    """Unit vectors in a cone, some of them copies of others with noise of all sizes."""
    generator = np.random.default_rng(seed)
    vectors = generator.normal(size=(count, dimension)) * np.geomspace(3, 0.1, dimension) + 0.3
    copies = generator.integers(0, count, count // 2)
    noise = generator.normal(size=(len(copies), dimension)) * generator.uniform(0, 1.5, (len(copies), 1))
    vectors[: len(copies)] = vectors[copies] + noise
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


@pytest.fixture
def few_directions(monkeypatch):
    """Bounds from eight directions, in small blocks, at any size."""
    for name, value in {"WHOLE_MAX": 1, "DIRECTIONS": 8, "ROWS": 7, "COLUMNS": 11, "PAIRS_AT_ONCE": 5}.items():
        monkeypatch.setattr(cosine_join, name, value)


SEEDS = st.integers(0, 2**32 - 1)


def _expected(vectors: np.ndarray, cosine_min: float, fresh: np.ndarray) -> tuple[set, set]:
    """Pairs that must be found, and those too close to the limit to say."""
    cosines = vectors.astype(np.float64) @ vectors.T.astype(np.float64)
    wanted = np.triu(fresh[:, None] | fresh[None, :], 1)
    sure, open_ = wanted & (cosines > cosine_min + 1e-6), wanted & (abs(cosines - cosine_min) <= 1e-6)
    return set(zip(*np.nonzero(sure), strict=True)), set(zip(*np.nonzero(open_), strict=True))


@given(seed=SEEDS, count=st.integers(0, 60), cosine_min=st.sampled_from([0.0, 0.5, 0.9, 0.99]))
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_exactly_the_pairs_within_the_cosine_are_found(few_directions, seed, count, cosine_min):
    vectors = _vectors(count, seed)
    fresh = np.random.default_rng(seed).random(count) < 0.3 if seed % 2 else np.ones(count, bool)
    pairs, cosines = cosine_pairs(vectors, cosine_min, fresh)
    found = [tuple(pair) for pair in pairs.tolist()]
    sure, open_ = _expected(vectors, cosine_min, fresh)
    assert found == sorted(set(found))
    assert sure <= set(found) <= sure | open_
    assert np.allclose(cosines, [vectors[i] @ vectors[j] for i, j in found], atol=1e-6)


@given(seed=SEEDS)
@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_bound_is_never_below_the_cosine_and_rules_something_out(few_directions, seed):
    vectors = _vectors(40, seed)
    bound = bounds(vectors, directions(vectors, len(vectors)))
    assert bound.shape == (40, 9)
    assert (bound @ bound.T >= vectors @ vectors.T - cosine_join.ROUNDING).all()
    assert (bound @ bound.T < 0.9).mean() > 0.2


class _Counted(np.ndarray):
    """Counts the inner products that are asked of it."""

    products = 0

    def __matmul__(self, other):
        _Counted.products += len(self) * other.shape[1]
        return np.asarray(self) @ np.asarray(other)


def test_a_night_compares_its_new_pictures_with_the_store_and_no_old_ones_again(few_directions):
    bound = _vectors(1000, 0).view(_Counted)
    cosine_join.possible_pairs(bound, 0.9)
    at_once, _Counted.products = _Counted.products, 0
    cosine_join.possible_pairs(bound, 0.9, np.arange(1000) % 100 == 0)
    assert _Counted.products == 10 * 1000
    assert 500_000 <= at_once < 510_000


def test_few_vectors_and_short_ones_are_compared_whole():
    assert directions(_vectors(50, 0), 50) is None
    assert directions(_vectors(50, 0, dimension=64), 10**6) is None
