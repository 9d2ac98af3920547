"""Votes -> leaderboards of slices: ratings, intervals, ranks, and flags for misleading rows."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import polars as pl

from schemas.errors import BadInput, known_values
from schemas.rating import FEW_VOTES, OVERALL, Interval, Rating, RatingMethod
from tasks.leaderboard.bradley_terry import SCALE, Fixed, Structure, fixed_models, log_strengths, place, structure
from tasks.leaderboard.intervals import (
    NORMAL95,
    bootstrap_strengths,
    covariances,
    difference_deviation,
    doubtful,
    only_ties,
    open_intervals,
    placed_deviation,
    quantiles95,
    ranks,
    sampled_leads,
)
from tasks.leaderboard.votes import Mask, Matrix, Vector, Votes
from tasks.runtime.parallel import one_blas_thread
from tasks.storage.queries.bench import place_on_board

FEW_BATTLES = 100
"""Models with fewer battles are flagged, as in VisionArena Fig. 7, and do not set the mean of a board."""
UNKNOWN_MAX = 0.5
"""Share of battles of which a category may be unknown for a board that nobody asked for by name."""
CATEGORY = "category:"
"""Prefix of the bool columns of categories, and of their slices."""


_WITHIN = {"question_subcategory": "question_category", "image_subdomain": "image_domain"}
_BY_VALUE = (
    ("language", "language", pl.col("language")),
    ("month", "tstamp", pl.col("tstamp").dt.strftime("%Y-%m")),
    ("question", "question_category", pl.col("question_category")),
    ("question", "question_subcategory", pl.concat_str("question_category", "question_subcategory", separator=" / ")),
    ("image", "image_domain", pl.col("image_domain")),
    ("image", "image_subdomain", pl.concat_str("image_domain", "image_subdomain", separator=" / ")),
)
"""Prefix of slices by value, the column that they need, and the value of a battle."""


class Fitted(NamedTuple):
    """Log-strengths of the models of one board, and the inputs of their intervals."""

    known: Structure
    strengths: Vector
    spread: Matrix
    """Sandwich: covariance (models, models). Bootstrap: log-strengths (rounds, models)."""
    by_model: Matrix
    """Covariance (models, models) that votes which follow the model would give."""
    opened: tuple[Vector, Vector]
    """`open_intervals`."""


def slice_masks(battles: pl.DataFrame) -> dict[str, Mask]:
    """Slice name -> bool (battles,) for every slice that the columns allow, without empty slices.

    `battles` comes from `rateable`, with optional columns `category:<name>` (bool), language, refusal, is_preset,
    tstamp and the four of WildVision's taxonomy. A battle with a null is in no slice of that column; it stays in
    overall and in the exclude_* slices.
    """
    slices = {OVERALL: pl.lit(True), "exclude_ties": ~pl.col("winner").is_in(["tie", "tie_bothbad"])}
    for name, without in (("exclude_refusal", "refusal"), ("exclude_preset", "is_preset")):
        if without in battles.columns:
            slices[name] = ~pl.col(without).fill_null(False)
    slices |= {name: pl.col(name).fill_null(False) for name in battles.columns if name.startswith(CATEGORY)}
    for prefix, column, values in _BY_VALUE:
        if column in battles.columns and (column not in _WITHIN or _WITHIN[column] in battles.columns):
            for value in sorted(battles.select(values.drop_nulls().unique()).to_series()):
                slices[f"{prefix}:{value}"] = (values == value).fill_null(False)
    masks = {name: battles.select(chosen.alias("chosen")).to_series() for name, chosen in slices.items()}
    whole = {name: np.resize(mask.to_numpy(), battles.height) for name, mask in masks.items()}
    return {name: mask for name, mask in whole.items() if mask.any()}


def unknown_shares(battles: pl.DataFrame) -> dict[str, float]:
    """Category's slice -> share of the battles of which nobody knows whether they are in it; 0 without battles."""
    names = [name for name in battles.columns if name.startswith(CATEGORY)]
    return {name: battles[name].null_count() / max(battles.height, 1) for name in names}


def default_slices(battles: pl.DataFrame, unknown: Mapping[str, float]) -> dict[str, Mask]:
    """`slice_masks` without categories that are `unknown_shares` of most battles: a board of them would be of a few."""
    return {name: mask for name, mask in slice_masks(battles).items() if unknown.get(name, 0) <= UNKNOWN_MAX}


@one_blas_thread()
def slice_boards(votes: Votes, slices: Mapping[str, Mask], method: RatingMethod) -> list[Rating]:
    """One leaderboard per slice that has votes, all on the scale of the overall board.

    In each slice the anchor keeps its rating. Without an anchor, or in a slice without it, the mean rating of the
    slice's models, of those with 100 battles in it if there are any, is their mean on the overall board. Raises
    BadInput for an anchor without votes.
    """
    if method.anchor_model is not None and method.anchor_model not in votes.models:
        raise BadInput(f"anchor model {known_values(method.anchor_model, votes.models)}")
    if not votes.models:
        return []
    overall = rate_slice(votes, OVERALL, method)
    level = {row.model: row.rating for row in overall}
    rows = []
    for name, chosen in slices.items():
        if chosen.all():
            rows += [row.model_copy(update={"slice": name}) for row in overall]
        else:
            rows += rate_slice(votes.only(chosen), name, method, level)
    return rows


