"""Counts of votes that look wrong, or do not count in full; no voter is named."""

from collections.abc import Sequence

import polars as pl

from schemas.items.suspects import Suspect, VoteCheck
from schemas.rating import BothBad, RatingMethod
from tasks.leaderboard.suspects.named import fast_votes
from tasks.leaderboard.votes import rateable, repeats_counted_once

_NEEDS = {
    "suspects": "voters (a column judge)",
    "groups": "voters (a column judge)",
    "fast": "voters and times (columns judge and tstamp)",
    "asks_identity": "prompts",
    "repeated": "voters (a column judge) and pair_votes_max",
}
"""Check -> what it cannot be made without."""


def vote_checks(
    battles: pl.DataFrame, found: Sequence[Suspect], method: RatingMethod, without_suspects: bool
) -> list[VoteCheck]:
    """One row for each check of all battles, none without battles.

    `without_suspects`: whether the boards leave the suspects' votes out.
    """
    if battles.is_empty():
        return []
    rated = rateable(battles)
    limited = repeats_counted_once(rated, method.pair_votes_max)
    excluded = pl.lit(method.both_bad is BothBad.EXCLUDE) & (pl.col("winner") == "tie_bothbad")
    weighed = limited.with_columns(
        counted=pl.when(excluded).then(0.0).otherwise("weight" if "weight" in limited.columns else pl.lit(1.0))
    )
    voted = {"suspects": [row.judge for row in found], "groups": [row.judge for row in found if row.group is not None]}
    known = "judge" in rated.columns and rated["judge"].null_count() < rated.height
    masks = {
        **{name: weighed.select(pl.col("judge").is_in(of)).to_series() for name, of in voted.items() if known},
        "fast": fast_votes(rated),
        "asks_identity": rated.get_column("asks_identity", default=None),
        "repeated": weighed["counted"] != rated.get_column("weight", default=pl.repeat(1.0, rated.height, eager=True))
        if known and method.pair_votes_max
        else None,
        "both_bad": rated["winner"] == "tie_bothbad",
    }
    if without_suspects and known:
        weighed = weighed.with_columns(
            counted=pl.when(masks["suspects"].fill_null(False)).then(0.0).otherwise("counted")
        )
    same = battles.filter(pl.col("model_a") == pl.col("model_b"))
    counts = [_check(name, masks.get(name), weighed) for name in (*_NEEDS, "both_bad")]
    return [*counts, _check("same_model", None, same.with_columns(counted=0.0), whole=True)]


def _check(name: str, mask: pl.Series | None, votes: pl.DataFrame, whole: bool = False) -> VoteCheck:
    if not whole and (mask is None or (len(mask) and mask.null_count() == len(mask))):
        return VoteCheck(check=name, voters=None, votes=None, counted=None, note=f"needs {_NEEDS[name]}")
    found = votes if mask is None else votes.filter(mask.fill_null(False))
    voters = found["judge"].drop_nulls().n_unique() if "judge" in found.columns else None
    return VoteCheck(check=name, voters=voters, votes=found.height, counted=float(found["counted"].sum()), note="")
