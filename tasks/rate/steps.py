"""The Prefect skin of rate: leaderboards of the kept anonymous battles, per slice and under style control."""

import numpy as np
import polars as pl
from prefect import task
from prefect.cache_policies import NO_CACHE

from schemas.rating import Rating
from schemas.run import StageReport
from schemas.settings import Settings
from tasks.lookup.conversation_features import CATEGORIES, conversation_features
from tasks.lookup.facts import Versions
from tasks.rate.bradley_terry import ratings, win_matrix
from tasks.rate.intervals import interval95
from tasks.rate.leaderboard import board, leaderboard
from tasks.rate.slices import slice_battles
from tasks.rate.style_control import COVARIATES, fit_style, style_differences
from tasks.rate.votes import votes
from tasks.tables import Store, frame_of
from tasks.timing import timed

STYLE_CONTROL = "style_control"
_FEATURES = ("assistant_tokens", "headers", "list_items", "bold")


@task(cache_policy=NO_CACHE)
@timed
def rate_models(settings: Settings, versions: Versions) -> StageReport:
    """`battles` and `decisions` -> `ratings`."""
    store = Store.open(settings.store)
    battles = rated_battles(store, versions)
    rows: list[Rating] = []
    for name, frame in slice_battles(battles).items():
        rows += leaderboard(
            votes(frame),
            name,
            bootstraps=settings.bootstraps,
            seed=settings.seed,
            anchor_model=_anchor_in(frame, settings),
            anchor_rating=settings.anchor_rating,
        )
    rows += _style_controlled(battles, settings)
    store.replace("ratings", frame_of(Rating, rows))
    boards = len({row.slice for row in rows})
    return StageReport(stage="rate", counts={"battles": battles.height, "boards": boards})


def rated_battles(store: Store, versions: Versions) -> pl.DataFrame:
    """Kept anonymous battles with what is known of the prompt and of both answers (suffix _a and _b)."""
    decisions = store.read("decisions", ["item_kind", "item_id", "keep", "preset_dataset"])
    kept = decisions.filter("keep", item_kind="battle").select(battle_id="item_id")
    battles = store.read("battles").join(kept, on="battle_id", maintain_order="left").filter("anonymous")
    presets = decisions.filter(item_kind="conversation").select(
        conversation_id="item_id", is_preset=pl.col("preset_dataset").is_not_null()
    )
    sides = store.read("conversations").filter(
        pl.col("conversation_id").is_in(pl.concat([battles["conversation_a"], battles["conversation_b"]]).implode())
    )
    known = conversation_features(store, sides, versions)
    prompt = known.select("conversation_id", "language", *CATEGORIES, "code", "multi_turn").join(
        presets, on="conversation_id", how="left"
    )
    joined = battles.join(prompt, left_on="conversation_a", right_on="conversation_id", maintain_order="left")
    for side in ("a", "b"):
        style = known.select(
            pl.col("conversation_id").alias(f"conversation_{side}"),
            *(pl.col(name).alias(f"{name}_{side}") for name in (*_FEATURES, "refusal")),
        )
        joined = joined.join(style, on=f"conversation_{side}", maintain_order="left")
    return joined.with_columns(refusal=pl.col("refusal_a") | pl.col("refusal_b"))


def _anchor_in(battles: pl.DataFrame, settings: Settings) -> str | None:
    """The anchor, where the slice has it; the overall board must have it."""
    present = settings.anchor_model in {*battles["model_a"], *battles["model_b"]}
    return settings.anchor_model if present else None


def _style_controlled(battles: pl.DataFrame, settings: Settings) -> list[Rating]:
    measured = battles.drop_nulls([f"{name}_{side}" for name in _FEATURES for side in ("a", "b")])
    different = measured.filter(pl.col("model_a") != pl.col("model_b"))
    if different.is_empty():
        return []
    told = votes(different)
    sides = [different.select(f"{name}_{s}" for name in _FEATURES).to_numpy().astype(np.float64) for s in ("a", "b")]
    assert len(_FEATURES) == len(COVARIATES)
    point, samples = fit_style(told, style_differences(*sides), settings.bootstraps, settings.seed)
    anchor = _anchor_in(different, settings)
    number = told.models.index(anchor) if anchor else None
    low, high = interval95(ratings(samples.strengths, number, settings.anchor_rating))
    wins = win_matrix(told.first, told.second, told.score, len(told.models))
    return board(told.models, STYLE_CONTROL, ratings(point.strengths, number, settings.anchor_rating), low, high, wins)
