"""The leaderboard files of a release: Parquet for programs, CSV for people."""

from collections.abc import Iterator
from pathlib import Path

import polars as pl

from schemas.rating import Rating
from schemas.row import arrow_schema
from tasks.release.declared import JUDGE_FOLDER, READ_ERRORS, sound_groups
from tasks.runtime.untrusted import csv_cell
from tasks.storage.parquet import conform, parquet_writer

DIGITS = {"judge": 4}
"""Folder -> digits after the point in its CSV files, where not 2."""
TEXTS = {f"{JUDGE_FOLDER}/answers.parquet", f"{JUDGE_FOLDER}/verdicts.parquet"}
"""Tables without a CSV file, because they hold whole texts."""
BOARDS = {
    "overall": pl.col("slice").is_in(["overall", "exclude_ties", "exclude_refusal", "exclude_preset"]),
    "by_category": pl.col("slice").str.starts_with("category:"),
    "by_language": pl.col("slice").str.starts_with("language:"),
    "by_question": pl.col("slice").str.starts_with("question:"),
    "by_image": pl.col("slice").str.starts_with("image:"),
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
        (folder / f"{name}.csv").write_text(board_csv(board), encoding="utf-8")


def wrong_boards(folder: Path) -> Iterator[str]:
    """Problems of boards that cannot be read, or whose CSV differs from the Parquet file."""
    for path in sorted((folder / "leaderboard").rglob("*.parquet")):
        name, beside = path.relative_to(folder).as_posix(), path.with_suffix(".csv")
        try:
            expected = board_csv(pl.concat(sound_groups(path)), DIGITS.get(path.parent.name, 2))
        except READ_ERRORS as error:
            yield f"{name}: its pages cannot be read ({type(error).__name__})"
            continue
        if name in TEXTS:
            continue
        if not beside.is_file() or beside.read_bytes() != expected.encode():
            yield f"{name.removesuffix('.parquet')}.csv: not what {path.name} says"


def board_csv(board: pl.DataFrame, digits: int = 2) -> str:
    """A board for people, with this many digits after the point."""
    safe = pl.selectors.string().map_elements(csv_cell, return_dtype=pl.String)
    lists = pl.selectors.by_dtype(pl.List(pl.String)).list.join(" ").map_elements(csv_cell, return_dtype=pl.String)
    return board.with_columns(safe, lists).write_csv(float_precision=digits)
