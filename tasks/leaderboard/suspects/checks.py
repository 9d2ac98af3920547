"""Counts of votes that look wrong, or do not count in full; no voter is named."""

from collections.abc import Sequence

import polars as pl

from schemas.benches.certificate import Suspect, VoteCheck
from schemas.policy import VoteRules
from tasks.leaderboard.suspects.named import fast_votes
from tasks.leaderboard.votes import beyond_day, rateable

_VOTERS = "voters (a column judge)"
_NEEDS = {
    "suspects": _VOTERS,
    "groups": _VOTERS,
    "fast": "voters and times (columns judge and tstamp)",
    "asks_identity": "prompts",
    "names_model": "answers (columns conversation_a and conversation_b)",
    "unseen_marks": "answers (columns conversation_a and conversation_b)",
    "repeated": f"{_VOTERS} and a policy with votes: pair_votes_max",
    "beyond_day": "voters, times, and a policy with votes: day_votes_max",
    "both_bad": "",
    "same_model": "",
    "not_in_full": "",
}
"""Check -> what it cannot be made without."""


def vote_checks(
    battles: pl.DataFrame, rated: pl.DataFrame, found: Sequence[Suspect], rules: VoteRules
) -> list[VoteCheck]:
    """One row for each check of all battles, none without battles.

    `rated`: the battles that boards are computed from, with `vote`, their place among all, and perhaps a weight.
    """
    if battles.is_empty():
        return []
    placed = battles.with_columns(vote=pl.int_range(pl.len()))
    same = placed.filter(pl.col("model_a") == pl.col("model_b"))
    cast = pl.concat([_weighed(rateable(placed), "given"), _weighed(same, "given")], how="diagonal_relaxed")
    counted = _weighed(rated, "counted").select("vote", "counted")
    cast = cast.join(counted, on="vote", how="left", maintain_order="left").with_columns(
        pl.col("counted").fill_null(0.0)
    )
    voters = "judge" in cast.columns and cast["judge"].null_count() < cast.height
    named = {"suspects": [row.judge for row in found], "groups": [row.judge for row in found if row.group is not None]}
    lighter = cast["counted"] < cast["given"]
    masks = {
        **{name: cast["judge"].is_in(who) for name, who in named.items() if voters},
        **{name: cast[name] for name in ("asks_identity", "names_model", "unseen_marks") if name in cast.columns},
        "fast": fast_votes(cast),
        **({"repeated": lighter & (cast["counted"] > 0)} if voters and rules.pair_votes_max else {}),
        **({"beyond_day": beyond_day(cast, rules.day_votes_max)} if voters and rules.day_votes_max else {}),
        "both_bad": cast["winner"] == "tie_bothbad",
        "same_model": cast["model_a"] == cast["model_b"],
        "not_in_full": lighter,
    }
    return [_check(name, masks.get(name), cast) for name in _NEEDS]


def _weighed(battles: pl.DataFrame, name: str) -> pl.DataFrame:
    """The battles with their weight under another name."""
    return battles.with_columns((pl.col("weight") if "weight" in battles.columns else pl.lit(1.0)).alias(name))


def _check(name: str, mask: pl.Series | None, votes: pl.DataFrame) -> VoteCheck:
    if mask is None or (len(mask) and mask.null_count() == len(mask)):
        return VoteCheck(check=name, voters=None, votes=None, counted=None, note=f"needs {_NEEDS[name]}")
    found = votes.filter(mask.fill_null(False))
    voters = found["judge"].drop_nulls().n_unique() if "judge" in found.columns else None
    return VoteCheck(check=name, voters=voters, votes=found.height, counted=float(found["counted"].sum()), note="")
