"""How many different values there are among many, in 8 bytes each."""

import numpy as np
import numpy.typing as npt
import polars as pl


class Distinct:
    """A set of 64-bit hashes: of 100 million values two have one hash with a chance of 1 in 3,700."""

    def __init__(self, seed: int = 0) -> None:
        self._seed = seed
        self._parts: list[npt.NDArray[np.uint64]] = [np.zeros(0, np.uint64)]

    def add(self, values: pl.Series) -> None:
        """Add values of any one type; null is none."""
        self._parts.append(np.unique(self._hashes(values.drop_nulls())))

    def __len__(self) -> int:
        return len(self._known)

    @property
    def _known(self) -> npt.NDArray[np.uint64]:
        """All hashes, sorted, each once."""
        if len(self._parts) > 1:
            self._parts = [np.unique(np.concatenate(self._parts))]
        return self._parts[0]

    def _hashes(self, values: pl.Series) -> npt.NDArray[np.uint64]:
        return values.hash(self._seed).to_numpy()
