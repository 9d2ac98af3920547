"""How often 95 % intervals of ratings and style coefficients hold the true value, on drawn votes.

Votes follow the Bradley-Terry model with known strengths and coefficients, without ties. `value` is the share of
intervals that hold the truth, over all models (or covariates) and simulations; 0.95 is right.

Rows about a newcomer: ten established models have 200 votes each, and one newcomer a few against any of them. Its
interval is about its rating minus the mean of the established. An end that is not known holds everything.
"""

from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
import polars as pl
from scipy.special import expit

from schemas.rating import Interval, Rating, RatingMethod
from tasks.leaderboard.bradley_terry import SCALE
from tasks.leaderboard.leaderboard import leaderboard
from tasks.leaderboard.style_control import COVARIATES, style_board
from tasks.leaderboard.votes import rateable, votes

MODELS = 10
STRENGTHS = np.linspace(-1, 1, MODELS)
COEFFICIENTS = np.array([0.4, 0.1, 0.0, -0.2])
STYLE = COVARIATES[:4]
SIMULATIONS = {Interval.SANDWICH: 400, Interval.BOOTSTRAP: 60}
NEWCOMER_VOTES, TIES, NEWCOMERS = (1, 3, 5, 20), (0.3, 0.6), 2000
ESTABLISHED_VOTES = 1000
SPREADS = {"newcomer of any strength": 2.0, "newcomer like the others": float(STRENGTHS.std())}
"""Standard deviation of a newcomer's log-strength about the mean of the established; the first is 347 points."""


def run() -> list[dict[str, Any]]:
    """A row for each kind of interval, number of votes and kind of parameter."""
    rows = []
    for interval, simulations in SIMULATIONS.items():
        for count in (300, 2000):
            held: dict[str, list[bool]] = {"ratings": [], "style_control": [], "style_coefficients": []}
            for seed in range(simulations):
                for name, each in _held(count, seed, interval):
                    held[name].append(each)
            about = {"n": count, "simulations": simulations, "models": MODELS}
            rows += [
                {"bench": f"rate coverage: {name}, {interval}", **about, "value": round(float(np.mean(each)), 4)}
                for name, each in held.items()
            ]
    return [*rows, *_newcomers()]


def _newcomers() -> Iterator[dict[str, Any]]:
    for (name, deviation), count, ties in product(SPREADS.items(), NEWCOMER_VOTES, TIES):
        value = float(np.mean([newcomer_held(deviation, count, ties, seed) for seed in range(NEWCOMERS)]))
        about = {"n": count, "simulations": NEWCOMERS, "models": MODELS, "ties": ties}
        yield {"bench": f"rate coverage: {name}, sandwich", **about, "value": round(value, 4)}


def newcomer_held(deviation: float, count: int, ties: float, seed: int) -> bool:
    """Whether the interval holds the strength of one newcomer with `count` votes, on one drawn board."""
    generator = np.random.default_rng(seed)
    truth = np.append(STRENGTHS, generator.normal(0, deviation))
    first = np.append(generator.integers(0, MODELS, ESTABLISHED_VOTES), np.full(count, MODELS))
    second = (first + generator.integers(1, MODELS, len(first))) % MODELS
    second[ESTABLISHED_VOTES:] = generator.integers(0, MODELS, count)
    chance = expit(truth[first] - truth[second])
    # ties are as frequent as `ties` says between the established, rarer between unequal models, and half a win each
    even = chance * (1 - chance)
    tied = np.minimum(ties * even / even[:ESTABLISHED_VOTES].mean(), 1.9 * np.minimum(chance, 1 - chance))
    drawn = generator.random(len(first))
    winner = np.where(drawn < chance - tied / 2, "model_a", np.where(drawn < chance + tied / 2, "tie", "model_b"))
    names = np.array([f"m{n}" for n in range(MODELS + 1)])
    battles = pl.DataFrame({"model_a": names[first], "model_b": names[second], "winner": winner})
    row = next(row for row in leaderboard(votes(rateable(battles))) if row.model == names[MODELS])
    right = 1000 + SCALE * (truth[MODELS] - STRENGTHS.mean())
    return (row.ci95_low is None or row.ci95_low <= right) and (row.ci95_high is None or right <= row.ci95_high)


def _held(count: int, seed: int, interval: Interval) -> Iterator[tuple[str, bool]]:
    method = RatingMethod(interval=interval, seed=seed)
    battles = _battles(count, seed)
    plain = leaderboard(votes(rateable(battles.filter(controlled=False))), method=method)
    yield from (("ratings", each) for each in _ratings_held(plain))
    rows, coefficients = style_board(rateable(battles.filter(controlled=True)), method)
    yield from (("style_control", each) for each in _ratings_held(rows))
    for row, truth in zip(coefficients, COEFFICIENTS, strict=True):
        yield "style_coefficients", bool(row.ci95_low <= truth <= row.ci95_high)


def _ratings_held(rows: list[Rating]) -> Iterator[bool]:
    core = [row for row in rows if row.rank is not None]
    truth = {row.model: SCALE * STRENGTHS[int(row.model[1:])] for row in core}
    shift = 1000 - np.mean(list(truth.values()))
    for row in core:
        assert row.ci95_low is not None and row.ci95_high is not None
        yield row.ci95_low <= truth[row.model] + shift <= row.ci95_high


def _battles(count: int, seed: int) -> pl.DataFrame:
    """`count` battles without an effect of style, and as many with one."""
    generator = np.random.default_rng(seed)
    total = 2 * count
    first = generator.integers(0, MODELS, total)
    second = (first + generator.integers(1, MODELS, total)) % MODELS
    counts = generator.poisson(np.array([200, 1, 4, 3]), (2, total, len(STYLE)))
    difference = (counts[0] - counts[1]) / (counts.sum(axis=0) + 1)
    difference = (difference - difference[count:].mean(axis=0)) / difference[count:].std(axis=0)
    controlled = np.arange(total) >= count
    log_odds = STRENGTHS[first] - STRENGTHS[second] + controlled * (difference @ COEFFICIENTS)
    won = generator.random(total) < 1 / (1 + np.exp(-log_odds))
    columns = {f"{name}_{s}": counts[n, :, c] for c, name in enumerate(STYLE) for n, s in enumerate(("a", "b"))}
    names = np.array([f"m{n}" for n in range(MODELS)])
    return pl.DataFrame(
        {
            "model_a": names[first],
            "model_b": names[second],
            "winner": np.where(won, "model_a", "model_b"),
            "controlled": controlled,
            **columns,
        }
    )
