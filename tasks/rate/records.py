"""What can be counted without a model of the votes: pair records and win rates."""

from collections.abc import Sequence

import polars as pl

from schemas.errors import BadInput, known_values
from schemas.rating import PairRecord, WinRate


def pair_records(battles: pl.DataFrame, slice_name: str = "overall") -> list[PairRecord]:
    """How every two models of `rateable` battles fared, in both orders; sides do not matter.

    Battle counts and win fractions are the matrices of VisionArena Fig. 12 and WildVision, row by row.
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
    """Average win rate of every model, and its win rate against `reference`, best first.

    Raises BadInput for a reference that is not among the models.
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
