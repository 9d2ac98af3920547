"""Other ways to rate models, from their published descriptions.

Each takes battles and gives a function of a number of bootstraps, so that preparation, which is done once however
many bootstraps there are, is not timed. Without bootstraps that function gives the point ratings, their mean 1000.
"""

from collections.abc import Callable, Sequence

import evalica
import numpy as np
import pandas as pd
import polars as pl
from scipy.optimize import minimize
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

from tasks.leaderboard.votes import Votes

Peer = Callable[[int], dict[str, float]]
_RESULT = {"model_a": evalica.Winner.X, "model_b": evalica.Winner.Y, "tie": evalica.Winner.Draw}


def evalica_on_rows(battles: pl.DataFrame) -> Peer:
    """evalica, given the rows; a resample is a weight for each row."""
    generator = np.random.default_rng(0)
    xs, ys = battles["model_a"].to_list(), battles["model_b"].to_list()
    winners = [_RESULT[label] for label in battles["winner"]]

    def run(rounds: int) -> dict[str, float]:
        for _ in range(rounds):
            drawn = np.bincount(generator.integers(0, len(xs), len(xs)), minlength=len(xs))
            evalica.bradley_terry(xs, ys, winners, weights=drawn.astype(float).tolist())
        return {} if rounds else _placed(dict(evalica.bradley_terry(xs, ys, winners).scores))

    return run


def evalica_on_counts(votes: Votes) -> Peer:
    """evalica, given every pair and result of grouped votes once, with its drawn count as the weight."""
    generator = np.random.default_rng(0)
    xs, ys = ([votes.models[n] for n in votes.pairs[votes.pair, side]] for side in (0, 1))
    labels = {1.0: evalica.Winner.X, 0.5: evalica.Winner.Draw}
    winners = [labels.get(each, evalica.Winner.Y) for each in votes.score]
    held = votes.times

    def run(rounds: int) -> dict[str, float]:
        for _ in range(rounds):
            drawn = generator.multinomial(int(held.sum()), held / held.sum())
            evalica.bradley_terry(xs, ys, winners, weights=drawn.astype(float).tolist())
        return {} if rounds else _placed(dict(evalica.bradley_terry(xs, ys, winners, weights=held.tolist()).scores))

    return run


def pivot_and_regression(battles: pl.DataFrame) -> Peer:
    """FastChat's notebook: resampled rows, pivot tables of wins, and a weighted logistic regression on pairs."""
    frame = pd.DataFrame(battles.select("model_a", "model_b", "winner").to_dict(as_series=False))

    def run(rounds: int) -> dict[str, float]:
        for round_number in range(rounds):
            _regression(frame.sample(frac=1.0, replace=True, random_state=round_number))
        return {} if rounds else _regression(frame)

    return run


def _regression(frame: pd.DataFrame) -> dict[str, float]:
    models = sorted({*frame["model_a"], *frame["model_b"]})
    wins = np.zeros((len(models), len(models)))
    for label, turned in (("model_a", False), ("model_b", True), ("tie", False), ("tie", True)):
        told = frame[frame["winner"] == label]
        table = pd.pivot_table(told, index="model_a", columns="model_b", aggfunc="size", fill_value=0)
        counts = table.reindex(index=models, columns=models, fill_value=0).to_numpy()
        wins += (1 if label == "tie" else 2) * (counts.T if turned else counts)
    first, second = np.nonzero(wins + wins.T > 0)
    design = np.zeros((2 * len(first), len(models)))
    rows = np.arange(len(first))
    design[rows, first], design[rows, second] = np.log(10), -np.log(10)
    design[len(first) + rows, first], design[len(first) + rows, second] = np.log(10), -np.log(10)
    outcome = np.repeat([1, 0], len(first))
    weight = np.concatenate([wins[first, second], wins[second, first]])
    fitted = LogisticRegression(C=np.inf, fit_intercept=False, tol=1e-6).fit(design, outcome, sample_weight=weight)
    return _placed(dict(zip(models, 10.0 ** fitted.coef_[0], strict=True)))


def contextual_descent(battles: pl.DataFrame, covariates: Sequence[str]) -> Peer:
    """FastChat's rating_systems: L-BFGS on (resampled) rows, penalty 0.25 times the sum of squares."""
    generator = np.random.default_rng(0)
    models = sorted({*battles["model_a"], *battles["model_b"]})
    number = {name: n for n, name in enumerate(models)}
    ends = np.array([[number[a], number[b]] for a, b in zip(battles["model_a"], battles["model_b"], strict=True)])
    a, b = (battles.select(f"{name}_{side}" for name in covariates).to_numpy().astype(float) for side in ("a", "b"))
    difference = (a - b) / (a + b + 1)
    features = (difference - difference.mean(axis=0)) / difference.std(axis=0)
    score = np.select([battles["winner"] == "model_a", battles["winner"] == "model_b"], [1.0, 0.0], 0.5)

    def fit(rows: np.ndarray) -> np.ndarray:
        met, x, y = ends[rows], features[rows], score[rows]

        def loss(parameters: np.ndarray) -> tuple[float, np.ndarray]:
            ratings = parameters[: len(models)]
            chance = expit(np.log(10) * (ratings[met[:, 0]] - ratings[met[:, 1]]) + x @ parameters[len(models) :])
            value = -(np.log(chance) * y + np.log(1 - chance) * (1 - y)).sum() + 0.25 * parameters @ parameters
            gradient = 0.5 * parameters
            pull = -np.log(10) * (y - chance)
            np.add.at(gradient[: len(models)], met, pull[:, None] * np.array([1.0, -1.0]))
            gradient[len(models) :] -= x.T @ (y - chance)
            return value, gradient

        start = np.zeros(len(models) + x.shape[1])
        options = {"maxiter": 100, "gtol": 1e-6}
        return minimize(loss, start, jac=True, method="L-BFGS-B", options=options).x

    def run(rounds: int) -> dict[str, float]:
        for _ in range(rounds):
            fit(generator.integers(0, len(score), len(score)))
        if rounds:
            return {}
        return _placed(dict(zip(models, 10.0 ** fit(np.arange(len(score)))[: len(models)], strict=True)))

    return run


def _placed(odds: dict[str, float]) -> dict[str, float]:
    points = {model: 400 * np.log10(value) for model, value in odds.items()}
    middle = np.mean(list(points.values()))
    return {model: float(value - middle + 1000) for model, value in points.items()}