def leaderboard(votes: Votes, slice_name: str = OVERALL, method: RatingMethod | None = None) -> list[Rating]:
    """The board of all votes, best model first; empty without votes."""
    return slice_boards(votes, {slice_name: np.ones(len(votes.pair), bool)}, method or RatingMethod())


def rate_slice(
    votes: Votes, slice_name: str, method: RatingMethod, level: Mapping[str, float] | None = None
) -> list[Rating]:
    """Rows of one board, best first; `level` gives ratings whose mean is kept."""
    if not votes.models:
        return []
    votes = votes.grouped()
    wins, games = votes.sums()
    components = structure(votes.pairs, wins, games, len(votes.models))
    strengths = log_strengths(votes.pairs, wins, games, len(votes.models), parts=components)
    spread, by_model = covariances(votes, strengths, components.core)
    if by_bootstrap(method):
        spread = bootstrap_strengths(votes, strengths, method.bootstraps, method.seed)
    opened = open_intervals(votes.pairs, wins, games, np.zeros(len(games)), strengths, components)
    return board_rows(votes, Fitted(components, strengths, spread, by_model, opened), slice_name, method, level)


def by_bootstrap(method: RatingMethod) -> bool:
    """Whether intervals come from resampled votes or clusters."""
    return method.interval is Interval.BOOTSTRAP or method.cluster is not None


def board_rows(
    votes: Votes, fitted: Fitted, slice_name: str, method: RatingMethod, level: Mapping[str, float] | None
) -> list[Rating]:
    """Rows of a leaderboard, best first; `level` gives ratings whose mean is kept, by default 1000 each."""
    models, components = votes.models, fitted.known
    anchor = models.index(method.anchor_model) if method.anchor_model in models else None
    targets = np.array([level[name] for name in models]) if level else np.full(len(models), 1000.0)
    if anchor is not None:
        targets[anchor] = method.anchor_rating
    battles = votes.battles()
    groups = fixed_models(components, anchor, battles >= FEW_BATTLES)
    point = place(fitted.strengths, groups, targets)
    low, high = (
        np.where(components.core, end, point + SCALE * (open_end - fitted.strengths))
        for end, open_end in zip(_ends(votes, fitted, method, groups, targets), fitted.opened, strict=True)
    )
    rank = ranks(_leads(votes, fitted, method), components.group, components.core)
    flags = _flags(votes, components, method.anchor_model is not None and anchor is None)
    rows = [
        Rating(
            slice=slice_name,
            model=model,
            rating=float(point[n]),
            ci95_low=_known(low[n]),
            ci95_high=_known(high[n]),
            rank=rank[n],
            battles=round(float(battles[n])),
            flags=flags[n],
        )
        for n, model in enumerate(models)
    ]
    return sorted(rows, key=lambda row: place_on_board(row.flags, row.rank, row.rating, row.model))


def _ends(votes: Votes, fitted: Fitted, method: RatingMethod, groups: Fixed, targets: Vector) -> tuple[Vector, Vector]:
    """Ends (models,) of the 95 % intervals of ratings of the core."""
    point = place(fitted.strengths, groups, targets)
    if by_bootstrap(method):
        low, high = quantiles95(place(fitted.spread, groups, targets), point)
    else:
        half = NORMAL95 * SCALE * placed_deviation(fitted.spread, groups)
        low, high = point - half, point + half
    # a rating is a difference from the mean of fixed models, so it is doubtful with any of them
    floored = doubtful(votes)
    for members, fixed in groups:
        floored[members] |= floored[fixed].any()
    least = NORMAL95 * SCALE * placed_deviation(fitted.by_model, groups) * floored
    return np.minimum(low, point - least), np.maximum(high, point + least)


def _leads(votes: Votes, fitted: Fitted, method: RatingMethod) -> Matrix:
    """Lower ends (models, models) of the 95 % intervals of each model's lead over each other one, in log-odds."""
    lead = fitted.strengths[:, None] - fitted.strengths[None, :]
    if by_bootstrap(method):
        low = sampled_leads(fitted.spread, fitted.strengths)
    else:
        low = lead - NORMAL95 * difference_deviation(fitted.spread)
    floored = doubtful(votes)
    least = NORMAL95 * difference_deviation(fitted.by_model) * (floored[:, None] | floored[None, :])
    return np.minimum(low, lead - least)


def _known(value: float) -> float | None:
    return None if np.isnan(value) else float(value)


def _flags(votes: Votes, components: Structure, no_anchor: bool) -> list[list[str]]:
    """`Rating.flags` of each model."""
    models, (first, second), (wins, games) = len(votes.models), votes.pairs.T, votes.sums()
    won = np.bincount(first, wins, models) + np.bincount(second, games - wins, models)
    lost = np.bincount(first, games - wins, models) + np.bincount(second, wins, models)
    marks = {
        "few_battles": votes.battles() < FEW_BATTLES,
        "few_votes": votes.battles() < FEW_VOTES,
        "only_ties": only_ties(votes),
        "only_wins": lost == 0,
        "only_losses": won == 0,
        "unbounded": ~components.core,
        "separate_group": components.group != 0,
        "anchor_missing": np.full(models, no_anchor),
    }
    return [[name for name, holds in marks.items() if holds[n]] for n in range(models)]
