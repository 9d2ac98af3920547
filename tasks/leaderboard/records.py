"""Tables computed without a Bradley-Terry fit: pair records, win rates, vote shares, sequential Elo, outlier judges."""

from collections.abc import Mapping, Sequence

import numpy as np
import polars as pl

from schemas.rating import EloRating, OutlierJudge, PairCard, PairRecord, VoteShare, WinRate
from tasks.leaderboard.leaderboard import FEW_BATTLES
from tasks.leaderboard.votes import Mask, Votes, votes
from tasks.storage.tables import frame_of

BATTLES_AN_OUTCOME = 3
"""Battles that a card names for each outcome."""
_ELO_SCALE, _ELO_START = 400.0, 1000.0


def pair_records(battles: pl.DataFrame) -> list[PairRecord]:
    """Wins, losses and ties of every pair of models in `rateable` battles, listed in both orders.

    Battle counts and win fractions are the matrices of VisionArena Fig. 21c and 21d, and of WildVision.
    """
    cast, winner = votes(battles), pl.col("winner")
    first = pl.Series(np.where(cast.swapped, 1 - cast.score, cast.score))
    scored = battles.select("model_a", "model_b", "winner", score=first, weight=pl.Series(cast.weight))
    sides = [
        scored.select(
            "winner",
            "weight",
            model=side,
            opponent=other,
            won=winner == side,
            lost=winner == other,
            score=pl.col("score") if side == "model_a" else 1 - pl.col("score"),
        )
        for side, other in (("model_a", "model_b"), ("model_b", "model_a"))
    ]
    weight = pl.col("weight")
    decisive = weight.filter(pl.col("won") | pl.col("lost")).sum()
    # A row is one model against one opponent; each pair has two, one for either order.
    counted = (
        pl.concat(sides)
        .group_by("model", "opponent")
        .agg(
            battles=pl.len(),
            wins=pl.col("won").sum(),
            losses=pl.col("lost").sum(),
            ties=(winner == "tie").sum(),
            both_bad=(winner == "tie_bothbad").sum(),
            win_fraction=pl.when(decisive > 0).then(weight.filter("won").sum() / decisive),
            score_fraction=pl.when(weight.sum() > 0).then((weight * pl.col("score")).sum() / weight.sum()),
        )
        .sort("model", "opponent")
    )
    return [PairRecord(slice="overall", **row) for row in counted.iter_rows(named=True)]


def pair_cards(battles: pl.DataFrame, records: Sequence[PairRecord]) -> list[PairCard]:
    """The records with the first battles that each model won against the other; none where battles have no id."""
    won: dict[tuple[str, str], list[str]] = {}
    if "question_id" in battles.columns:
        decided = battles.filter(pl.col("winner").is_in(["model_a", "model_b"])).drop_nulls("question_id")
        for a, b, winner, battle in decided.select("model_a", "model_b", "winner", "question_id").iter_rows():
            won.setdefault((a, b) if winner == "model_a" else (b, a), []).append(battle)
    return [
        PairCard(
            **row.model_dump(),
            won=won.get((row.model, row.opponent), [])[:BATTLES_AN_OUTCOME],
            lost=won.get((row.opponent, row.model), [])[:BATTLES_AN_OUTCOME],
        )
        for row in records
    ]


def win_rates(records: Sequence[PairRecord], reference: str | None = None) -> list[WinRate]:
    """Average win rate over opponents, and win rate against `reference`, of every model, best first."""
    met = pl.col("opponent") == pl.lit(reference, pl.String)
    rates = (
        frame_of(PairRecord, records)
        .group_by("model")
        .agg(
            battles=pl.col("battles").sum(),
            average_win_rate=pl.col("score_fraction").mean(),
            wins_vs_reference=pl.col("wins").filter(met).sum(),
            battles_vs_reference=pl.col("battles").filter(met).sum(),
            win_rate_vs_reference=pl.col("win_fraction").filter(met).first(),
        )
    )
    best = "average_win_rate" if reference is None else "win_rate_vs_reference"
    rows = rates.sort(best, "model", descending=[True, False], nulls_last=True)
    return [WinRate(slice="overall", **row) for row in rows.iter_rows(named=True)]


