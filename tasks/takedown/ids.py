"""Ids of all that stays of a store, of which there may be a hundred million, in 8 bytes each."""

import secrets

import numpy as np
import numpy.typing as npt
import polars as pl

from tasks.distinct import Distinct


class Ids(Distinct):
    """A set of texts, kept as sorted 64-bit hashes under a seed that nobody knows.

    Beside 100 million ids, one that is not among them is taken for one with a chance of 1 in 180 billion; the next
    sweep draws another seed.
    """

    def __init__(self) -> None:
        super().__init__(secrets.randbits(32))

    def has(self, ids: pl.Series) -> pl.Series:
        """Whether each id is in the set, Boolean; null is not."""
        if not len(self):
            return pl.repeat(False, len(ids), eager=True)
        hashes = self._hashes(ids)
        place = np.minimum(np.searchsorted(self._known, hashes), len(self._known) - 1)
        return pl.Series(self._known[place] == hashes, dtype=pl.Boolean) & ids.is_not_null()

    def hold(self, column: pl.Expr) -> pl.Expr:
        """Whether each value of a column is in the set."""
        return column.map_batches(self.has, return_dtype=pl.Boolean)

    def hold_all(self, column: pl.Expr) -> pl.Expr:
        """Whether all values of each list of a column are in the set."""

        def all_of(lists: pl.Series) -> pl.Series:
            return pl.Series([bool(self.has(each).all()) for each in lists], dtype=pl.Boolean)

        return column.map_batches(all_of, return_dtype=pl.Boolean)

    def _hashes(self, values: pl.Series) -> npt.NDArray[np.uint64]:
        return super()._hashes(values.cast(pl.String))
