"""Battles -> votes as numbers: every vote is one of three results of one pair of models."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import polars as pl

from schemas.errors import BadInput, known_values
from schemas.rating import BothBad

Vector = npt.NDArray[np.float64]
Matrix = npt.NDArray[np.float64]
Numbers = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

LOST, TIED, WON = 0, 1, 2
"""Results of the first model of a pair: twice its score."""

_LABELS = {
    "model_a": ("model_a", "left", "leftvote"),
    "model_b": ("model_b", "right", "rightvote"),
    "tie": ("tie", "tievote"),
    "tie_bothbad": ("tie_bothbad", "tie (bothbad)", "both_bad", "bothbad", "bothbad_vote"),
}
WINNERS = {label: winner for winner, labels in _LABELS.items() for label in labels}
"""Every spelling of a verdict that published arenas use, and nothing else -> ours."""
_RESULTS = {"model_a": WON, "model_b": LOST, "tie": TIED, "tie_bothbad": TIED}


@dataclass(frozen=True)
class Votes:
    """Votes on pairs of models; a pair is named in the order of its models' numbers, whichever side they were on."""

    models: list[str]
    """Names, sorted; their places are the numbers."""
    pairs: Numbers
    """int64 (pairs, 2): the smaller and the larger number of every pair that met, in order."""
    pair: Numbers
    """int64 (votes,): which pair."""
    result: Numbers
    """int64 (votes,): LOST, TIED or WON, for the first model of the pair."""
    both_bad: Mask
    """bool (votes,): whether a tie was a vote that both answers are bad."""
    swapped: Mask
    """bool (votes,): whether the first model of the pair was on the right-hand side."""

    @cached_property
    def cell(self) -> Numbers:
        """int64 (votes,): 3 * pair + result."""
        return 3 * self.pair + self.result

    def counts(self, chosen: Mask | None = None) -> Matrix:
        """float64 (pairs, 3): votes of each pair that were lost, tied and won; of the chosen votes only."""
        cells = self.cell if chosen is None else self.cell[chosen]
        return np.bincount(cells, minlength=3 * len(self.pairs)).reshape(-1, 3).astype(np.float64)


def rateable(battles: pl.DataFrame, both_bad: BothBad = BothBad.TIE) -> pl.DataFrame:
    """Battles that say something, their verdicts in our spelling: two different models, both-bad votes as told.

    Raises BadInput for verdicts that are not known (guessing would bend the ranking) and for missing names.
    """
    unknown = sorted({str(label) for label in battles["winner"].unique()} - set(WINNERS))
    if unknown:
        raise BadInput(f"unknown winner label {known_values(', '.join(unknown[:5]), WINNERS)}")
    if battles["model_a"].null_count() or battles["model_b"].null_count():
        raise BadInput("a battle lacks a model name; every row needs model_a and model_b")
    told = battles.filter(pl.col("model_a") != pl.col("model_b")).with_columns(
        pl.col("winner").replace_strict(WINNERS, return_dtype=pl.String)
    )
    return told.filter(pl.col("winner") != "tie_bothbad") if both_bad is BothBad.EXCLUDE else told


def votes(battles: pl.DataFrame) -> Votes:
    """Every row of `rateable` battles as a vote, in their order."""
    models = sorted({*battles["model_a"].unique(), *battles["model_b"].unique()})
    names = pl.Enum(models)
    left, right = (battles[side].cast(names).to_physical().to_numpy().astype(np.int64) for side in _SIDES)
    swapped = left > right
    code = np.minimum(left, right) * len(models) + np.maximum(left, right)
    met = np.flatnonzero(np.bincount(code, minlength=1))
    number = np.zeros(met.max(initial=0) + 1, np.int64)
    number[met] = np.arange(len(met))
    result = battles["winner"].replace_strict(_RESULTS, return_dtype=pl.Int64).to_numpy()
    return Votes(
        models,
        np.stack([met // max(1, len(models)), met % max(1, len(models))], axis=1),
        number[code],
        np.where(swapped, WON - result, result),
        (battles["winner"] == "tie_bothbad").to_numpy(),
        swapped,
    )


_SIDES = ("model_a", "model_b")
