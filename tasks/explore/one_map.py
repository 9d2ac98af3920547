"""Topics of two releases on one map: the places of one are turned, mirrored and scaled onto those of the other.

In: two listings. Out: `OneMap`, which says how well the rows that both hold fall together; `map_figure` draws it.
Places of two fits have no common axes, so only shared rows can lay one over the other: orthogonal Procrustes with
scaling (Schönemann and Carroll, Psychometrika 1970). A map that does not fit is not drawn.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl
from matplotlib.figure import Figure

from tasks.explore.listing import OUTLIERS
from tasks.report.page import EDGE, SMALL, drawn_late, new_figure, panel, shown_name
from tasks.shown import BATTLE, CONVERSATION

Places = npt.NDArray[np.float64]
SHARED_MIN = 20
"""Fewest rows that both releases hold."""
APART_MAX = 0.1
"""Most that shared rows may be apart in the median, as a share of the map's width."""
_COLOURS = ("#4c78a8", "#e0803c")
_NAME_COLOURS = ("#2b5079", "#94480f")
"""Colours of the names: the same hues, dark enough to be read on white."""
_PLATE = {"facecolor": "white", "alpha": 0.8, "edgecolor": "none", "pad": 0.8}
"""Plate behind a name, so that no point crosses it."""
_OFFSETS = ((0, 7), (0, -12))
"""Places of names of each release above or below the middle of their topic, in points."""
_HEIGHT = 430.0
_NAMED = 12
"""Topics of each release that the map names, largest first."""


class OneMap(NamedTuple):
    """Two releases' rows in the coordinates of the first."""

    rows: list[pl.DataFrame]
    """For each release topic, topic_id, x and y of its rows with a place; empty where there is no common map."""
    words: str
    """How the maps were laid over each other, or why they could not be."""


def one_map(listing: pl.DataFrame, other: pl.DataFrame) -> OneMap:
    """Both releases' conversations and battles on the map of the first."""
    first, second = (_placed(rows) for rows in (listing, other))
    shared = first.join(second, on="key", suffix="_other")
    if shared.height < SHARED_MIN:
        return OneMap(
            [], f"No common map: {shared.height:,} rows with a place are in both, and {SHARED_MIN} are needed."
        )
    target, source = (shared.select(names).to_numpy() for names in (["x", "y"], ["x_other", "y_other"]))
    moved = _onto(target, source, second.select("x", "y").to_numpy())
    apart = np.linalg.norm(_onto(target, source, source) - target, axis=1) / _width(target)
    middle = float(np.median(apart))
    if middle > APART_MAX:
        why = f"the {shared.height:,} rows that both hold are {middle:.0%} of its width apart in the median"
        return OneMap([], f"No common map: {why}, so both fits differ in more than direction and size.")
    together = f"by the {shared.height:,} rows that both hold"
    words = f"Laid over each other {together}, which are {middle:.1%} of the map's width apart in the median."
    return OneMap([first, second.with_columns(x=pl.Series(moved[:, 0]), y=pl.Series(moved[:, 1]))], words)


def _placed(rows: pl.DataFrame) -> pl.DataFrame:
    """key, topic, topic_id, x and y of conversations and battles with a place."""
    counted = pl.col("kind").cast(pl.String).is_in([CONVERSATION, BATTLE])
    placed = rows.filter(counted, pl.col("x").is_not_null(), pl.col("y").is_not_null())
    return placed.select("key", pl.col("topic").cast(pl.String), "topic_id", pl.col("x", "y").cast(pl.Float64))


def _onto(target: Places, source: Places, places: Places) -> Places:
    """float64 (n, 2): `places` moved as `source` (k, 2) best falls on `target` (k, 2); no shearing."""
    target_middle, source_middle = target.mean(axis=0), source.mean(axis=0)
    left_vectors, weights, right_vectors = np.linalg.svd((source - source_middle).T @ (target - target_middle))
    spread = float(((source - source_middle) ** 2).sum())
    scale = float(weights.sum()) / spread if spread else 0.0
    return np.asarray((places - source_middle) @ (left_vectors @ right_vectors) * scale + target_middle, np.float64)


def _width(places: Places) -> float:
    """The longer side of the places' extent; 1 where all are in one point."""
    return float(np.ptp(places, axis=0).max()) or 1.0


@drawn_late
def map_figure(common: OneMap, titles: Sequence[str]) -> Figure:
    """Both releases as points of two colours, with the names of their largest topics."""
    figure = new_figure(_HEIGHT)
    axes = panel(figure, EDGE, EDGE, 20, EDGE)
    axes.set_axis_off()
    axes.margins(0.12, 0.06)
    looks = zip(_COLOURS, _NAME_COLOURS, _OFFSETS, strict=True)
    for rows, title, (colour, name_colour, offset) in zip(common.rows, titles, looks, strict=True):
        axes.plot(
            rows["x"],
            rows["y"],
            "o",
            color=colour,
            alpha=0.55,
            markersize=3,
            markeredgewidth=0,
            label=shown_name(title),
        )
        topics = rows.filter(pl.col("topic_id") > OUTLIERS).group_by("topic").agg(pl.len(), pl.col("x", "y").median())
        for name, _, x, y in topics.sort("len", "topic", descending=[True, False]).head(_NAMED).iter_rows():
            axes.annotate(
                shown_name(name or "", 30),
                (x, y),
                offset,
                textcoords="offset points",
                ha="center",
                fontsize=SMALL - 1,
                color=name_colour,
                bbox=_PLATE,
            )
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, 1.06), ncols=2, frameon=False, fontsize=SMALL)
    return figure
