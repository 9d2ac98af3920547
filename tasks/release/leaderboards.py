"""The leaderboard files of a release: Parquet for programs, CSV for people."""

from collections.abc import Iterator
from pathlib import Path

import polars as pl

from schemas.rating import Rating
from schemas.row import arrow_schema
from tasks.release.declared import READ_ERRORS, sound_groups
from tasks.runtime.untrusted import csv_cell
from tasks.storage.parquet import conform, parquet_writer

BOARDS = {
    "overall": pl.col("slice").is_in(["overall", "exclude_ties", "exclude_refusal", "exclude_preset"]),
    "by_category": pl.col("slice").str.starts_with("category:"),
    "by_language": pl.col("slice").str.starts_with("language:"),
    "by_month": pl.col("slice").str.starts_with("month:"),
    "style_control": pl.col("slice") == "style_control",
}
"""File name -> filter of the `ratings` table by slice."""


def write_leaderboards(ratings: pl.DataFrame, folder: Path) -> None:
    """Write `<board>.parquet` and `<board>.csv`, sorted by slice, best models first."""
    folder.mkdir(parents=True, exist_ok=True)
    schema = arrow_schema(Rating)
    for name, chosen in BOARDS.items():
        board = ratings.filter(chosen).sort("slice", "rating", "model", descending=[False, True, False])
        with parquet_writer(folder / f"{name}.parquet", schema) as file:
            file.write(conform(board, schema))
        (folder / f"{name}.csv").write_text(_csv(board), encoding="utf-8")


def wrong_boards(folder: Path) -> Iterator[str]:
    """Problems of boards that cannot be read, or whose CSV differs from the Parquet file."""
    for path in sorted((folder / "leaderboard").glob("*.parquet")):
        beside = path.with_suffix(".csv")
        try:
            expected = _csv(pl.concat(sound_groups(path)))
        except READ_ERRORS as error:
            yield f"leaderboard/{path.name}: its pages cannot be read ({type(error).__name__})"
            continue
        if not beside.is_file() or beside.read_bytes() != expected.encode():
            yield f"leaderboard/{beside.name}: not what {path.name} says"


def _csv(board: pl.DataFrame) -> str:
    safe = pl.col("model", "slice").map_elements(csv_cell, return_dtype=pl.String)
    return board.with_columns(safe, pl.col("^flags$").list.join(" ")).write_csv(float_precision=2)
