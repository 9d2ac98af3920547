"""Battle tables of every known make -> votes: two model names and what the first one scored."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import polars as pl

from schemas.errors import BadInput, known_values

SCORES = {
    "model_a": 1.0,
    "model_b": 0.0,
    "tie": 0.5,
    "tie (bothbad)": 0.5,
    "tie_bothbad": 0.5,
    "both_bad": 0.5,
    "bothbad": 0.5,
    "left": 1.0,
    "right": 0.0,
    "left_vote": 1.0,
    "right_vote": 0.0,
}
"""Winner label -> score of the first model; every spelling published arenas use, and nothing else."""

_COLUMNS = {"model_a": ("model_a", "left"), "model_b": ("model_b", "right"), "winner": ("winner",)}
_READERS: dict[str, Callable[[Path], pl.DataFrame]] = {
    ".parquet": pl.read_parquet,
    ".csv": pl.read_csv,
    ".jsonl": pl.read_ndjson,
    ".json": pl.read_ndjson,
}


@dataclass(frozen=True)
class Votes:
    """Votes with models as numbers."""

    models: list[str]
    """Names, sorted; their places are the numbers."""
    first: npt.NDArray[np.int64]
    """(votes,) number of the first model."""
    second: npt.NDArray[np.int64]
    """(votes,) number of the second model."""
    score: npt.NDArray[np.float64]
    """(votes,) 1 when the first won, 0.5 for a tie, 0 when the second won."""


def read_battles(path: Path) -> pl.DataFrame:
    """model_a, model_b and winner of a battle table. Raises BadInput with what is wrong and what is allowed."""
    if path.suffix not in _READERS:
        raise BadInput(f"{str(path)!r}: unknown kind of table; give one of {', '.join(_READERS)}")
    if not path.is_file():
        raise BadInput(f"battle table {str(path)!r} does not exist")
    try:
        frame = _READERS[path.suffix](path)
    except Exception as error:  # each reader has its own errors for a broken file
        raise BadInput(f"{str(path)!r} cannot be read as {path.suffix[1:]} ({type(error).__name__})") from None
    chosen = {name: next((c for c in among if c in frame.columns), None) for name, among in _COLUMNS.items()}
    lacking = [name for name, column in chosen.items() if column is None]
    if lacking:
        raise BadInput(f"{str(path)!r} lacks {', '.join(lacking)}; its columns are {', '.join(frame.columns)}")
    return frame.select(pl.col(str(column)).cast(pl.String).alias(name) for name, column in chosen.items())


def votes(battles: pl.DataFrame) -> Votes:
    """Votes of a frame with model_a, model_b and winner. A model against itself says nothing and is left out.

    Raises BadInput for winner labels that are not known: guessing would bend the ranking.
    """
    unknown = sorted({str(label) for label in battles["winner"].unique()} - set(SCORES))
    if unknown:
        raise BadInput(f"unknown winner label {known_values(', '.join(unknown[:5]), SCORES)}")
    if battles["model_a"].null_count() or battles["model_b"].null_count():
        raise BadInput("a battle lacks a model name; every row needs model_a and model_b")
    told = battles.filter(pl.col("model_a") != pl.col("model_b"))
    models = sorted({*told["model_a"], *told["model_b"]})
    numbers = {name: number for number, name in enumerate(models)}
    return Votes(
        models,
        told["model_a"].replace_strict(numbers, return_dtype=pl.Int64).to_numpy(),
        told["model_b"].replace_strict(numbers, return_dtype=pl.Int64).to_numpy(),
        told["winner"].replace_strict(SCORES, return_dtype=pl.Float64).to_numpy(),
    )
