"""Leaderboards under style control: ratings adjusted for length and markdown of answers (VisionArena eq. 2, sec. 4.4).

Log-strengths and style coefficients are fitted jointly on the votes, with a ridge penalty.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl
from scipy.special import expit

from schemas.errors import BadInput
from schemas.rating import STYLE_CONTROL, RankChange, Rating, RatingMethod, StyleCoefficient, StylePreset
from tasks.leaderboard.bradley_terry import ends_difference, laplacian, shortened, structure
from tasks.leaderboard.intervals import (
    NORMAL95,
    Covariances,
    dispersion,
    draws,
    few_votes_factor,
    open_intervals,
    quantiles95,
)
from tasks.leaderboard.leaderboard import UNKNOWN_MAX, Fitted, board_rows, by_bootstrap
from tasks.leaderboard.votes import Matrix, Vector, Votes, votes
from tasks.runtime.parallel import one_blas_thread
from tasks.storage.tables import frame_of

COVARIATES = ("tokens", "headers", "list_items", "bold", "entities")
"""Length, markdown and named entities of an answer; in columns `<name>_a` and `<name>_b`, if measured."""
PARTIAL = frozenset({"entities"})
"""Covariates that are null where no model of the language counts them; see `styleable`."""
KNOWN_ONLY, LEFT_OUT = "entities_known", "without_entities"
"""Flags of a board (`Rating.flags`)."""
NOT_ON_BOARD, UNKNOWN_COVARIATE = "not_on_board", "unknown"
"""Flags of a coefficient (`StyleCoefficient.flags`)."""
_PAIR_VOTES_MIN = 50
_STEPS_MAX = 200
"""A bound that no fit meets: the penalised likelihood is concave, shortened steps never overshoot, and weights from
1e-6 to 1e6 with lengths from 1 to 1e6 took 113 steps at most."""
_STEP_MIN = 1e-5
"""Stop when a Newton step is smaller; the remaining error is about its square."""


@dataclass(frozen=True)
class _Preset:
    ridge_strengths: float
    ridge_coefficients: float
    """Multiplied by the number of votes if `per_vote`."""
    per_vote: bool
    pairs_weigh_the_same: bool


_PRESETS = {
    # rating_systems.py: half of 0.5 times the squares of coefficients and of ratings in units of 400 points.
    StylePreset.FASTCHAT: _Preset(0.5 / np.log(10) ** 2, 0.5, per_vote=False, pairs_weigh_the_same=False),
    # contextual_bradley_terry.py: penalised mean log-likelihood; votes of a pair share one weight.
    StylePreset.ARENA_RANK: _Preset(1e-5, 1.0, per_vote=True, pairs_weigh_the_same=True),
}


@dataclass(frozen=True)
class StyledVotes:
    """Votes with covariates, both from the view of the first model of each pair, and the penalty of the fit."""

    cast: Votes
    """The votes; `weight` below stands in place of their own weights."""
    style: Matrix
    """float64 (votes, covariates): standardised difference, first model minus second."""
    weight: Vector
    """(votes,): weights."""
    penalty: Vector
    """(models + covariates,): penalty p of each parameter x; p x^2 / 2 is subtracted from the log-likelihood."""

    @property
    def models(self) -> int:
        """Number of models."""
        return len(self.cast.models)

    def chances(self, parameters: Vector) -> Vector:
        """(votes,): probability that the first model wins."""
        strengths, pairs = parameters[: self.models], self.cast.pairs
        gap = strengths[pairs[:, 0]] - strengths[pairs[:, 1]]
        return np.asarray(expit(gap[self.cast.pair] + self.style @ parameters[self.models :]))

    def gradient(self, value: Vector) -> Vector:
        """(models + covariates,): sum of `value` (votes,) times x, a vote's design row: +1, -1 and covariates."""
        ends = ends_difference(self.cast.pairs, self._by_pair(value), self.models)
        return np.concatenate([ends, self.style.T @ value])

    def information(self, value: Vector) -> Matrix:
        """(parameters, parameters): sum of `value` (votes,) times x x'."""
        models = self.models
        matrix = np.empty((len(self.penalty), len(self.penalty)))
        matrix[:models, :models] = laplacian(self.cast.pairs, self._by_pair(value), models)
        for number, column in enumerate((self.style * value[:, None]).T, models):
            matrix[:, number] = matrix[number] = self.gradient(column)
        return matrix

    def _by_pair(self, value: Vector) -> Vector:
        return np.asarray(np.bincount(self.cast.pair, value, len(self.cast.pairs)), np.float64)


def measured_covariates(battles: pl.DataFrame) -> tuple[str, ...]:
    """Covariates with a column for both sides."""
    return tuple(name for name in COVARIATES if {f"{name}_a", f"{name}_b"} <= set(battles.columns))


