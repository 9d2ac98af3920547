"""Which battles each leaderboard is computed on."""

import numpy as np
import polars as pl

from schemas.rating import VoteShare
from tasks.rate.leaderboard import FEW_BATTLES, OVERALL
from tasks.rate.votes import Mask

CATEGORY = "category:"
"""Prefix of the bool columns that name categories, and of their slices."""


def slice_masks(battles: pl.DataFrame) -> dict[str, Mask]:
    """Slice name -> bool (battles,), of every slice the columns tell of; slices without battles are left out.

    `battles` is as `rateable` gives it, with bool columns `category:<name>`, language, refusal, is_preset and tstamp
    where known. What could not be told (null) is in no slice of its own: it stays in overall and in the exclusions.
    """
    slices = {OVERALL: pl.lit(True), "exclude_ties": ~pl.col("winner").is_in(["tie", "tie_bothbad"])}
    for name, without in (("exclude_refusal", "refusal"), ("exclude_preset", "is_preset")):
        if without in battles.columns:
            slices[name] = ~pl.col(without).fill_null(False)
    for name in battles.columns:
        if name.startswith(CATEGORY):
            slices[name] = pl.col(name).fill_null(False)
    if "language" in battles.columns:
        for language in sorted(battles["language"].drop_nulls().unique()):
            slices[f"language:{language}"] = (pl.col("language") == language).fill_null(False)
    if "tstamp" in battles.columns:
        month = pl.col("tstamp").dt.strftime("%Y-%m")
        for name in sorted(battles.select(month.drop_nulls().unique()).to_series()):
            slices[f"month:{name}"] = (month == name).fill_null(False)
    masks = {name: battles.select(chosen.alias("chosen")).to_series() for name, chosen in slices.items()}
    whole = {name: np.resize(mask.to_numpy(), battles.height) for name, mask in masks.items()}
    return {name: mask for name, mask in whole.items() if mask.any()}


def vote_shares(battles: pl.DataFrame, slices: dict[str, Mask]) -> list[VoteShare]:
    """What was voted in each slice, largest first."""
    winner = battles["winner"].to_numpy()
    rows = []
    for name, chosen in slices.items():
        told = winner[chosen]
        tie, both_bad = float((told == "tie").mean()), float((told == "tie_bothbad").mean())
        rows.append(
            VoteShare(
                slice=name,
                battles=len(told),
                decisive_fraction=1 - tie - both_bad,
                tie_fraction=tie,
                both_bad_fraction=both_bad,
                flags=["few_battles"] if len(told) < FEW_BATTLES else [],
            )
        )
    return sorted(rows, key=lambda row: (-row.battles, row.slice))
