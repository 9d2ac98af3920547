"""Battles -> votes as arrays: each vote is a pair of models and one of three results."""

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
"""Result for the first model of a pair: twice its score."""

_LABELS = {
    "model_a": ("model_a", "left", "leftvote"),
    "model_b": ("model_b", "right", "rightvote"),
    "tie": ("tie", "tievote"),
    "tie_bothbad": ("tie_bothbad", "tie (bothbad)", "both_bad", "bothbad", "bothbad_vote"),
}
WINNERS = {label: winner for winner, labels in _LABELS.items() for label in labels}
"""Winner labels of published arenas -> ours; other labels are an error."""
_RESULTS = {"model_a": WON, "model_b": LOST, "tie": TIED, "tie_bothbad": TIED}


@dataclass(frozen=True)
class Votes:
    """Votes on pairs of models. The models of a pair are ordered by number, whichever side they were on."""

    models: list[str]
    """Sorted names; a model's number is its index."""
    pairs: Numbers
    """int64 (pairs, 2): the smaller and the larger model number of every pair with votes, sorted."""
    pair: Numbers
    """int64 (votes,): row of `pairs`."""
    result: Numbers
    """int64 (votes,): LOST, TIED or WON for the first model of the pair."""
    both_bad: Mask
    """bool (votes,): whether the vote was that both answers are bad; the result is TIED."""
    swapped: Mask
    """bool (votes,): whether the first model of the pair was model_b."""

    @cached_property
    def cell(self) -> Numbers:
        """int64 (votes,): 3 * pair + result."""
        return 3 * self.pair + self.result

    def counts(self, chosen: Mask | None = None) -> Matrix:
        """float64 (pairs, 3): lost, tied and won votes of each pair; with `chosen`, of these votes only."""
        cells = self.cell if chosen is None else self.cell[chosen]
        return np.bincount(cells, minlength=3 * len(self.pairs)).reshape(-1, 3).astype(np.float64)


def rateable(battles: pl.DataFrame, both_bad: BothBad = BothBad.TIE) -> pl.DataFrame:
    """Battles between two different models with our winner labels; both-bad votes are kept or dropped as chosen.

    Raises BadInput for unknown winner labels (a guess would bias the ranking) and for missing model names.
    """
    unknown = sorted({str(label) for label in battles["winner"].unique()} - set(WINNERS))
    if unknown:
        raise BadInput(f"unknown winner label {known_values(', '.join(unknown[:5]), WINNERS)}")
    if battles["model_a"].null_count() or battles["model_b"].null_count():
        raise BadInput("a battle lacks a model name; every row needs model_a and model_b")
    different = battles.filter(pl.col("model_a") != pl.col("model_b")).with_columns(
        pl.col("winner").replace_strict(WINNERS, return_dtype=pl.String)
    )
    return different.filter(pl.col("winner") != "tie_bothbad") if both_bad is BothBad.EXCLUDE else different


def votes(battles: pl.DataFrame) -> Votes:
    """One vote per row of `rateable` battles, in order."""
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
