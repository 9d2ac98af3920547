"""Which documents topics are fitted on: a function of the documents and their days alone, never of earlier runs."""

import math

import numpy as np
import numpy.typing as npt
import polars as pl

Rows = npt.NDArray[np.int64]


def fit_day_rows(days: pl.Series, growth: float) -> Rows:
    """The rows up to the fit day, int64; `days` is the day of each document.

    The fit day is the first on which there were as many documents as the largest step, of a ladder that grows by
    `growth`, that today's count has reached. So nights that add little are fitted on the same documents.
    """
    if days.is_empty():
        return np.empty(0, np.int64)
    step = largest_step(len(days), growth)
    counts = days.value_counts(name="documents").sort(days.name)
    fit_day = counts.filter(pl.col("documents").cum_sum() >= step)[days.name][0]
    return np.flatnonzero((days <= fit_day).to_numpy())


def largest_step(count: int, growth: float) -> int:
    """The largest number not above `count` of the ladder 1, …, n, max(n + 1, ceil(growth n)), …."""
    step = 1
    while (following := max(step + 1, math.ceil(growth * step))) <= count:
        step = following
    return step
