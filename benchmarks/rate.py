"""Leaderboards with 100 bootstraps, from columns of names to ratings with intervals, against other ways to make them.

Peers that take minutes run fewer bootstraps; their seconds are then scaled, and `peer_rounds` says from how many.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import polars as pl

from benchmarks import rate_peers as peers
from benchmarks.timing import compare
from schemas.rating import Interval, RatingMethod
from tasks.leaderboard.leaderboard import leaderboard, slice_boards, slice_masks
from tasks.leaderboard.style_control import COVARIATES, style_board
from tasks.leaderboard.votes import rateable, votes

ROUNDS = 100
BOOTSTRAP = RatingMethod(interval=Interval.BOOTSTRAP, bootstraps=ROUNDS)
STYLE = COVARIATES[:4]


def battles(rows: int, models: int, **more: object) -> pl.DataFrame:
    """Battles of models with normal log-strengths, 30 % ties, and whatever columns `more` has."""
    generator = np.random.default_rng(0)
    strength = generator.normal(0, 1, models)
    first = generator.integers(0, models, rows)
    second = (first + generator.integers(1, models, rows)) % models
    chance = 1 / (1 + np.exp(strength[second] - strength[first]))
    won = np.where(generator.random(rows) < chance, "model_a", "model_b")
    names = np.array([f"model-{n}" for n in range(models)])
    winner = np.where(generator.random(rows) < 0.3, "tie", won)
    return pl.DataFrame({"model_a": names[first], "model_b": names[second], "winner": winner, **more})


def run() -> list[dict[str, Any]]:
    """Every comparison; `points_apart` is the largest difference of point estimates."""
    many = battles(2_000_000, 200)
    return [
        _plain(battles(30_000, 20), "evalica.bradley_terry on rows", peers.evalica_on_rows, 10),
        _plain(many, "evalica.bradley_terry on rows", peers.evalica_on_rows, 2),
        _plain(many, "pandas pivot and LogisticRegression (FastChat notebook)", peers.pivot_and_regression, 1),
        _style(),
        _slices(),
    ]


def _plain(table: pl.DataFrame, peer: str, method: Callable[[pl.DataFrame], peers.Peer], rounds: int) -> dict[str, Any]:
    def ours() -> dict[str, float]:
        return {row.model: row.rating for row in leaderboard(votes(rateable(table)), method=BOOTSTRAP)}

    run_peer = method(table)
    theirs = run_peer(0)
    return compare(
        f"rate: {table['model_a'].n_unique()} models",
        table.height,
        ours,
        peer,
        lambda: run_peer(rounds),
        peer_times=ROUNDS / rounds,
        peer_rounds=rounds,
        points_apart=max(abs(value - theirs[model]) for model, value in ours().items()),
    )


def _style() -> dict[str, Any]:
    generator = np.random.default_rng(1)
    means = dict(zip(STYLE, (200, 1, 4, 3), strict=True))
    counts = {f"{name}_{s}": generator.poisson(mean, 300_000) for name, mean in means.items() for s in ("a", "b")}
    table = battles(300_000, 100, **counts)
    ours = {row.model: row.rating for row in style_board(table, RatingMethod())[0]}
    run_peer = peers.contextual_descent(table, STYLE)
    theirs = run_peer(0)
    return compare(
        "rate: style control, 100 models, 4 covariates",
        table.height,
        lambda: style_board(rateable(table), BOOTSTRAP),
        "L-BFGS on rows (FastChat rating_systems)",
        lambda: run_peer(1),
        peer_times=ROUNDS,
        peer_rounds=1,
        points_apart=max(abs(value - theirs[model]) for model, value in ours.items()),
    )


def _slices() -> dict[str, Any]:
    generator, rows = np.random.default_rng(2), 300_000
    language = np.minimum(26, generator.geometric(0.15, rows) - 1)
    tags = {f"category:c{n}": generator.random(rows) < 0.2 for n in range(9)}
    exclusions = {"refusal": generator.random(rows) < 0.05, "is_preset": generator.random(rows) < 0.1}
    table = battles(rows, 100, language=np.array([f"l{n:02}" for n in range(27)])[language], **tags, **exclusions)

    def ours() -> object:
        told = rateable(table)
        return slice_boards(votes(told), slice_masks(told), BOOTSTRAP)

    masks = slice_masks(rateable(table))
    told = votes(rateable(table))
    run_peers = [peers.evalica_on_counts(told.only(mask).grouped()) for mask in masks.values()]

    def theirs() -> None:
        for run_peer in run_peers:
            run_peer(1)

    return compare(
        f"rate: {len(masks)} slices, 100 models",
        rows,
        ours,
        "evalica.bradley_terry on counts",
        theirs,
        peer_times=ROUNDS,
        peer_rounds=1,
    )
