"""Do the models rank alike on the benchmark's topics and in the whole arena?

Boards are computed of as many battles as the benchmark has prompts: drawn topic by topic as its prompts are, or from
all battles alike. Both are compared with two references, because a benchmark that weighs topics evenly and an arena
where a few topics hold most battles answer different questions.
"""

from collections.abc import Callable, Iterator

import numpy as np

from schemas.bench import BenchAgreement
from schemas.rating import Agreement, Interval, Rating, RatingMethod
from tasks.rate.agreement import agreement
from tasks.rate.leaderboard import rate
from tasks.rate.votes import Numbers, Votes

SAMPLES = 100
METRICS = ("spearman", "kendall", "agreement", "agreement_strict", "separability", "models")
_OF_ORDER = ("spearman", "kendall")
_QUICK = RatingMethod(interval=Interval.SANDWICH)


def bench_agreement(votes: Votes, topic: Numbers, seats: dict[int, int], seed: int) -> list[BenchAgreement]:
    """Every metric of both samples against both references; none where no vote is on a topic of the benchmark.

    `topic` int64 (votes,) is the topic of each vote's prompt, -1 for none; `seats` are the benchmark's prompts of each.
    """
    known = np.flatnonzero(topic >= 0)
    seats = {number: count for number, count in seats.items() if (topic == number).any()}
    size = sum(seats.values())
    if not size or not len(known):
        return []
    of_topic = {number: np.flatnonzero(topic == number) for number in seats}
    generator = np.random.default_rng(seed)
    draws: dict[str, Callable[[], Numbers]] = {
        "bench": lambda: np.concatenate([_some(of_topic[n], count, generator) for n, count in seats.items()]),
        "random": lambda: _some(known, size, generator),
    }
    references = {"all_battles": _board(votes, known), "even_topics": _even_board(votes, topic)}
    flags = _flags(len(known), size, seats, {n: len(rows) for n, rows in of_topic.items()}, references["all_battles"])
    found = []
    for sample, drawn in draws.items():
        boards = [_board(votes, drawn()) for _ in range(SAMPLES)]
        for name, reference in references.items():
            metrics = METRICS if name == "all_battles" else _OF_ORDER
            compared = [_compared(board, reference) for board in boards]
            rows = _summed(compared, metrics)
            about = {"reference": name, "sample": sample, "battles": size, "of_battles": len(known), "flags": flags}
            found += [BenchAgreement(metric=metric, **about, **numbers) for metric, numbers in rows]
    return found


def _some(rows: Numbers, count: int, generator: np.random.Generator) -> Numbers:
    """So many rows; none twice unless there are too few."""
    return np.asarray(generator.choice(rows, count, replace=count > len(rows)))


def _board(votes: Votes, rows: Numbers) -> list[Rating]:
    counts = np.bincount(votes.cell[rows], minlength=3 * len(votes.pairs)).reshape(-1, 3).astype(np.float64)
    return rate(votes.models, votes.pairs, counts, "bench", _QUICK)


def _even_board(votes: Votes, topic: Numbers) -> list[Rating]:
    """The board on which all topics have the same weight. Its intervals mean nothing: weights are no votes."""
    known = np.flatnonzero(topic >= 0)
    sizes = np.bincount(topic[known])
    weight = len(known) / (sizes > 0).sum() / sizes[topic[known]]
    counts = np.bincount(votes.cell[known], weight, 3 * len(votes.pairs)).reshape(-1, 3).astype(np.float64)
    return rate(votes.models, votes.pairs, counts, "even_topics", _QUICK)


def _compared(board: list[Rating], reference: list[Rating]) -> Agreement | None:
    shared = {row.model for row in board} & {row.model for row in reference}
    return agreement(board, reference) if len(shared) > 1 else None


def _summed(compared: list[Agreement | None], metrics: tuple[str, ...]) -> Iterator[tuple[str, dict[str, float | int]]]:
    for metric in metrics:
        values = [getattr(each, metric) for each in compared if each is not None]
        known = np.array([value for value in values if value is not None], np.float64)
        if len(known):
            low, high = np.quantile(known, [0.025, 0.975])
            numbers = {"mean": known.mean(), "low": low, "high": high}
            yield metric, {name: round(float(value), 6) for name, value in numbers.items()} | {"samples": len(known)}


def _flags(battles: int, size: int, seats: dict[int, int], of_topic: dict[int, int], board: list[Rating]) -> list[str]:
    marks = {
        "few_battles": battles < 10 * size,
        "few_votes": size < 10 * len(board),
        "few_models": len(board) < 5,
        "repeats": any(seats[topic] > of_topic[topic] for topic in seats),
    }
    return [name for name, holds in marks.items() if holds]
