"""Battles for the tests of ratings: drawn from known strengths, or written out game by game."""

import numpy as np
import polars as pl

LABELS = ("model_b", "tie", "model_a")


def games(*rows: tuple[str, str, str]) -> pl.DataFrame:
    """Battles of (model_a, model_b, winner)."""
    return pl.DataFrame(rows, schema=["model_a", "model_b", "winner"], orient="row")


def beats(winner: str, loser: str, times: int = 1) -> list[tuple[str, str, str]]:
    """Games the winner won, on the left and on the right in turn."""
    return [(winner, loser, "model_a") if n % 2 else (loser, winner, "model_b") for n in range(times)]


def drawn(battles: int, models: int, seed: int = 0, tie_probability: float = 0.3, **more: object) -> pl.DataFrame:
    """Battles between models m0, m1 … whose log-strengths are 0.3 apart, the last the strongest."""
    generator = np.random.default_rng(seed)
    strength = 0.3 * np.arange(models)
    first = generator.integers(0, models, battles)
    second = (first + generator.integers(1, models, battles)) % models
    chance = 1 / (1 + np.exp(strength[second] - strength[first]))
    won = np.where(generator.random(battles) < chance, 2, 0)
    result = np.where(generator.random(battles) < tie_probability, 1, won)
    return pl.DataFrame(
        {
            "model_a": [f"m{n}" for n in first],
            "model_b": [f"m{n}" for n in second],
            "winner": [LABELS[n] for n in result],
            **more,
        }
    )
