"""Votes drawn again come as often as drawing one by one would have it."""

import numpy as np
import pytest

from tasks.rate.poisson import nearly_all, resampled_times


@pytest.mark.parametrize("items", [1, 2, 7, 3000])
def test_times_are_those_of_draws_with_replacement(items):
    generator, counts = np.random.default_rng(0), nearly_all(items)
    times = np.stack([resampled_times(generator, counts, items) for _ in range(60_000 // items + 500)])
    assert (times.sum(axis=1, dtype=np.int64) == items).all()
    close = 4.5 / np.sqrt(times.size)
    assert times.astype(float).var() == pytest.approx(1 - 1 / items, abs=2 * close)
    for often, chance in ((0, (1 - 1 / items) ** items), (1, (1 - 1 / items) ** (items - 1))):
        assert (times == often).mean() == pytest.approx(chance, abs=close)


def test_the_rare_counts_come_too():
    times = resampled_times(np.random.default_rng(1), nearly_all(3_000_000), 3_000_000)
    assert (times >= 9).sum() == pytest.approx(3_000_000 * 1.125e-6, abs=4)
    assert times.max() >= 8


def test_one_seed_gives_one_draw():
    drawn = [resampled_times(np.random.default_rng(3), nearly_all(500), 500) for _ in range(2)]
    assert (drawn[0] == drawn[1]).all()
