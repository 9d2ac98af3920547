"""How many different values there are among many, in 8 bytes each."""

import numpy as np
import numpy.typing as npt
import polars as pl

_PENDING_MIN = 262_144


class Distinct:
    """Sorted 64-bit hashes: of 100 million values two have one hash with a chance of 1 in 3,700."""

    def __init__(self, seed: int = 0) -> None:
        self._seed = seed
        self._known: npt.NDArray[np.uint64] = np.zeros(0, np.uint64)
        self._pending: list[npt.NDArray[np.uint64]] = []

    def add(self, values: pl.Series) -> None:
        """Add values of any one type; null is none."""
        self._pending.append(np.unique(self._hashes(values.drop_nulls())))
        if sum(map(len, self._pending)) > max(_PENDING_MIN, len(self._known) // 4):
            self._merge()

    def __len__(self) -> int:
        self._merge()
        return len(self._known)

    def _hashes(self, values: pl.Series) -> npt.NDArray[np.uint64]:
        return values.hash(self._seed).to_numpy()

    def _merge(self) -> None:
        if self._pending:
            merged = np.concatenate([self._known, *self._pending])
            self._known, self._pending = merged[:0], []  # not twice in memory while they are sorted
            merged.sort(kind="stable")  # which is made for runs that are sorted
            first = np.ones(len(merged), np.bool_)
            np.not_equal(merged[1:], merged[:-1], out=first[1:])
            self._known = merged[first]
