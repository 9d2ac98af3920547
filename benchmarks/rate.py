"""A leaderboard with 100 bootstraps: ours from rows against evalica, the fastest public library, from rows."""

from typing import Any

import evalica
import numpy as np
import polars as pl
from evalica import Winner

from benchmarks.timing import compare
from tasks.rate.leaderboard import leaderboard
from tasks.rate.votes import votes

BATTLES, MODELS, ROUNDS = 30_000, 20, 100


def _battles(seed: int = 0) -> pl.DataFrame:
    generator = np.random.default_rng(seed)
    strength = generator.normal(0, 1, MODELS)
    first, second = generator.integers(0, MODELS, (2, BATTLES))
    chance = 1 / (1 + np.exp(strength[second] - strength[first]))
    drawn = generator.random(BATTLES)
    winner = np.where(generator.random(BATTLES) < 0.3, "tie", np.where(drawn < chance, "model_a", "model_b"))
    frame = pl.DataFrame({"a": first, "b": second, "winner": winner}).filter(pl.col("a") != pl.col("b"))
    return frame.select(
        pl.format("model-{}", "a").alias("model_a"), pl.format("model-{}", "b").alias("model_b"), "winner"
    )


def run() -> list[dict[str, Any]]:
    """Seconds from string columns to ratings with intervals."""
    battles = _battles()
    outcome = {"model_a": Winner.X, "model_b": Winner.Y, "tie": Winner.Draw}
    xs, ys = battles["model_a"].to_list(), battles["model_b"].to_list()
    winners = [outcome[label] for label in battles["winner"]]
    generator = np.random.default_rng(0)

    def ours() -> object:
        return leaderboard(votes(battles), "overall", bootstraps=ROUNDS)

    def peer() -> None:
        for _ in range(ROUNDS):
            weights = generator.multinomial(len(xs), np.full(len(xs), 1 / len(xs))).astype(float)
            evalica.bradley_terry(xs, ys, winners, weights=weights.tolist())

    scores = evalica.bradley_terry(xs, ys, winners).scores
    rated = {row.model: row.rating for row in leaderboard(votes(battles), "overall", bootstraps=2)}
    theirs = 400 * np.log10(np.array([scores[model] for model in rated]))
    mine = np.array(list(rated.values()))
    difference = float(np.abs((mine - mine.mean()) - (theirs - theirs.mean())).max())
    return [
        compare("rate: 100 bootstraps", BATTLES, ours, "evalica.bradley_terry on rows", peer, points_apart=difference)
    ]