def styleable(battles: pl.DataFrame, *, unknown_as_mean: bool = False) -> pl.DataFrame:
    """The `rateable` battles that a board under style control is fitted on: those with every covariate on both sides.

    Where most battles lack a `PARTIAL` covariate, its columns are left out, and the battles stay. `unknown_as_mean` is
    `RatingMethod.unknown_style_as_mean`: then battles that lack such a covariate stay, and so do its columns.
    """
    # A column is one covariate on one side, of those that are counted in every language.
    whole = [f"{name}_{side}" for name in measured_covariates(battles) if name not in PARTIAL for side in "ab"]
    measured = battles.drop_nulls(whole) if whole else battles
    if unknown_as_mean:
        return measured
    for name in sorted(PARTIAL & {*measured_covariates(battles)}):
        columns = [f"{name}_a", f"{name}_b"]
        counted = measured.drop_nulls(columns)
        is_known = counted.height >= (1 - UNKNOWN_MAX) * measured.height and not counted.is_empty()
        measured = counted if is_known else measured.drop(columns)
    return measured


def partly_known(battles: pl.DataFrame, board: pl.DataFrame) -> dict[str, pl.DataFrame]:
    """`PARTIAL` covariate that `board`, of `styleable`, leaves out -> battles with it and every other on both sides."""
    covariates = measured_covariates(battles)
    left_out = sorted({*covariates} - {*measured_covariates(board)})
    return {
        name: battles.drop_nulls([f"{covariate}_{side}" for covariate in covariates for side in "ab"])
        for name in left_out
    }


def sides_are_drawn(battles: pl.DataFrame) -> bool:
    """Whether models were drawn on sides; not where one model is on one side of all battles, as a baseline is."""
    return all(battles[side].n_unique() > 1 for side in ("model_a", "model_b"))


def style_differences(
    battles: pl.DataFrame, covariates: Sequence[str], *, sides_drawn: bool = True, unknown_as_mean: bool = False
) -> Matrix:
    """float64 (battles, covariates): (a - b) / (a + b + 1), standardised to mean 0 and standard deviation 1.

    Where one model always is on one side, `sides_drawn` is False: 0 stays 0, as if half the battles were turned round,
    or the mean would hide what is common to all its opponents. A constant covariate is 0. With
    `unknown_as_mean`, so is a null one of `PARTIAL`. Mean and deviation are of battles, whatever their weights, as both
    published methods have them. Raises BadInput for other counts that are missing, and for
    negative or not finite ones.
    """
    sides = []
    for side in ("a", "b"):
        counts = battles.select(pl.col(f"{name}_{side}").cast(pl.Float64) for name in covariates)
        for column in counts:
            partial = unknown_as_mean and column.name.rpartition("_")[0] in PARTIAL
            wrong = int((~column.is_finite() | (column < 0)).fill_null(not partial).sum())
            if wrong:
                raise BadInput(
                    f"{column.name} is missing, negative or not a number in {wrong} of {len(column)} battles"
                )
        sides.append(counts.to_numpy())
    a, b = sides
    difference = (a - b) / (a + b + 1)
    is_counted = ~np.isnan(difference)
    counted = np.maximum(is_counted.sum(axis=0), 1)
    mean = np.nansum(difference, axis=0) / counted if sides_drawn else np.zeros(len(covariates))
    spread = np.sqrt(np.nansum((difference - mean) ** 2, axis=0) / counted)
    varies = spread > 1e-12
    return np.where(varies & is_counted, (difference - mean) / np.where(varies, spread, 1), 0.0)


def styled(cast: Votes, style: Matrix, preset: StylePreset = StylePreset.FASTCHAT) -> StyledVotes:
    """Votes with `style` float64 (votes, covariates), the differences model_a minus model_b, under a preset.

    Penalty and weights of pairs are by the number of votes, as published; the votes' own weights, which neither method
    has, come on top.
    """
    chosen, count, weight = _PRESETS[preset], len(cast.pair), np.ones(len(cast.pair))
    if chosen.pairs_weigh_the_same:
        weight = 1 / np.maximum(np.bincount(cast.pair), _PAIR_VOTES_MIN)[cast.pair]
        weight /= weight.mean()
    ridge = [chosen.ridge_strengths, chosen.ridge_coefficients * (count if chosen.per_vote else 1)]
    return StyledVotes(
        cast,
        np.where(cast.swapped, -1.0, 1.0)[:, None] * style,
        weight * cast.weight,
        np.repeat(ridge, [len(cast.models), style.shape[1]]),
    )


def fit(data: StyledVotes, start: Vector | None = None) -> Vector:
    """Parameters float64 (models + covariates,) that maximise the penalised likelihood, by Newton's method."""
    parameters = np.zeros(len(data.penalty)) if start is None else start
    furthest = np.abs(data.style).max(axis=0, initial=0)
    for _ in range(_STEPS_MAX):
        chance = data.chances(parameters)
        hessian = data.information(data.weight * chance * (1 - chance)) + np.diag(data.penalty)
        gradient = data.gradient(data.weight * (data.cast.score - chance)) - data.penalty * parameters
        step = np.linalg.solve(hessian, gradient)
        size = np.abs(step)
        reach = 2 * size[: data.models].max() + float(size[data.models :] @ furthest)
        parameters = parameters + step * shortened(reach)
        if reach < _STEP_MIN:
            break
    return parameters


