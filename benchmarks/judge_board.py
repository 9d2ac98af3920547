"""Boards of a judge's verdicts with 100 bootstraps, against WildVision-Bench's way of computing them.

Verdicts are invented: as many prompts and models as WildVision-Bench has. Both sides resample rows, strong verdicts as
three; the peer, as its show_results.py, makes pandas rows of votes and fits 101 logistic regressions on all of them.
"""

import math
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
from sklearn.linear_model import LogisticRegression

from benchmarks.timing import compare
from schemas.judging import BoardMethod, Resampled
from tasks.leaderboard.judged.judge_board import judge_boards

PROMPTS, MODELS, ROUNDS = 500, 20, 100
LABELS = ("A>>B", "A>B", "A=B", "B>A", "B>>A")
BASELINE = "baseline"
_WINNER = {"A": "model_a", "B": "model_b"}


def verdicts() -> pl.DataFrame:
    """Every model once against the baseline on every prompt, with the baseline first."""
    generator = np.random.default_rng(0)
    rows = []
    for number in range(MODELS):
        strength = (number + 1) / (MODELS + 1)
        chances = np.array([2 * (1 - strength), 2 * (1 - strength), 0.3, 2 * strength, 2 * strength])
        labels = generator.choice(LABELS, PROMPTS, p=chances / chances.sum())
        rows += [(f"q{n}", BASELINE, f"model-{number}", str(label)) for n, label in enumerate(labels)]
    random.Random(0).shuffle(rows)
    return pl.DataFrame(rows, schema=["question_id", "model_a", "model_b", "label"], orient="row")


def run() -> list[dict[str, Any]]:
    """One comparison; `points_apart` is the largest difference of scores."""
    table = verdicts()

    def ours() -> dict[str, float]:
        method = BoardMethod(baseline=BASELINE, interval=Resampled.ROWS, bootstraps=ROUNDS)
        return {row.model: row.score or 0 for row in judge_boards(table, method, "judge", {})}

    theirs = _scores(_regression(_battles(table)))
    return [
        compare(
            "judge: board of 20 models, 500 prompts, 100 bootstraps",
            table.height,
            ours,
            "pandas rows and 101 logistic regressions (WildVision-Bench show_results)",
            _peer(table),
            points_apart=max(abs(score - theirs[model]) for model, score in ours().items()),
        )
    ]


def _peer(table: pl.DataFrame) -> Callable[[], object]:
    """The rows once, the point estimate, and the bootstraps."""

    def peer() -> None:
        battles = _battles(table)
        _regression(battles)
        for number in range(ROUNDS):
            _regression(battles.sample(frac=1.0, replace=True, random_state=number))

    return peer


def _battles(table: pl.DataFrame) -> pd.DataFrame:
    """One row per vote, made at once: appending a frame for every verdict, as published, takes minutes."""
    rows = []
    for question, first, second, label in table.iter_rows():
        winner = "tie" if "=" in label else _WINNER[label[0]]
        row = {"question_id": question, "model_a": first, "model_b": second, "winner": winner}
        rows += [row] * (3 if len(label) == 4 else 1)
    return pd.DataFrame(rows)


def _regression(battles: pd.DataFrame) -> dict[str, float]:
    """Ratings with the baseline at 1000, by an unpenalised logistic regression on doubled rows."""
    names = pd.concat([battles["model_a"], battles["model_b"]]).unique()
    place = pd.Series(np.arange(len(names)), index=names)
    doubled = pd.concat([battles, battles], ignore_index=True)
    rows = np.arange(len(doubled))
    design = np.zeros((len(doubled), len(names)))
    design[rows, place[doubled["model_a"]]] = math.log(10)
    design[rows, place[doubled["model_b"]]] = -math.log(10)
    won = np.array(doubled["winner"] == "model_a", float)
    tied = np.array(doubled["winner"] == "tie")
    tied[len(tied) // 2 :] = False
    won[tied] = 1
    fitted = LogisticRegression(fit_intercept=False, C=np.inf, tol=1e-8, max_iter=1000).fit(design, won)
    points = 400 * fitted.coef_[0]
    return dict(zip(names, points - points[place[BASELINE]] + 1000, strict=True))


def _scores(ratings: dict[str, float]) -> dict[str, float]:
    return {model: 100 / (1 + 10 ** ((1000 - rating) / 400)) for model, rating in ratings.items()}
