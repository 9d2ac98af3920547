"""How far two leaderboards agree (Arena-Hard's metrics)."""

from collections.abc import Sequence

import numpy as np
from scipy.special import ndtr

from schemas.errors import BadInput
from schemas.rating import Agreement, Rating
from tasks.rate.intervals import NORMAL95
from tasks.rate.votes import Matrix, Vector


def agreement(board: Sequence[Rating], reference: Sequence[Rating]) -> Agreement:
    """Agreement of a board with a reference, over the models that both rate.

    A metric that is not defined, such as a correlation of equal ratings, is null. Raises BadInput when the boards
    share fewer than two models.
    """
    ours, theirs = ({row.model: row for row in rows} for rows in (board, reference))
    models = sorted(ours.keys() & theirs.keys())
    if len(models) < 2:
        raise BadInput(f"the two boards share {len(models)} models; agreement needs at least two")
    a, b = (np.array([_numbers(rows[name]) for name in models]) for rows in (ours, theirs))
    first, second = np.triu_indices(len(models), 1)
    order, separated = _order(a[first], a[second]), _order(b[first], b[second])
    varies = np.ptp(a[:, 0]) > 0 and np.ptp(b[:, 0]) > 0
    judged = separated != 0
    better = np.sign(b[first, 0] - b[second, 0])
    return Agreement(
        models=len(models),
        spearman=_correlation(_ranks(a[:, 0]), _ranks(b[:, 0])) if varies else None,
        kendall=_kendall(np.sign(a[first, 0] - a[second, 0]), better) if varies else None,
        pearson=_correlation(a[:, 0], b[:, 0]) if varies else None,
        agreement=_mean(np.where(order == 0, 0.5, order == separated)[judged]),
        agreement_strict=_mean((order * separated)[judged]),
        separability=_mean(order != 0),
        separability_reference=_mean(separated != 0),
        brier=_brier(a[first], a[second], better),
    )


def _numbers(row: Rating) -> tuple[float, float, float]:
    return row.rating, row.ci95_low, row.ci95_high


def _order(first: Matrix, second: Matrix) -> Vector:
    """1 where the first's interval lies wholly above the second's, -1 below, 0 where they overlap."""
    above, below = first[:, 1] > second[:, 2], first[:, 2] < second[:, 1]
    return above.astype(np.float64) - below


def _brier(first: Matrix, second: Matrix, better: Vector) -> float | None:
    """Intervals stand for normal distributions: 95 % are 2 * 1.96 standard deviations wide."""
    variance = ((first[:, 2] - first[:, 1]) ** 2 + (second[:, 2] - second[:, 1]) ** 2) / (2 * NORMAL95) ** 2
    gap = first[:, 0] - second[:, 0]
    known = (variance > 0) & (better != 0)
    chance = ndtr(gap[known] / np.sqrt(variance[known]))
    return _mean((chance - (better[known] > 0)) ** 2)


def _ranks(values: Vector) -> Vector:
    """1 for the lowest; equal values share the mean of their ranks."""
    below, equal = values[:, None] > values, values[:, None] == values
    return np.asarray(below.sum(axis=1) + (equal.sum(axis=1) + 1) / 2)


def _kendall(first: Vector, second: Vector) -> float:
    """Tau-b, of which of each pair is higher: 1, -1, or 0 for a tie (Kendall, "Rank Correlation Methods", 1948)."""
    ties = np.sqrt(np.count_nonzero(first)) * np.sqrt(np.count_nonzero(second))
    return float(np.clip((first * second).sum() / ties, -1, 1))


def _correlation(first: Vector, second: Vector) -> float:
    """Pearson's, which of ranks is Spearman's; scipy's own functions take ten times as long for a board."""
    return float(np.corrcoef(first, second)[0, 1])


def _mean(values: Vector) -> float | None:
    return float(np.mean(values)) if len(values) else None
