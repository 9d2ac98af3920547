"""Leaderboards as files: Parquet for programs, CSV for people."""

from pathlib import Path

import polars as pl

from schemas.rating import Rating
from schemas.row import arrow_schema
from tasks.parquet import ParquetFile
from tasks.tables import conform
from tasks.untrusted import csv_cell

BOARDS = {
    "overall": pl.col("slice").is_in(["overall", "exclude_ties", "exclude_refusal", "exclude_preset"]),
    "by_category": pl.col("slice").str.starts_with("category:"),
    "by_language": pl.col("slice").str.starts_with("language:"),
    "by_month": pl.col("slice").str.starts_with("month:"),
    "style_control": pl.col("slice") == "style_control",
}
"""File name -> which slices of the `ratings` table it holds."""


def write_leaderboards(ratings: pl.DataFrame, folder: Path) -> None:
    """`<board>.parquet` and `<board>.csv`, best models first within each slice."""
    folder.mkdir(parents=True, exist_ok=True)
    schema = arrow_schema(Rating)
    for name, chosen in BOARDS.items():
        board = ratings.filter(chosen).sort("slice", "rating", "model", descending=[False, True, False])
        with ParquetFile(folder / f"{name}.parquet", schema) as file:
            file.write(conform(board, schema))
        safe = pl.col("model", "slice").map_elements(csv_cell, return_dtype=pl.String)
        flags = pl.col("flags").list.join(" ")
        board.with_columns(safe, flags).write_csv(folder / f"{name}.csv", float_precision=2)
