"""Leaderboards with 100 bootstraps, from columns of names to ratings with intervals, against other ways to make them.

Peers that take minutes run fewer bootstraps; their seconds are then scaled, and `peer_rounds` says from how many.
"""

from collections.abc import Callable, Sequence
from typing import Any

import evalica
import numpy as np
import pandas as pd
import polars as pl
from scipy.optimize import minimize
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

from benchmarks.timing import compare
from schemas.rating import Interval, RatingMethod
from tasks.leaderboard.leaderboard import leaderboard, slice_boards, slice_masks
from tasks.leaderboard.style_control import COVARIATES, style_board
from tasks.leaderboard.votes import Votes, rateable, votes

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
        _plain(battles(30_000, 20), "evalica.bradley_terry on rows", evalica_on_rows, 10),
        _plain(many, "evalica.bradley_terry on rows", evalica_on_rows, 2),
        _plain(many, "pandas pivot and LogisticRegression (FastChat notebook)", pivot_and_regression, 1),
        _style(),
        _slices(),
    ]


def _plain(table: pl.DataFrame, peer: str, method: Callable[[pl.DataFrame], Peer], rounds: int) -> dict[str, Any]:
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
    run_peer = contextual_descent(table, STYLE)
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
    run_peers = [evalica_on_counts(told.only(mask).grouped()) for mask in masks.values()]

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
