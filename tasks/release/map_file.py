"""The coordinates of the topic map: one row for each released row whose prompt has a topic, in `topics/map.parquet`."""

from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

import polars as pl

from schemas.release import CONFIGS, KEYS, MapPoint
from schemas.row import arrow_schema
from tasks.release.declared import READ_ERRORS, sound_groups
from tasks.release.shards import shards
from tasks.storage.database import TemporaryDatabase
from tasks.storage.parquet import conform, parquet_writer, read_parquet_groups

MAP = "topics/map.parquet"
"""Path in a release."""
_UNSAID = (
    "UPDATE rows SET topic_id = points.topic_id FROM points WHERE rows.config IN ('battle', 'failures') "
    "AND points.config = rows.config AND rows.id = points.id"
)
"""Battles and failures are released without a topic."""
_ELSEWHERE = "SELECT count(*) FROM points ANTI JOIN rows USING (config, id, topic_id)"
_LACKING = "SELECT count(*) FROM (SELECT * FROM rows WHERE topic_id IS NOT NULL) r ANTI JOIN points USING (config, id)"
_MOVED = "SELECT count(*) FROM old JOIN new USING (config, id) WHERE old.x <> new.x OR old.y <> new.y"


class MapFile:
    """Writes the file while the rows of a release are gathered, one row group for each block of rows."""

    def __init__(self, staging: Path) -> None:
        self._schema = arrow_schema(MapPoint)
        (staging / MAP).parent.mkdir(parents=True, exist_ok=True)
        self._file = parquet_writer(staging / MAP, self._schema)

    def add(self, config: str, rows: pl.DataFrame) -> None:
        """Add gathered rows, which have topic_id, x and y; those without a topic are left out."""
        points = rows.drop_nulls("topic_id").select("topic_id", "x", "y", config=pl.lit(config), id=KEYS[config])
        if points.height:
            self._file.write(conform(points, self._schema))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._file.close()


def wrong_points(folder: Path) -> Iterator[str]:
    """Problems of the map: it cannot be read, or has other rows or topics than the shards."""
    try:
        points = list(sound_groups(folder / MAP))
    except READ_ERRORS as error:
        yield f"{MAP}: it is missing, or its pages cannot be read ({type(error).__name__})"
        return
    database = TemporaryDatabase()
    database.load("points", [_no_points(), *points])
    database.load("rows", _rows(folder))
    database.run(_UNSAID)
    if count := database.read(_ELSEWHERE).item():
        yield f"{MAP}: {count:,} points are of no released row, or of another topic"
    if count := database.read(_LACKING).item():
        yield f"{MAP}: {count:,} released rows with a topic have no point"


def moved_points(old: Path, new: Path) -> Iterator[str]:
    """One sentence when rows of both releases have another place on the map; nothing when a release has no map."""
    if not ((old / MAP).is_file() and (new / MAP).is_file()):
        return
    database = TemporaryDatabase()
    for name, folder in (("old", old), ("new", new)):
        database.load(name, [_no_points(), *read_parquet_groups(folder / MAP)])
    if count := database.read(_MOVED).item():
        yield f"topic map: {count:,} rows of both releases have another place"


def _no_points() -> pl.DataFrame:
    return pl.DataFrame(
        schema={"config": pl.String, "id": pl.String, "topic_id": pl.Int32, "x": pl.Float32, "y": pl.Float32}
    )


def _rows(folder: Path) -> Iterator[pl.DataFrame]:
    """config, id and topic_id of every released row; null where it is released without a topic."""
    yield _no_points().select("config", "id", "topic_id")
    for config in CONFIGS:
        for shard in shards(folder, config):
            names = [KEYS[config], *(["topic_id"] if "topic_id" in CONFIGS[config].model_fields else [])]
            for group in read_parquet_groups(shard, names):
                topic = pl.col("topic_id") if "topic_id" in group.columns else pl.lit(None, pl.Int32)
                yield group.select(config=pl.lit(config), id=KEYS[config], topic_id=topic)
