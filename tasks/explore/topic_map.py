"""The topic map as a script that holds data only: places and topics of all rows, and prompts in pieces for hovering.

A script file works on a server and from a disk alike, and under a policy that allows no inline script. Values are JSON,
so nothing in them is executed.
"""

import base64
import json
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
import polars as pl

from tasks.explore.listing import NO_TOPIC, OUTLIERS
from tasks.runtime.untrusted import one_line
from tasks.shown import BATTLE, CONVERSATION

PIECE_ROWS = 256
"""Rows whose prompts are in one piece."""
POINT_CHARACTERS = 160
NAME_CHARACTERS = 60


class TopicCount(NamedTuple):
    """One topic of the map."""

    name: str
    number: int
    rows: int


def on_map(listing: pl.DataFrame) -> pl.DataFrame:
    """The rows that have a place on the map, in the order of the listing."""
    return listing.filter(pl.col("x").is_not_null(), pl.col("y").is_not_null())


def map_topics(points: pl.DataFrame) -> list[TopicCount]:
    """Topics of the rows, largest first; outliers are not one."""
    counted = points.filter(pl.col("topic_id") >= 0).group_by("topic_id").agg(pl.len(), pl.col("topic").first())
    rows = counted.sort("len", "topic_id", descending=[True, False]).select(
        pl.col("topic").cast(pl.String), "topic_id", "len"
    )
    return [TopicCount(name or NO_TOPIC, number, count) for name, number, count in rows.iter_rows()]


def points_script(points: pl.DataFrame, chosen: pl.Series, pieces: str, outliers: bool) -> str:
    """A script that calls `explorePoints` with all places.

    Coordinates are 16-bit fractions of the map's extent along each axis, so that the map fills any frame. `chosen`:
    Boolean, whether a row is asked for. `pieces`: the address of a piece, with `{}` for its number.
    """
    numbers = points["topic_id"].fill_null(OUTLIERS).to_numpy().astype(np.int16)
    places = _fractions(points)
    middles = [_label(topic, places[numbers == topic.number]) for topic in map_topics(points)]
    data = {
        "count": points.height,
        "low": _bounds(points).low,
        "extent": _bounds(points).extent,
        "places": _base64(places.astype(np.uint16)),
        "topics": _base64(numbers),
        "chosen": _base64(chosen.to_numpy().astype(np.uint8)),
        "labels": middles,
        "outliers": outliers,
        "pieces": pieces,
        "pieceRows": PIECE_ROWS,
    }
    return f"explorePoints({_json(data)});\n"


def piece_script(points: pl.DataFrame, number: int, link: Callable[[str], str], thumb: Callable[[str], str]) -> str:
    """A script that calls `explorePiece` with prompt, models, link and image of some rows."""
    rows = points[number * PIECE_ROWS : (number + 1) * PIECE_ROWS]
    hover_rows = [
        [
            one_line(row["snippet"] or "", POINT_CHARACTERS),
            ", ".join(one_line(model, NAME_CHARACTERS) for model in row["models"]),
            link(row["key"]),
            thumb(row["image_ids"][0]) if row["image_ids"] else "",
        ]
        for row in rows.select("snippet", "models", "key", "image_ids").iter_rows(named=True)
    ]
    return f"explorePiece({number}, {_json(hover_rows)});\n"


class _Bounds(NamedTuple):
    """Where the map begins on both axes, and how long it is."""

    low: list[float]
    extent: list[float]


def _bounds(points: pl.DataFrame) -> _Bounds:
    places = points.select("x", "y").to_numpy().astype(np.float64)
    if not len(places):
        return _Bounds([0.0, 0.0], [1.0, 1.0])
    low = places.min(axis=0)
    return _Bounds(low.tolist(), np.maximum(places.max(axis=0) - low, 1e-9).tolist())


def _fractions(points: pl.DataFrame) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    """float64 (n, 2), 0 to 65535 along each axis, y upwards."""
    places, (low, extent) = points.select("x", "y").to_numpy().astype(np.float64), _bounds(points)
    return np.asarray(np.round((places - low) / extent * 65535), np.float64)


def _label(topic: TopicCount, places: np.ndarray[tuple[int, int], np.dtype[np.float64]]) -> list[object]:
    """[name, number, rows, x, y] of a topic, above the middle of its rows."""
    x, y = np.median(places[:, 0]), np.quantile(places[:, 1], 0.95)
    return [one_line(topic.name, NAME_CHARACTERS), topic.number, topic.rows, int(x), int(y)]


