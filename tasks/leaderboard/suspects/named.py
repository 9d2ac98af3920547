"""Battles -> suspects: the voters whose evidence holds after correction for the number of voters and groups.

Also counts of votes that look wrong, or do not count in full; no voter is named there.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from schemas.benches.certificate import Suspect, VoteCheck
from schemas.policy import VoteRules
from tasks.leaderboard.suspects.evidence import (
    VOTER_VOTES_MIN,
    History,
    fisher,
    focused,
    history,
    holm,
    more_often,
    omnipresent,
    sequential,
    shared,
    sided,
)
from tasks.leaderboard.suspects.joint import joint
from tasks.leaderboard.votes import Mask, Matrix, Numbers, Vector, Votes, beyond_day, rateable, votes

LEVEL = 0.05
"""Largest corrected p-value of a suspect."""
DOUBTED, PASSES = 0.05, 4
"""Voters with a smaller p of their votes alone are left out of the history, in at most so many passes; only theirs is
combined with how they voted."""
RIGGED_MIN = 0.98
"""Least probability that a member of a group is rigging, by the own votes within it."""
WORDS_A_MINUTE, WORDS_A_TOKEN, SECONDS_MIN = 1000, 0.75, 3.0
"""Nobody reads two answers faster; answers of few or uncounted tokens take the least time."""
SHARED = {"hour": "hour", "focus": "model", "prompt_words": "prompt", "reason_words": "reason"}
"""Column -> what voters share who have the same value in it. Focus is the model that a voter has in more battles than
the arena draws, at p of at most `FOCUS`."""
FOCUS = 1e-3


class Tested(NamedTuple):
    """Evidence about each voter; arrays are (voters,), or have a row of models for each voter who is tested alone."""

    names: list[str]
    """Voters by their number."""
    history: History
    sides: pl.DataFrame
    row: Numbers
    """Row of the voter in the next four; the last row, of ones, for all with fewer than `VOTER_VOTES_MIN` votes."""
    of_history: Matrix
    of_pull: Matrix
    of_focus: Matrix
    of_all: Vector
    """p of the votes on all models together."""
    alone: Vector
    """p of the votes alone: three times the smallest of the three tests."""


def suspects(battles: pl.DataFrame) -> list[Suspect]:
    """Voters whose votes pull one model, from `rateable` battles alone; strongest evidence first.

    Columns that are used where they are there: judge (without it nobody is named), tstamp (without it votes are taken
    in the order of the table), tokens_a and tokens_b, asks_identity, prompt_words and reason_words.
    """
    if "judge" not in battles.columns or battles["judge"].drop_nulls().n_unique() < 2:
        return []
    ordered = battles.sort("tstamp", maintain_order=True) if "tstamp" in battles.columns else battles
    return suspected(ordered, tested(ordered))


def tested(battles: pl.DataFrame) -> Tested:
    """Evidence about every voter of battles that are in the order of their votes.

    Voters who look rigged are left out of the history, and all are tested again, until the same ones do: else a group
    of them would vouch for each other.
    """
    names, cast = sorted(battles["judge"].drop_nulls().unique()), votes(battles)
    # A row is one vote: the number of its voter, -1 where none is named.
    voters = battles["judge"].cast(pl.Enum(names)).to_physical().cast(pl.Int64).fill_null(-1).to_numpy()
    doubted = np.zeros(len(names), bool)
    for _ in range(PASSES):
        evidence = _tested(names, cast, voters, doubted)
        again = (evidence.alone <= DOUBTED) | (len(names) * evidence.of_focus.min(axis=1)[evidence.row] <= DOUBTED)
        if (doubted == again).all():
            break
        doubted = again
    return evidence


def fast_votes(battles: pl.DataFrame) -> pl.Series:
    """Whether a vote, bool (battles,), came sooner after its voter's last one than both answers can be read.

    Nobody reads 1,000 words a minute; 238 are usual (Brysbaert 2019, J. Memory and Language 109). Null for the first
    vote of a voter, and without voters or times.
    """
    if not {"judge", "tstamp"} <= {*battles.columns}:
        return pl.Series("fast", [None] * battles.height, dtype=pl.Boolean)
    counted = [pl.col(name).fill_null(0) for name in ("tokens_a", "tokens_b") if name in battles.columns]
    seconds = pl.sum_horizontal(counted or [pl.lit(0.0)]) * WORDS_A_TOKEN / WORDS_A_MINUTE * 60
    # Of one vote, the seconds since the last one of its voter.
    gap = pl.col("tstamp").diff().over("judge", order_by="tstamp").dt.total_milliseconds() / 1000
    fast = pl.when(pl.col("judge").is_not_null()).then(gap < seconds.clip(lower_bound=SECONDS_MIN))
    return battles.select(fast=fast).to_series()


def lacking(battles: pl.DataFrame) -> Iterator[str]:
    """Gaps of the battles and what therefore cannot be told of suspects, one line each."""
    voters = battles["judge"].drop_nulls() if "judge" in battles.columns else pl.Series([], dtype=pl.String)
    if voters.n_unique() < 2:
        few = "names one voter" if len(voters) else "names no voters (column judge)"
        yield f"the table {few}: nobody can be compared with others, and nobody is suspected"
        return
    if voters.unique_counts().max() < VOTER_VOTES_MIN:  # type: ignore[operator]
        yield f"no voter has {VOTER_VOTES_MIN} votes: voters are tested in groups only"
    if "tstamp" not in battles.columns:
        yield "the table has no times (column tstamp): fast votes and votes of the same hour are not known"
    if "asks_identity" not in battles.columns:
        yield "the table has no prompts: what voters ask is not known"
    if len({*battles["model_a"], *battles["model_b"]}) < 3:
        yield "the table has two models: who favours one cannot be told from who only votes on it"


def _tested(names: list[str], cast: Votes, voters: Numbers, doubted: Mask) -> Tested:
    vote_history = history(cast, voters, doubted)
    sides, models = sided(vote_history), len(cast.models)
    tested = np.flatnonzero(np.bincount(voters[voters >= 0], minlength=len(doubted)) >= VOTER_VOTES_MIN)
    row = np.full(len(doubted), len(tested))
    row[tested] = np.arange(len(tested))
    of_history, of_pull, of_focus = np.ones((3, len(tested) + 1, models))
    of_pull[:-1] = omnipresent(vote_history, tested)
    tested_sides = sides.filter(pl.Series(row[sides["voter"]] < len(tested)))
    for p, met in ((of_history, sequential(tested_sides, models)), (of_focus, focused(sides, models))):
        p[row[met["voter"]], met["model"]] = met["p"]
    of_focus[-1] = 1.0
    of_all = np.append(joint(vote_history, tested), 1.0)
    smallest = np.minimum.reduce([of_history.min(axis=1), of_pull.min(axis=1), of_all])
    return Tested(
        names, vote_history, sides, row, of_history, of_pull, of_focus, of_all, np.minimum(1.0, 3 * smallest)[row]
    )


def suspected(battles: pl.DataFrame, tested_votes: Tested) -> list[Suspect]:
    """`suspects` of battles in the order of their votes, which were `tested`."""
    manner = _manner(battles, tested_votes)
    models = _models(tested_votes)
    focus = tested_votes.of_focus[tested_votes.row, models]
    looked = tested_votes.alone <= DOUBTED
    together = np.where(looked, fisher([tested_votes.alone, focus, *manner.values()]), tested_votes.alone)
    corrected = np.where(looked, holm(together), 1.0)
    of_group = {
        int(voter): row for row in _groups(battles, tested_votes).iter_rows(named=True) for voter in row["voters"]
    }
    rows = []
    for voter in sorted({*np.flatnonzero(2 * corrected <= LEVEL).tolist(), *of_group}):
        group = of_group.get(voter, {})
        p_values = {name: float(p[voter]) for name, p in manner.items()}
        p_values["p_value"] = min(1.0, 2 * min(float(corrected[voter]), group.get("p", 1.0)))
        rows.append(_suspect(tested_votes, voter, group.get("model", int(models[voter])), p_values, group))
    return sorted(rows, key=lambda row: (row.p_value, -abs(row.pull), row.judge))


def _models(evidence: Tested) -> Numbers:
    """The model (voters,) that the votes are most clearly for; or where they are odd together alone, move most."""
    one = np.minimum(evidence.of_history, evidence.of_pull)
    models = np.asarray(one.argmin(axis=1)[evidence.row])
    for voter in np.flatnonzero((one.min(axis=1)[evidence.row] > LEVEL) & (evidence.alone <= DOUBTED)):
        models[voter] = np.abs(evidence.history.pulls(int(voter))).argmax()
    return models


def _manner(battles: pl.DataFrame, evidence: Tested) -> dict[str, Vector]:
    """Values of p, each (voters,), of how the voters voted, as far as that is known."""
    voters, trusted = evidence.history.voters, evidence.alone > DOUBTED
    marks = {"p_fast": fast_votes(battles), "p_identity": battles.get_column("asks_identity", default=None)}
    return {
        name: more_often(
            mark.fill_null(False).to_numpy(), mark.is_not_null().to_numpy(), voters, len(evidence.names), trusted
        )
        for name, mark in marks.items()
        if mark is not None and mark.null_count() < len(mark)
    }


def _suspect(evidence: Tested, voter: int, model: int, p_values: dict[str, float], group: dict[str, Any]) -> Suspect:
    voter_sides, row = evidence.sides.filter(pl.col("voter") == voter), evidence.row[voter]
    on_model = voter_sides.filter(pl.col("model") == model)["won"]
    return Suspect(
        judge=evidence.names[voter],
        model=evidence.history.cast.models[model],
        votes=voter_sides.height // 2,
        for_model=int((on_model == 1).sum()),
        against_model=int((on_model == 0).sum()),
        pull=float(evidence.history.pulls(voter)[model]),
        p_history=float(evidence.of_history[row, model]),
        p_pull=float(evidence.of_pull[row, model]),
        p_focus=float(evidence.of_focus[row, model]),
        p_joint=float(evidence.of_all[row]),
        p_fast=p_values.get("p_fast"),
        p_identity=p_values.get("p_identity"),
        group=group.get("group"),
        group_voters=len(group["voters"]) if group else None,
        group_shares=group.get("shares"),
        p_value=p_values["p_value"],
    )


def _groups(battles: pl.DataFrame, evidence: Tested) -> pl.DataFrame:
    """Groups by falling evidence: columns group, model, p, shares, voters (list); a voter is in the first one only."""
    voters, of_focus = evidence.history.voters, evidence.of_focus
    focus = np.where(of_focus.min(axis=1) <= FOCUS, of_focus.argmin(axis=1), -1)[evidence.row][voters]
    keyed = battles.with_columns(focus=pl.Series(np.where(voters >= 0, focus, -1)).replace(-1, None))
    if "tstamp" in battles.columns:
        keyed = keyed.with_columns(hour=pl.col("tstamp").dt.truncate("1h"))
    kinds = [name for name in SHARED if name in keyed.columns]
    models = len(evidence.history.cast.models)
    tables = [
        shared(evidence.sides, keyed[name], models, RIGGED_MIN).select(
            "model",
            "voter",
            p=(pl.col("p") * len(kinds)).clip(upper_bound=1.0),
            shares=pl.lit(SHARED[name]),
            key=pl.col("key").cast(pl.String),
        )
        for name in kinds
    ]
    if not tables:
        return pl.DataFrame(schema={"group": pl.Int32, "model": pl.Int64, "p": pl.Float64, "voters": pl.List(pl.Int64)})
    members = pl.concat(tables).filter(2 * pl.col("p") <= LEVEL).sort("p", "shares", "key", maintain_order=True)
    kept = members.unique("voter", keep="first", maintain_order=True)
    return (
        kept.group_by("shares", "key", "model", maintain_order=True)
        .agg(pl.col("p").first(), voters=pl.col("voter").sort())
        .with_row_index("group", 1)
    )


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
    battles: pl.DataFrame, rated: pl.DataFrame, suspect_rows: Sequence[Suspect], rules: VoteRules
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
    named = {
        "suspects": [row.judge for row in suspect_rows],
        "groups": [row.judge for row in suspect_rows if row.group is not None],
    }
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
    checked_votes = votes.filter(mask.fill_null(False))
    voters = checked_votes["judge"].drop_nulls().n_unique() if "judge" in checked_votes.columns else None
    return VoteCheck(
        check=name, voters=voters, votes=checked_votes.height, counted=float(checked_votes["counted"].sum()), note=""
    )
