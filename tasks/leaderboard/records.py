"""Tables computed without a Bradley-Terry fit: pair records, win rates, vote shares and sequential Elo."""

from collections.abc import Mapping, Sequence

import numpy as np
import polars as pl

from schemas.errors import BadInput, known_values
from schemas.rating import EloRating, PairRecord, VoteShare, WinRate
from tasks.leaderboard.leaderboard import FEW_BATTLES
from tasks.leaderboard.votes import Mask, Votes

_ELO_SCALE, _ELO_START = 400.0, 1000.0


def pair_records(battles: pl.DataFrame, slice_name: str = "overall") -> list[PairRecord]:
    """Wins, losses and ties of every pair of models in `rateable` battles, listed in both orders.

    Battle counts and win fractions are the matrices of VisionArena Fig. 12 and WildVision.
    """
    winner = pl.col("winner")
    left = battles.select(
        model="model_a", opponent="model_b", won=winner == "model_a", lost=winner == "model_b", winner="winner"
    )
    right = battles.select(
        model="model_b", opponent="model_a", won=winner == "model_b", lost=winner == "model_a", winner="winner"
    )
    counted = (
        pl.concat([left, right])
        .group_by("model", "opponent")
        .agg(
            battles=pl.len(),
            wins=pl.col("won").sum(),
            losses=pl.col("lost").sum(),
            ties=(winner == "tie").sum(),
            both_bad=(winner == "tie_bothbad").sum(),
        )
        .sort("model", "opponent")
    )
    return [
        PairRecord(slice=slice_name, **row, win_fraction=_fraction(row["wins"], row["wins"] + row["losses"]))
        for row in counted.iter_rows(named=True)
    ]


def win_rates(records: Sequence[PairRecord], reference: str | None = None) -> list[WinRate]:
    """Average win rate over opponents, and win rate against `reference`, of every model, best first.

    Raises BadInput when `reference` is not among the models.
    """
    models = sorted({record.model for record in records})
    if reference is not None and reference not in models:
        raise BadInput(f"reference model {known_values(reference, models)}")
    rows = []
    for model in models:
        own = [record for record in records if record.model == model]
        decisive = [record.win_fraction for record in own if record.win_fraction is not None]
        met = next((record for record in own if record.opponent == reference), None)
        rows.append(
            WinRate(
                model=model,
                battles=sum(record.battles for record in own),
                average_win_rate=_fraction(sum(decisive), len(decisive)),
                wins_vs_reference=met.wins if met else 0,
                battles_vs_reference=met.battles if met else 0,
                win_rate_vs_reference=met.win_fraction if met else None,
            )
        )
    best = "average_win_rate" if reference is None else "win_rate_vs_reference"
    return sorted(rows, key=lambda row: (-(-1.0 if getattr(row, best) is None else getattr(row, best)), row.model))


def _fraction(part: float, whole: int) -> float | None:
    return part / whole if whole else None


def vote_shares(battles: pl.DataFrame, slices: Mapping[str, Mask]) -> list[VoteShare]:
    """Shares of decisive votes, ties and both-bad votes in each slice, largest slice first."""
    winner = battles["winner"].to_numpy()
    rows = []
    for name, chosen in slices.items():
        cast = winner[chosen]
        tie, both_bad = float((cast == "tie").mean()), float((cast == "tie_bothbad").mean())
        rows.append(
            VoteShare(
                slice=name,
                battles=len(cast),
                decisive_fraction=1 - tie - both_bad,
                tie_fraction=tie,
                both_bad_fraction=both_bad,
                flags=["few_battles"] if len(cast) < FEW_BATTLES else [],
            )
        )
    return sorted(rows, key=lambda row: (-row.battles, row.slice))


def elo_ratings(votes: Votes, shuffle_seed: int | None = None, k: float = 4.0) -> list[EloRating]:
    """Sequential Elo ratings, best first; ties and both-bad votes are half a win. The order of votes matters.

    Votes are processed in the given order (online Elo: FastChat, WildVision) or, with a seed, in a random order (as in
    VisIT-Bench). Ratings start at 1000; the expectation is 1 / (1 + 10^((r_b - r_a) / 400)); the default `k` is
    FastChat's.
    """
    order = np.arange(len(votes.pair))
    if shuffle_seed is not None:
        np.random.default_rng(shuffle_seed).shuffle(order)
    ratings = [_ELO_START] * len(votes.models)
    ends = votes.pairs[votes.pair[order]].tolist()
    for (first, second), result in zip(ends, votes.result[order].tolist(), strict=True):
        expected = 1 / (1 + 10 ** ((ratings[second] - ratings[first]) / _ELO_SCALE))
        change = k * (result / 2 - expected)
        ratings[first] += change
        ratings[second] -= change
    battles = np.bincount(votes.pairs[votes.pair].ravel(), minlength=len(votes.models))
    name = "given" if shuffle_seed is None else "shuffled"
    rows = [
        EloRating(order=name, model=model, rating=ratings[n], battles=int(battles[n]))
        for n, model in enumerate(votes.models)
    ]
    return sorted(rows, key=lambda row: (-row.rating, row.model))
