"""Leaderboards as files, ours or others' -> rows that can be compared."""

from pathlib import Path

import polars as pl

from schemas.errors import BadInput, known_values
from schemas.rating import Rating
from tasks.rate.battle_files import read_table

_NAMES = {
    "model": ("model", "competitor", "name"),
    "rating": ("rating",),
    "ci95_low": ("ci95_low", "rating_q025", "rating_lower"),
    "ci95_high": ("ci95_high", "rating_q975", "rating_upper"),
}
"""Our column -> its names elsewhere."""


def read_board(path: Path, slice_name: str) -> list[Rating]:
    """One board of a file; where the file has a column `slice`, the rows of `slice_name`.

    Raises BadInput when a column lacks, a number is none, or a model is rated twice.
    """
    raw = read_table(path, {name for names in _NAMES.values() for name in names} | {"slice"})
    if "slice" in raw.columns:
        known = raw["slice"].unique().to_list()
        if slice_name not in known:
            raise BadInput(f"{str(path)!r} has no slice {known_values(slice_name, map(str, known))}")
        raw = raw.filter(pl.col("slice") == slice_name)
    chosen = {name: next((n for n in names if n in raw.columns), None) for name, names in _NAMES.items()}
    lacking = [name for name, column in chosen.items() if column is None]
    if lacking:
        raise BadInput(f"board {str(path)!r} lacks {', '.join(lacking)}; its columns are {', '.join(raw.columns)}")
    board = pl.DataFrame({name: raw[str(column)] for name, column in chosen.items()}).cast({"model": pl.String})
    numbers = board.select(pl.exclude("model").cast(pl.Float64, strict=False))
    if not all((column.is_finite() & column.is_not_null()).fill_null(False).all() for column in numbers):
        raise BadInput(f"board {str(path)!r} has a rating or an interval that is no number")
    if board["model"].is_duplicated().any():
        raise BadInput(f"board {str(path)!r} rates {board.filter(pl.col('model').is_duplicated())['model'][0]!r} twice")
    rows = zip(board["model"], *numbers, strict=True)
    return [
        Rating(slice=slice_name, model=m, rating=r, ci95_low=low, ci95_high=high, rank=0, battles=0, flags=[])
        for m, r, low, high in rows
    ]
