"""More like this among 100,000 items by exact products, and a lasso around 20,000 points of a map.

`python -m benchmarks explore.selections` writes the rows; `greatest_ms` is the longest of ten rounds. The peers are a
product and a sort by numpy, and matplotlib's test of points in a polygon.
"""

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import polars as pl
from matplotlib.path import Path as Outline

from benchmarks.timing import compare
from tasks.explore.alike import Closeness
from tasks.explore.facets import in_area

ITEMS, DIMENSION, POINTS, CORNERS = 100_000, 768, 20_000, 120
SEED = 0


class _Vectors(Closeness):
    """Closeness of given vectors, without a store."""

    def __init__(self, ids: list[str], matrix: Any) -> None:
        self.__dict__["_placed"] = (pl.DataFrame({"id": ids, "row": range(len(ids))}), matrix)


def _greatest_ms(work: Callable[[], object], rounds: int = 10) -> float:
    """The longest of some rounds, in milliseconds of elapsed time."""
    spent = []
    for _ in range(rounds):
        began = time.perf_counter()
        work()
        spent.append(time.perf_counter() - began)
    return round(1000 * max(spent), 1)


def run() -> list[dict[str, Any]]:
    """A row for more like this, and one for the lasso."""
    draws = np.random.default_rng(SEED)
    matrix = draws.normal(size=(ITEMS, DIMENSION)).astype(np.float32)
    matrix /= np.linalg.norm(matrix, axis=1, keepdims=True)
    ids = [f"{n:032x}" for n in range(ITEMS)]
    listing, near = pl.DataFrame({"id": ids}), _Vectors(ids, matrix)
    points = pl.DataFrame({"x": draws.normal(size=POINTS), "y": draws.normal(size=POINTS)})
    angles = np.linspace(0, 2 * np.pi, CORNERS, endpoint=False)
    area = np.column_stack([np.cos(angles), np.sin(angles)]) * draws.uniform(0.6, 1.5, (CORNERS, 1))
    corners = [(float(x), float(y)) for x, y in area]

    def nearest() -> object:
        cosine = near.to(ids[7], listing)
        return cosine.arg_sort(descending=True, nulls_last=True).head(200) if cosine is not None else None

    return [
        compare(
            "more like this", ITEMS, nearest, "numpy, full sort", lambda: np.argsort(-(matrix @ matrix[7]))[:200],
            greatest_ms=_greatest_ms(nearest),
        ),
        compare(
            "lasso", POINTS, lambda: in_area(points, corners), "matplotlib",
            lambda: Outline(area).contains_points(points.to_numpy()),
            greatest_ms=_greatest_ms(lambda: in_area(points, corners)),
        ),
    ]  # fmt: skip