def vote_shares(battles: pl.DataFrame, slices: Mapping[str, Mask]) -> list[VoteShare]:
    """Shares of decisive votes, ties and both-bad votes in each slice, largest slice first."""
    winner, rows = battles["winner"].to_numpy(), []
    for name, chosen in slices.items():
        cast = winner[chosen]
        tie, both_bad = float((cast == "tie").mean()), float((cast == "tie_bothbad").mean())
        shares = {"decisive_fraction": 1 - tie - both_bad, "tie_fraction": tie, "both_bad_fraction": both_bad}
        flags = ["few_battles"] if len(cast) < FEW_BATTLES else []
        rows.append(VoteShare(slice=name, battles=len(cast), flags=flags, **shares))
    return sorted(rows, key=lambda row: (-row.battles, row.slice))


def expected_score(rating: float, against: float) -> float:
    """Share of points that a rating of Elo or Bradley-Terry expects against another; 1223 against 1085 is 0.69."""
    return 1 / (1 + 10 ** ((against - rating) / _ELO_SCALE))


def elo_ratings(cast: Votes, shuffle_seed: int | None = None, k: float = 4.0) -> list[EloRating]:
    """Sequential Elo ratings, best first; ties and both-bad votes are half a win. The order of votes matters.

    Votes are processed in the given order (online Elo: FastChat, WildVision) or, with a seed, in a random order (as in
    VisIT-Bench). Ratings start at 1000; the expectation is 1 / (1 + 10^((r_b - r_a) / 400)); the default `k` is
    FastChat's.
    """
    order = np.arange(len(cast.pair))
    if shuffle_seed is not None:
        np.random.default_rng(shuffle_seed).shuffle(order)
    ratings = [_ELO_START] * len(cast.models)
    ends = cast.pairs[cast.pair[order]].tolist()
    factors = (k * cast.weight[order]).tolist()
    for (first, second), score, factor in zip(ends, cast.score[order].tolist(), factors, strict=True):
        change = factor * (score - expected_score(ratings[first], ratings[second]))
        ratings[first] += change
        ratings[second] -= change
    battles = cast.battles()
    name = "given" if shuffle_seed is None else "shuffled"
    rows = [
        EloRating(slice="overall", order=name, model=model, rating=ratings[n], battles=int(battles[n]))
        for n, model in enumerate(cast.models)
    ]
    return sorted(rows, key=lambda row: (-row.rating, row.model))


RECORD_VOTES_MIN = 5
VOTES_MAX = 100
EVIDENCE_MIN = 20.0
"""1 / 0.05."""


def outlier_judges(votes: Votes, judges: pl.Series) -> list[OutlierJudge]:
    """Voters with at least 5 votes that contradict those of others, strongest evidence first; `judges` cast the votes.

    The sequential test of FastChat's `outlier_detect`. Each vote gets two p-values: the share of decisive votes on the
    same pair that are at most, and at least, as favourable to the first model. A voter is an outlier when the product
    of 1 / (2 p) over the votes exceeds 1 / 0.05 at any point. A p-value is (1 + k) / (1 + n) for n decisive votes, as
    in the Chatbot Arena paper (arXiv 2403.04132, sec. 5.1, eq. 10; the paper then uses Fisher's method). FastChat's
    code uses k / n: a single tie on a pair whose decisive votes all agree then has p = 0 and makes the voter an
    outlier.
    """
    for_first, for_second = votes.score > 0.5, votes.score < 0.5
    won, lost = (np.bincount(votes.pair, is_for_side)[votes.pair] for is_for_side in (for_first, for_second))
    at_most = (1 + np.where(for_first, lost + won, lost)) / (1 + lost + won)
    at_least = (1 + np.where(for_second, lost + won, won)) / (1 + lost + won)
    tests = pl.DataFrame({"judge": judges, "at_most": -np.log(2 * at_most), "at_least": -np.log(2 * at_least)})
    tested = tests.drop_nulls("judge").filter(pl.len().over("judge") >= RECORD_VOTES_MIN)
    # A row is one voter, with the evidence of the first votes at the vote where it is strongest.
    evidence = (
        tested.group_by("judge", maintain_order=True)
        .head(VOTES_MAX)
        .group_by("judge", maintain_order=True)
        .agg(
            votes=pl.len(),
            evidence=pl.max_horizontal(pl.col("at_most").cum_sum().max(), pl.col("at_least").cum_sum().max()).exp(),
        )
    )
    outliers = evidence.filter(pl.col("evidence") > EVIDENCE_MIN).sort("evidence", "judge", descending=[True, False])
    return [OutlierJudge(**row) for row in outliers.iter_rows(named=True)]


def without_outliers(battles: pl.DataFrame, outliers: list[OutlierJudge]) -> pl.DataFrame:
    """Battles without the votes of outliers."""
    names = [outlier.judge for outlier in outliers]
    return battles.filter(~pl.col("judge").is_in(names).fill_null(False))
