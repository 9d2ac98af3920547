"""Ids of all that stays of a store, of which there may be a hundred million, in 8 bytes each."""

import secrets

import numpy as np
import numpy.typing as npt
import polars as pl

_PENDING_MIN = 262_144


class Ids:
    """A set, kept as sorted 64-bit hashes under a seed that nobody knows.

    Beside 100 million ids, one that is not among them is taken for one with a chance of 1 in 180 billion; the next
    sweep draws another seed.
    """

    def __init__(self) -> None:
        self._seed = secrets.randbits(32)
        self._known: npt.NDArray[np.uint64] = np.zeros(0, np.uint64)
        self._pending: list[npt.NDArray[np.uint64]] = []

    def add(self, ids: pl.Series) -> None:
        """Add ids; null is none."""
        self._pending.append(np.unique(self._hashes(ids.drop_nulls())))
        if sum(map(len, self._pending)) > max(_PENDING_MIN, len(self._known) // 4):
            self._merge()

    def has(self, ids: pl.Series) -> pl.Series:
        """Whether each id is in the set, Boolean; null is not."""
        self._merge()
        if not len(self._known):
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

    def _hashes(self, ids: pl.Series) -> npt.NDArray[np.uint64]:
        return ids.cast(pl.String).hash(self._seed).to_numpy()

    def _merge(self) -> None:
        if self._pending:
            merged = np.concatenate([self._known, *self._pending])
            self._known, self._pending = merged[:0], []  # not twice in memory while they are sorted
            merged.sort(kind="stable")  # which is made for runs that are sorted
            first = np.ones(len(merged), np.bool_)
            np.not_equal(merged[1:], merged[:-1], out=first[1:])
            self._known = merged[first]
