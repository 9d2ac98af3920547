"""How many different values there are among many, in 8 bytes each."""

import numpy as np
import numpy.typing as npt
import polars as pl

_PENDING_MAX = 262_144


class Distinct:
    """Counts by 64-bit hashes: of 100 million values two have one hash with a chance of 1 in 3,700."""

    def __init__(self) -> None:
        self._known: npt.NDArray[np.uint64] = np.zeros(0, np.uint64)
        self._pending: list[npt.NDArray[np.uint64]] = []

    def add(self, values: pl.Series) -> None:
        """Add values of any type; null is none."""
        self._pending.append(np.unique(values.drop_nulls().hash(seed=0).to_numpy()))
        if sum(map(len, self._pending)) > _PENDING_MAX:
            self._merge()

    def __len__(self) -> int:
        self._merge()
        return len(self._known)

    def _merge(self) -> None:
        self._known = np.unique(np.concatenate([self._known, *self._pending]))
        self._pending = []
