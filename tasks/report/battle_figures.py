"""Figures of battles that papers print and a report leaves out: whose answers decline, and mean win rates.

In: rows of `battle` as a release would hold them, and the section of win rates by pair. Out: sections.
"""

from collections import Counter

import polars as pl

from tasks.report.figures import bars
from tasks.report.page import Part

REFUSED_BY_VALUES = ("model_a", "model_b", "both", "neither")
"""Values of `refused_by`."""


class RefusedBattles:
    """Battles by whose answers decline, as the rows come by (VisionArena Fig. 20)."""

    def __init__(self) -> None:
        self._battles = Counter[str]()
        """refused_by -> battles; those of which it is not known are not counted."""

    def add(self, config: str, rows: pl.DataFrame) -> None:
        """Count the battles among the rows of a released configuration."""
        if config == "battle":
            self._battles.update(rows["refused_by"].drop_nulls().to_list())

    def parts(self) -> list[Part]:
        """The section; none where no battle has both sides measured."""
        measured = self._battles.total()
        if not measured:
            return []
        counts = [self._battles[side] for side in REFUSED_BY_VALUES]
        table = pl.DataFrame({"refused_by": REFUSED_BY_VALUES, "battles": counts}).with_columns(
            share=(pl.col("battles") / measured).round(4)
        )
        percent = {
            f"{side} ({count:,})": 100 * count / measured for side, count in zip(REFUSED_BY_VALUES, counts, strict=True)
        }
        return [Part("refused_by", "Whose answers decline", "", table, bars(percent, "% of battles", digits=1))]


def mean_win_rates(sections: list[Part]) -> list[Part]:
    """The mean win rate of every model over its opponents, ties left out (VisionArena Fig. 21 b).

    `sections`: those of the report, of which `win_rates` has the wins by pair; none without it.
    """
    pairs = next((section.table for section in sections if section.key == "win_rates"), None)
    if pairs is None or pairs.is_empty():
        return []
    decisive = pl.col("won") + pl.col("lost")
    by_pair = pairs.filter(decisive > 0).with_columns(rate=pl.col("won") / decisive)
    means = by_pair.group_by("model").agg(opponents=pl.len(), mean_win_rate=pl.col("rate").mean().round(4))
    ordered = means.sort("mean_win_rate", "model", descending=[True, False])
    percent = {model: 100 * rate for model, _, rate in ordered.iter_rows()}
    figure = bars(percent, "% of decisive votes, mean over opponents", digits=1)
    return [Part("mean_win_rates", "Mean win rates", "", ordered, figure)]
