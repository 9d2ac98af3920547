"""Small Poisson counts, many at a time."""

import numpy as np
import numpy.typing as npt

Counts = npt.NDArray[np.uint8]
_CELLS = 1 << 16
_COUNTS = np.arange(100)
"""Above these a count whose mean is at most 1 never comes: its chance is below 1e-150."""
_REST = 255


class PoissonCounts:
    """Independent counts of mean `rate`, 0 to 1, exact to double precision.

    Sixteen random bits choose a cell of a table in which each count has as many cells as its chance fills wholly. The
    few cells that are left stand for what is missing of every chance, and are drawn again from that.
    """

    def __init__(self, rate: float) -> None:
        chance = np.exp(-rate) * np.cumprod(np.append(1.0, rate / _COUNTS[1:]))
        cells = np.floor(chance * _CELLS).astype(np.int64)
        self._table = np.full(_CELLS, _REST, np.uint8)
        self._table[: cells.sum()] = np.repeat(_COUNTS, cells)
        missing = chance - cells / _CELLS
        self._missing = np.cumsum(missing) / (missing.sum() or 1.0)

    def draw(self, generator: np.random.Generator, size: int) -> Counts:
        """uint8 (size,)."""
        bits = generator.integers(0, 2**64, -(-size // 4), np.uint64).view(np.uint16)[:size]
        counts = self._table.take(bits)
        again = np.flatnonzero(counts == _REST)
        counts[again] = np.searchsorted(self._missing, generator.random(len(again)), side="right")
        return counts


def resampled_times(generator: np.random.Generator, counts: PoissonCounts, items: int) -> Counts:
    """uint8 (items,): how often each was drawn when as many were drawn with replacement.

    Poisson counts, given their sum N, are those of N draws. So nearly all draws are made as such counts, which is
    several times as fast, and the missing ones singly; when there are too many, all are drawn anew.
    """
    times = counts.draw(generator, items)
    while (missing := items - int(times.sum(dtype=np.uint32))) < 0:
        times = counts.draw(generator, items)
    np.add.at(times, generator.integers(0, items, missing), np.uint8(1))
    return times


def nearly_all(items: int) -> PoissonCounts:
    """Counts whose sum over the items seldom exceeds their number: four standard deviations below."""
    return PoissonCounts(max(0.0, 1 - 4 / np.sqrt(items)))
