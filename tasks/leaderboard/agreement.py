"""Agreement of two leaderboards (Arena-Hard's metrics), and of the benchmark's topics with the whole arena.

For the benchmark, sample boards are computed from as many battles as it has prompts: drawn per topic in proportion to
its prompts, or uniformly from all battles. Both samples are compared with two reference boards: all battles, and all
topics with equal weight. The references differ where a few topics hold most battles.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np
from scipy.special import ndtr

from schemas.benches.bench import BenchAgreement
from schemas.errors import BadInput
from schemas.rating import Agreement, Rating, RatingMethod
from tasks.leaderboard.intervals import NORMAL95
from tasks.leaderboard.leaderboard import rate_slice
from tasks.leaderboard.votes import Matrix, Numbers, Vector, Votes

SAMPLES = 100
METRICS = ("spearman", "kendall", "agreement", "agreement_strict", "separability", "models")
_OF_ORDER = ("spearman", "kendall")


def agreement(board: Sequence[Rating], reference: Sequence[Rating]) -> Agreement:
    """Agreement of a board with a reference over their common models.

    An undefined metric, such as a correlation of equal ratings, is null. Raises BadInput when fewer than two models are
    common.
    """
    ours, theirs = ({row.model: row for row in rows} for rows in (board, reference))
    models = sorted(ours.keys() & theirs.keys())
    if len(models) < 2:
        names = [", ".join(sorted(rows)[:3]) for rows in (ours, theirs)]
        raise BadInput(
            f"the two boards share {len(models)} models; agreement needs at least two (one has {names[0]} …, the other "
            f"{names[1]} …)"
        )
    from scipy.stats import kendalltau, spearmanr  # slow to load

    a, b = (np.array([_numbers(rows[name]) for name in models]) for rows in (ours, theirs))
    first, second = np.triu_indices(len(models), 1)
    order, separated = _order(a[first], a[second]), _order(b[first], b[second])
    varies = np.ptp(a[:, 0]) > 0 and np.ptp(b[:, 0]) > 0
    judged = separated != 0
    return Agreement(
        models=len(models),
        spearman=float(spearmanr(a[:, 0], b[:, 0]).statistic) if varies else None,
        kendall=float(kendalltau(a[:, 0], b[:, 0]).statistic) if varies else None,
        pearson=float(np.corrcoef(a[:, 0], b[:, 0])[0, 1]) if varies else None,
        agreement=_mean(np.where(order == 0, 0.5, order == separated)[judged]),
        agreement_strict=_mean((order * separated)[judged]),
        separability=_mean(order != 0),
        separability_reference=_mean(separated != 0),
        brier=_brier(a[first], a[second], np.sign(b[first, 0] - b[second, 0])),
    )


def _numbers(row: Rating) -> tuple[float, float, float]:
    """Rating, lower and upper end of the interval; a missing end is infinite."""
    low, high = row.ci95_low, row.ci95_high
    return row.rating, -np.inf if low is None else low, np.inf if high is None else high


def _order(first: Matrix, second: Matrix) -> Vector:
    """1 where the first interval lies entirely above the second, -1 where below, 0 where they overlap."""
    above, below = first[:, 1] > second[:, 2], first[:, 2] < second[:, 1]
    return above.astype(np.float64) - below


def _brier(first: Matrix, second: Matrix, better: Vector) -> float | None:
    """Brier score of win chances, taking ratings as normal with 95 % intervals 2 * 1.96 standard deviations wide."""
    variance = ((first[:, 2] - first[:, 1]) ** 2 + (second[:, 2] - second[:, 1]) ** 2) / (2 * NORMAL95) ** 2
    gap = first[:, 0] - second[:, 0]
    is_counted = (variance > 0) & (better != 0)
    chance = ndtr(gap[is_counted] / np.sqrt(variance[is_counted]))
    return _mean((chance - (better[is_counted] > 0)) ** 2)


def _mean(values: Vector) -> float | None:
    return float(np.mean(values)) if len(values) else None


def bench_agreement(votes: Votes, topic: Numbers, seats: dict[int, int], seed: int) -> list[BenchAgreement]:
    """Every metric of both samples against both references; empty when no vote is on a topic of the benchmark.

    `topic` int64 (votes,) is the topic of each vote's prompt, -1 for none; `seats` maps topic -> benchmark prompts.
    """
    topic_rows = np.flatnonzero(topic >= 0)
    of_topic = {number: np.flatnonzero(topic == number) for number in seats}
    seats = {number: count for number, count in seats.items() if len(of_topic[number])}
    size = sum(seats.values())
    if not size or not len(topic_rows):
        return []
    generator = np.random.default_rng(seed)
    draws: dict[str, Callable[[], Numbers]] = {
        "bench": lambda: np.concatenate([_some(of_topic[n], count, generator) for n, count in seats.items()]),
        "random": lambda: _some(topic_rows, size, generator),
    }
    even = len(topic_rows) / np.bincount(topic[topic_rows])[topic[topic_rows]]
    references = {"all_battles": _board(votes, topic_rows), "even_topics": _board(votes, topic_rows, even)}
    flags = _flags(len(topic_rows), seats, {n: len(rows) for n, rows in of_topic.items()}, references["all_battles"])
    measures = []
    for sample, drawn in draws.items():
        boards = [_board(votes, drawn()) for _ in range(SAMPLES)]
        for name, reference in references.items():
            known_models = {row.model for row in reference}
            comparable = [board for board in boards if sum(row.model in known_models for row in board) > 1]
            compared = [agreement(board, reference) for board in comparable]
            metrics = METRICS if name == "all_battles" else _OF_ORDER  # intervals of weighted votes are not valid
            about = {
                "reference": name,
                "sample": sample,
                "battles": size,
                "of_battles": len(topic_rows),
                "flags": flags,
            }
            measures += [BenchAgreement(metric=m, **about, **numbers) for m, numbers in _summed(compared, metrics)]
    return measures


def _some(rows: Numbers, count: int, generator: np.random.Generator) -> Numbers:
    """Draw `count` rows, with replacement only when there are fewer."""
    return np.asarray(generator.choice(rows, count, replace=count > len(rows)))


def _board(votes: Votes, rows: Numbers, weight: Vector | None = None) -> list[Rating]:
    """The board of the votes `rows`, each counted `weight` times."""
    chosen = votes.only(rows)
    return rate_slice(
        chosen if weight is None else replace(chosen, weight=chosen.weight * weight), "bench", RatingMethod()
    )


def _summed(compared: list[Agreement], metrics: tuple[str, ...]) -> Iterator[tuple[str, dict[str, float | int]]]:
    for metric in metrics:
        values = [getattr(comparison, metric) for comparison in compared]
        defined = np.array([value for value in values if value is not None], np.float64)
        if len(defined):
            low, high = np.quantile(defined, [0.025, 0.975])
            numbers = {"mean": defined.mean(), "low": low, "high": high}
            yield metric, {name: round(float(value), 6) for name, value in numbers.items()} | {"samples": len(defined)}


def _flags(battles: int, seats: dict[int, int], of_topic: dict[int, int], board: list[Rating]) -> list[str]:
    size = sum(seats.values())
    marks = {
        "few_battles": battles < 10 * size,
        "few_votes": size < 10 * len(board),
        "few_models": len(board) < 5,
        "repeats": any(seats[topic] > of_topic[topic] for topic in seats),
    }
    return [name for name, holds in marks.items() if holds]


def alpha(counts: Matrix, times: Matrix) -> Vector:
    """Krippendorff's alpha for nominal labels, (samples,).

    `counts` (patterns, labels): labels of an item with this pattern; `times` (samples, patterns): items with it.
    (Krippendorff, "Content Analysis", 3rd ed. 2013, sec. 12.3.2.) NaN where all labels are the same.
    """
    shared = counts * (counts.sum(axis=1, keepdims=True) > 1)
    labels_an_item = shared.sum(axis=1)
    disagreeing = (labels_an_item**2 - (shared**2).sum(axis=1)) / np.maximum(labels_an_item - 1, 1)
    total, of_label = times @ labels_an_item, times @ shared
    with np.errstate(divide="ignore", invalid="ignore"):
        expected = (total**2 - (of_label**2).sum(axis=1)) / (total - 1)
        return np.asarray(np.where(expected > 0, 1 - (times @ disagreeing) / expected, np.nan))
