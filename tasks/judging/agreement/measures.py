"""Figures of agreement from counts, for many resamples at once.

F1 and kappa are scikit-learn's (a test holds them equal). They are not called, because they take one table at a time:
1,000 resamples in three forms would take a minute.
"""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from tasks.leaderboard.intervals import quantiles95
from tasks.leaderboard.votes import Matrix, Numbers, Vector

Tables = npt.NDArray[np.float64]
Interval = dict[str, float | None]
"""NAME, NAME_ci95_low and NAME_ci95_high of every figure; null where undefined."""


def figures(confusion: Tables, codes: Vector | None) -> dict[str, Vector]:
    """accuracy, three F1, kappa and pearson, each (tables,), from confusion (tables, labels, labels); NaN if undefined.

    `codes` numbers the labels for the correlation; None when they have no order.
    """
    pairs = confusion.sum(axis=(1, 2))
    right = np.diagonal(confusion, axis1=1, axis2=2)
    first, second = confusion.sum(axis=2), confusion.sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        accuracy = right.sum(axis=1) / pairs
        f1 = 2 * right / (first + second)
        occurs = (first + second) > 0
        chance = (first * second).sum(axis=1) / pairs**2
        return {
            "accuracy": accuracy,
            "f1_macro": np.where(occurs, f1, 0).sum(axis=1) / occurs.sum(axis=1),
            "f1_micro": accuracy,
            "f1_weighted": np.where(occurs, first * f1, 0).sum(axis=1) / pairs,
            "kappa": np.where(chance < 1, (accuracy - chance) / (1 - chance), np.nan),
            "pearson": _pearson(confusion, codes),
        }


def _pearson(confusion: Tables, codes: Vector | None) -> Vector:
    if codes is None:
        return np.full(len(confusion), np.nan)
    weight = confusion / confusion.sum(axis=(1, 2), keepdims=True)
    first, second = weight.sum(axis=2), weight.sum(axis=1)
    mean_first, mean_second = first @ codes, second @ codes
    spread = (first @ codes**2 - mean_first**2) * (second @ codes**2 - mean_second**2)
    together = np.einsum("tij,i,j->t", weight, codes, codes) - mean_first * mean_second
    return np.asarray(np.where(spread > 1e-12, together / np.sqrt(spread.clip(1e-300)), np.nan))


def alpha(counts: Matrix, times: Matrix) -> Vector:
    """Krippendorff's alpha for nominal labels, (samples,).

    `counts` (patterns, labels): labels of an item with this pattern; `times` (samples, patterns): items with it.
    (Krippendorff, "Content Analysis", 3rd ed. 2013, sec. 12.3.2.) NaN where all labels are the same.
    """
    shared = counts * (counts.sum(axis=1, keepdims=True) > 1)
    each = shared.sum(axis=1)
    disagreeing = (each**2 - (shared**2).sum(axis=1)) / np.maximum(each - 1, 1)
    total, of_label = times @ each, times @ shared
    with np.errstate(divide="ignore", invalid="ignore"):
        expected = (total**2 - (of_label**2).sum(axis=1)) / (total - 1)
        return np.asarray(np.where(expected > 0, 1 - (times @ disagreeing) / expected, np.nan))


def resamples(items: Numbers, rounds: int, seed: int) -> Iterator[Vector]:
    """First `items` (patterns,), how many items have each pattern; then `rounds` resamples of the items."""
    yield items.astype(np.float64)
    generator, total = np.random.default_rng(seed), int(items.sum())
    for _ in range(rounds):
        yield generator.multinomial(total, items / total).astype(np.float64)


def with_intervals(samples: dict[str, Vector]) -> Interval:
    """Each figure, whose first sample is its value, with the 95 % interval of the others."""
    found: Interval = {}
    for name, values in samples.items():
        keys, point = (name, f"{name}_ci95_low", f"{name}_ci95_high"), values[0]
        if np.isnan(point):
            found |= dict.fromkeys(keys)
        else:
            ends = quantiles95(values[1:], np.asarray(point))
            found |= zip(keys, map(float, (point, *ends)), strict=True)
    return found