def bootstrap_fits(data: StyledVotes, point: Vector, rounds: int, seed: int) -> Matrix:
    """Parameters float64 (rounds, models + covariates) from resampled votes; NaN for models without a drawn vote."""
    fits = []
    for times in draws(data.cast, rounds, seed):
        parameters = fit(replace(data, weight=data.weight * times), point)
        drawn = np.bincount(data.cast.pairs[data.cast.pair].ravel(), times.repeat(2), data.models) > 0
        parameters[: data.models][~drawn] = np.nan
        fits.append(parameters)
    return np.array(fits)


def styled_covariances(data: StyledVotes, point: Vector) -> Covariances:
    """Covariances float64 (parameters, parameters). By the model the penalty counts as votes (Wahba 1983).

    Of votes that are independent: with clusters, `by_bootstrap` takes intervals from resampled ones instead.
    """
    chance, penalty = data.chances(point), np.diag(data.penalty)
    bread = np.linalg.inv(data.information(data.weight * chance * (1 - chance)) + penalty)
    squares, expected = (data.weight * (data.cast.score - chance)) ** 2, data.weight**2 * chance * (1 - chance)
    return Covariances(
        bread @ data.information(squares) @ bread * few_votes_factor(len(data.cast.pair), len(point) - 1),
        bread @ (data.information(expected) + penalty) @ bread * dispersion(squares, expected),
    )


@one_blas_thread()
def style_board(
    battles: pl.DataFrame,
    method: RatingMethod,
    level: Mapping[str, float] | None = None,
    *,
    sides_drawn: bool = True,
) -> tuple[list[Rating], list[StyleCoefficient]]:
    """The board under style control and the coefficients, from `styleable` battles.

    `level` gives ratings whose mean is kept; `sides_drawn` as for `style_differences`. Raises BadInput without a
    covariate.
    """
    covariates = measured_covariates(battles)
    if not covariates and not battles.is_empty():
        raise BadInput(f"no style covariate; give one or more of {', '.join(COVARIATES)}, as tokens_a and tokens_b")
    if battles.is_empty():
        return [], []
    cast = votes(battles, method.cluster)
    as_mean = method.unknown_style_as_mean
    style = style_differences(battles, covariates, sides_drawn=sides_drawn, unknown_as_mean=as_mean)
    data = styled(cast, style, method.style_preset)
    models, parameters = data.models, fit(data)
    strengths, coefficients = parameters[:models], parameters[models:]
    covariance, by_model = styled_covariances(data, parameters)
    if by_bootstrap(method):
        samples = bootstrap_fits(data, parameters, method.bootstraps, method.seed)
        interval, spread = quantiles95(samples[:, models:], coefficients), samples[:, :models]
    else:
        half = NORMAL95 * np.sqrt(covariance.diagonal()[models:])
        interval, spread = (coefficients - half, coefficients + half), covariance[:models, :models]
    components = structure(cast.pairs, *cast.sums(), models)
    ends, wins = cast.pairs[cast.pair], data.weight * data.cast.score
    opened = open_intervals(ends, wins, data.weight, data.style @ coefficients, strengths, components)
    fitted = Fitted(components, strengths, spread, by_model[:models, :models], opened)
    rows = board_rows(cast, fitted, STYLE_CONTROL, method, level)
    numbers = zip(covariates, coefficients.tolist(), *(end.tolist() for end in interval), data.style.T, strict=True)
    about: dict[str, Any] = {"slice": "overall", "preset": method.style_preset}
    about |= {"battles": battles.height, "of": battles.height}
    return rows, [
        StyleCoefficient(
            covariate=name,
            coefficient=at,
            ci95_low=low,
            ci95_high=high,
            flags=[] if differences.any() else ["constant"],
            **about,
        )
        for name, at, low, high, differences in numbers
    ]


def rank_changes(plain: Sequence[Rating], under_control: Sequence[Rating]) -> list[RankChange]:
    """Rank changes of the models on both boards (VisionArena Fig. 8), largest change first."""
    before, after = (frame_of(Rating, rows).select("model", "rank", "rating") for rows in (plain, under_control))
    both = before.join(after, on="model", suffix="_style").with_columns(
        rank_change=pl.col("rank") - pl.col("rank_style")
    )
    size = pl.col("rank_change").abs().fill_null(0)
    ordered = both.sort(size, "rank_style", "model", descending=[True, False, False], nulls_last=True)
    return [RankChange(slice="overall", **row) for row in ordered.iter_rows(named=True)]