def _base64(values: np.ndarray[tuple[int, ...], np.dtype[np.generic]]) -> str:
    return base64.b64encode(np.ascontiguousarray(values).tobytes()).decode()


def _json(value: object) -> str:
    """JSON that is also safe inside a script element."""
    return json.dumps(value, separators=(",", ":")).replace("<", "\\u003c")


PICTURES = 5
"""Pictures of a topic beside another one."""
MATCHED = (
    "Two topics are matched where most of the rows of one of them that both releases hold are in the other one; topics "
    "that are left, where they have the same name."
)
"""Rule by which topics of two releases are compared."""


class ComparedTopic(NamedTuple):
    """A topic of one release or of both; names are empty and shares 0 where a release has none."""

    name: str
    other: str
    matched: str
    """shared rows, name, or empty."""
    rows: int
    share: float
    """Rows of the first release in it, among all that have a topic or are outliers, 0 to 1."""
    other_rows: int
    other_share: float
    images: list[str]
    other_images: list[str]


def compared_topics(listing: pl.DataFrame, other: pl.DataFrame) -> list[ComparedTopic]:
    """Topics of two releases side by side by `MATCHED`, those with the largest share first.

    Conversations and battles count; outliers are left out of the topics and not of the whole. Empty without topics.
    """
    sides = [_topics_of(rows) for rows in (listing, other)]
    counts = [dict(side.group_by("topic").len().sort("topic").iter_rows()) for side in sides]
    wholes = [max(1, side.height) for side in sides]
    pairs = _matches(*sides)
    pairs |= {name: (name, "name") for name in counts[0] if name not in pairs and name in _left(counts[1], pairs)}
    topic_pairs = [(name, *pairs.get(name, ("", ""))) for name in counts[0] if name != NO_TOPIC]
    topic_pairs += [("", name, "") for name in _left(counts[1], pairs) if name != NO_TOPIC]
    pictures = [dict(side.group_by("topic").agg(_PICTURES).iter_rows()) for side in sides]
    rows = [
        ComparedTopic(
            one, two, matched_by, counts[0].get(one, 0), counts[0].get(one, 0) / wholes[0], counts[1].get(two, 0),
            counts[1].get(two, 0) / wholes[1], pictures[0].get(one, []), pictures[1].get(two, []),
        )
        for one, two, matched_by in topic_pairs
    ]  # fmt: skip
    return sorted(rows, key=lambda row: (-max(row.share, row.other_share), row.name, row.other))


# the first image of each row, once each: of every topic the first few
_PICTURES = pl.col("image_ids").list.first().drop_nulls().unique(maintain_order=True).head(PICTURES)


def _topics_of(listing: pl.DataFrame) -> pl.DataFrame:
    """key, topic and image_ids of rows that topics were found for."""
    counted = listing.filter(pl.col("kind").cast(pl.String).is_in([CONVERSATION, BATTLE]), pl.col("x").is_not_null())
    named = pl.when(pl.col("topic_id") > OUTLIERS).then(pl.col("topic").cast(pl.String)).otherwise(pl.lit(NO_TOPIC))
    return counted.select("key", "image_ids", topic=named.fill_null(NO_TOPIC))


def _left(counts: Mapping[str, int], pairs: Mapping[str, tuple[str, str]]) -> list[str]:
    """Topics of the second release that no topic of the first one is matched to."""
    return [name for name in counts if name not in {two for two, _ in pairs.values()}]


def _matches(one: pl.DataFrame, two: pl.DataFrame) -> dict[str, tuple[str, str]]:
    """Topic of the first release -> (that of the second one, how), by the rows that both hold."""
    both = one.join(two, on="key", suffix="_other").filter(
        pl.col("topic") != NO_TOPIC, pl.col("topic_other") != NO_TOPIC
    )
    counted = both.group_by("topic", "topic_other").len().with_columns(
        of=pl.col("len").sum().over("topic"), of_other=pl.col("len").sum().over("topic_other")
    )  # fmt: skip
    most = counted.filter(2 * pl.col("len") > pl.min_horizontal("of", "of_other"))
    matches = dict[str, tuple[str, str]]()
    for name, other, *_ in most.sort("len", "topic", "topic_other", descending=[True, False, False]).iter_rows():
        if name not in matches and other not in {taken for taken, _ in matches.values()}:
            matches[name] = (other, "shared rows")
    return matches
