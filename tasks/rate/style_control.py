"""Leaderboards under style control: what is left of a rating when answers look alike (VisionArena sec. 4.4)."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from schemas.errors import BadInput
from schemas.rating import Interval, RankChange, Rating, RatingMethod, StyleCoefficient, StylePreset
from tasks.rate.bradley_terry import SCALE, place
from tasks.rate.connected import structure
from tasks.rate.intervals import NORMAL95, interval95, placed_deviation
from tasks.rate.leaderboard import battles_of, board, board_flags
from tasks.rate.style_fit import Ridge, bootstrap_fits, fit, sandwich
from tasks.rate.style_sums import styled
from tasks.rate.votes import Matrix, Vector, Votes, votes
from tasks.running.blas_threads import one_blas_thread

STYLE_CONTROL = "style_control"
COVARIATES = ("tokens", "headers", "list_items", "bold", "entities")
"""Length, markdown and specificity (named entities); each is a column `<name>_a` and `<name>_b`, where measured."""
_PAIR_VOTES_MIN = 50


@dataclass(frozen=True)
class _Preset:
    ridge_strengths: float
    ridge_coefficients: float
    """Fixed, or for each vote where `per_vote`."""
    per_vote: bool
    pairs_weigh_the_same: bool


_PRESETS = {
    # rating_systems.py: half of 0.5 times the squares of coefficients and of ratings in units of 400 points.
    StylePreset.FASTCHAT: _Preset(0.5 / np.log(10) ** 2, 0.5, per_vote=False, pairs_weigh_the_same=False),
    # contextual_bradley_terry.py: the penalty stands beside the mean log-likelihood; votes of a pair share one weight.
    StylePreset.ARENA_RANK: _Preset(1e-5, 1.0, per_vote=True, pairs_weigh_the_same=True),
}


def measured_covariates(battles: pl.DataFrame) -> tuple[str, ...]:
    """The covariates that both sides have a column for."""
    return tuple(name for name in COVARIATES if {f"{name}_a", f"{name}_b"} <= set(battles.columns))


def style_differences(battles: pl.DataFrame, covariates: Sequence[str]) -> Matrix:
    """float64 (battles, covariates): (a - b) / (a + b + 1), less its mean, over its standard deviation.

    A covariate that never differs is zero. Raises BadInput for counts that are missing, negative or no numbers.
    """
    sides = []
    for side in ("a", "b"):
        counts = battles.select(pl.col(f"{name}_{side}").cast(pl.Float64) for name in covariates)
        for column in counts:
            wrong = int((column.is_null() | ~column.is_finite() | (column < 0)).fill_null(True).sum())
            if wrong:
                raise BadInput(f"{column.name} is missing, negative or no number in {wrong} of {len(column)} battles")
        sides.append(counts.to_numpy())
    a, b = sides
    difference = (a - b) / (a + b + 1)
    spread = difference.std(axis=0)
    varies = spread > 1e-12
    return np.where(varies, (difference - difference.mean(axis=0)) / np.where(varies, spread, 1), 0.0)


@one_blas_thread()
def style_board(
    battles: pl.DataFrame, method: RatingMethod, level: dict[str, float] | None = None
) -> tuple[list[Rating], list[StyleCoefficient]]:
    """The board under style control and the coefficients, of `rateable` battles with covariate columns.

    `level` holds the ratings whose mean is kept. Raises BadInput when there is no covariate to control.
    """
    covariates = measured_covariates(battles)
    if not covariates:
        raise BadInput(f"no style covariate; give one or more of {', '.join(COVARIATES)}, as tokens_a and tokens_b")
    if battles.is_empty():
        return [], []
    told, style = votes(battles), style_differences(battles, covariates)
    data, ridge = styled(told, style, _weights(told, method.style)), _ridge(len(told.pair), method.style)
    models, counts = len(told.models), told.counts()
    group, core = structure(told.pairs, counts, models)
    anchor = told.models.index(method.anchor_model) if method.anchor_model in told.models else None
    wanted = np.array([level[name] for name in told.models]) if level else None
    parameters = fit(data, ridge)
    point = place(parameters[:models], group, anchor, method.anchor_rating, wanted)
    if method.interval is Interval.SANDWICH:
        covariance = sandwich(data, ridge, parameters)
        half = NORMAL95 * SCALE * placed_deviation(covariance[:models, :models], group, anchor)
        spread = NORMAL95 * np.sqrt(covariance.diagonal()[models:])
        of_models = (point - half, point + half)
        of_covariates = (parameters[models:] - spread, parameters[models:] + spread)
    else:
        samples = bootstrap_fits(data, ridge, parameters, method.bootstraps, method.seed)
        of_models = interval95(place(samples[:, :models], group, anchor, method.anchor_rating, wanted), point)
        of_covariates = interval95(samples[:, models:], parameters[models:])
    flags = board_flags(told.pairs, counts, group, core, method.anchor_model is not None and anchor is None)
    rows = board(told.models, STYLE_CONTROL, point, of_models, group, battles_of(told.pairs, counts, models), flags)
    return rows, _coefficients(covariates, parameters[models:], of_covariates, style, method.style)


def rank_changes(plain: Sequence[Rating], under_control: Sequence[Rating]) -> list[RankChange]:
    """What style control does to the rank of each model that both boards have (VisionArena Fig. 8), largest first."""
    before = {row.model: row for row in plain}
    rows = [
        RankChange(
            model=row.model,
            rank=before[row.model].rank,
            rank_style=row.rank,
            rank_change=before[row.model].rank - row.rank,
            rating=before[row.model].rating,
            rating_style=row.rating,
        )
        for row in under_control
        if row.model in before
    ]
    return sorted(rows, key=lambda row: (-abs(row.rank_change), row.rank_style, row.model))


def _coefficients(
    names: Sequence[str], point: Vector, interval: tuple[Vector, Vector], style: Matrix, preset: StylePreset
) -> list[StyleCoefficient]:
    low, high = interval
    return [
        StyleCoefficient(
            covariate=name,
            coefficient=float(point[n]),
            ci95_low=float(low[n]),
            ci95_high=float(high[n]),
            preset=preset,
            battles=len(style),
            flags=[] if style[:, n].any() else ["constant"],
        )
        for n, name in enumerate(names)
    ]


def _ridge(told: int, preset: StylePreset) -> Ridge:
    chosen = _PRESETS[preset]
    return Ridge(chosen.ridge_strengths, chosen.ridge_coefficients * (told if chosen.per_vote else 1))


def _weights(told: Votes, preset: StylePreset) -> Vector:
    if not _PRESETS[preset].pairs_weigh_the_same:
        return np.ones(len(told.pair))
    weight = 1 / np.maximum(np.bincount(told.pair), _PAIR_VOTES_MIN)[told.pair]
    return np.asarray(weight / weight.mean())
