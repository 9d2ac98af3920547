"""Correlations of tables of models x benchmarks, with gaps, over the models that both columns have.

Boards are such tables.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
from scipy.stats import kendalltau, pearsonr, spearmanr

from schemas.benches.agreement import ScoreCorrelation
from schemas.benches.judging import JudgeRating
from schemas.errors import BadInput, known_values
from schemas.rating import OVERALL, Rating
from tasks.leaderboard.battle_files import COLUMN_NAMES, read_table
from tasks.runtime.untrusted import one_line

Scores = dict[str, dict[str, float]]
"""Column -> model -> score; a model without a score is not there."""
_GAPS = {"", "-", "–", "—", "na", "n/a", "nan", "null", "none"}
_SCORES = {"rating", "score", "win_rate", "reward"}
_BESIDE = ({*Rating.model_fields, *JudgeRating.model_fields} - _SCORES) | {
    name for end in ("ci95_low", "ci95_high") for name in COLUMN_NAMES["board"][end]
}
"""Columns of boards that are no scores: intervals, ranks, counts, flags."""
_CORRELATIONS: dict[str, Callable[..., Any]] = {"spearman": spearmanr, "kendall": kendalltau, "pearson": pearsonr}
NEAR = 3
"""Pairs of like names in an error."""


def read_scores(
    files: Sequence[Path], renames: Mapping[str, str], columns: Sequence[str] = ()
) -> tuple[Scores, list[tuple[str, str]]]:
    """The columns of all tables, under their names; a name that two tables have gets the table's name before it.

    Second, the names of models that one table has alone, each with a like name that another has alone.
    `renames`: name in a table -> the model's name. `columns`: only these. Raises BadInput for a table without models or
    numbers, one that rates a model twice, one whose models no other table has, and an unknown column.
    """
    tables = {file: _table(file, renames) for file in files}
    if len(tables) < len(files):
        raise BadInput("a table is given twice; give each once")
    for file, (models, others) in _models(tables).items():
        if others and not models & others:
            raise BadInput(
                f"no model of {str(file)!r} is in another table; {_hint(models, others)}; --renames FILE says which "
                "are the same (`its name: the other name` lines)"
            )
    names = [column for table in tables.values() for column in table]
    score_columns = {
        column if names.count(column) == 1 else f"{file.stem}:{column}": scores
        for file, table in tables.items()
        for column, scores in table.items()
    }
    if len(score_columns) < len(names):
        raise BadInput("two tables have one name and a column in common; rename one of the files")
    if unknown := [name for name in columns if name not in score_columns]:
        raise BadInput(f"--column {known_values(unknown[0], score_columns)}")
    chosen = {name: score_columns[name] for name in columns} if columns else score_columns
    if len(chosen) < 2:
        raise BadInput(f"only one column of scores ({one_line(next(iter(chosen)))}); a correlation needs two")
    return chosen, _alike(tables)


def _table(file: Path, renames: Mapping[str, str]) -> Scores:
    columns = read_table(file, set()).columns
    raw = read_table(file, {*columns})
    if "slice" in columns and (raw := raw.filter(pl.col("slice") == OVERALL)).is_empty():
        raise BadInput(f"table {str(file)!r} has no slice {OVERALL!r}; leave out its column slice")
    of_models = next((name for name in COLUMN_NAMES["board"]["model"] if name in raw.columns), None)
    if of_models is None:
        raise BadInput(f"table {str(file)!r} lacks a column model; its columns are {', '.join(raw.columns)}")
    models = raw[of_models].cast(pl.String).str.strip_chars().replace(dict(renames))
    if models.null_count() or (models == "").any():
        raise BadInput(f"table {str(file)!r} has a row without a model; every row needs its name")
    if models.is_duplicated().any():
        twice = one_line(models.filter(models.is_duplicated())[0])
        raise BadInput(f"table {str(file)!r} has model {twice!r} twice; keep one row of each")
    score_columns = {}
    for name in raw.columns:
        scores = {} if name == of_models or name in _BESIDE else _numbers(raw[name], models, f"{str(file)!r}")
        if scores:
            score_columns[name] = scores
    if not score_columns:
        raise BadInput(f"table {str(file)!r} has no column of numbers beside the models; give one a benchmark")
    return score_columns


def _numbers(column: pl.Series, models: pl.Series, where: str) -> dict[str, float]:
    """Model -> score; empty when most cells are no numbers. Raises BadInput when only some are none."""
    if column.dtype.is_nested() or column.dtype == pl.Boolean:
        return {}
    cells = dict(zip(models, column.cast(pl.String), strict=True))
    filled_cells = {model: cell for model, cell in cells.items() if (cell or "").strip().lower() not in _GAPS}
    scores = {model: _number(cell) for model, cell in filled_cells.items()}
    wrong = [model for model, score in scores.items() if not math.isfinite(score)]
    if 2 * len(wrong) >= len(scores):
        return {}
    if wrong:
        cell = one_line(str(filled_cells[wrong[0]]), 40)
        raise BadInput(
            f"{where}, column {one_line(column.name)!r}: {cell!r} is no number (model {one_line(wrong[0])!r}); leave "
            "the cell of a missing score empty"
        )
    return scores


def _number(cell: str | None) -> float:
    try:
        return float(str(cell).strip().removesuffix("%"))
    except ValueError:
        return math.nan


def _models(tables: Mapping[Path, Scores]) -> dict[Path, tuple[set[str], set[str]]]:
    """File -> its models, and those of the other files."""
    models = {file: {model for scores in table.values() for model in scores} for file, table in tables.items()}
    return {
        file: (file_models, set().union(*(names for other, names in models.items() if other is not file)))
        for file, file_models in models.items()
    }


def _alike(tables: Mapping[Path, Scores]) -> list[tuple[str, str]]:
    models = _models(tables)
    alone = {file: file_models - others for file, (file_models, others) in models.items()}
    pairs = [pair for file in tables for pair in near(alone[file], set().union(*alone.values()) - alone[file], 0.8)]
    return list({frozenset(pair): pair for pair in pairs}.values())


def _hint(models: set[str], others: set[str]) -> str:
    """`near names: 'gpt4o' and 'GPT-4o', …`."""
    if pairs := near(models, others, 0.6):
        return f"near names: {', '.join(f'{one_line(a, 60)!r} and {one_line(b, 60)!r}' for a, b in pairs[:NEAR])}"
    examples = [", ".join(repr(one_line(name, 60)) for name in sorted(names)[:NEAR]) for names in (models, others)]
    return f"no names are near (here {examples[0]} …, elsewhere {examples[1]} …)"


def near(names: set[str], others: set[str], likeness_min: float) -> list[tuple[str, str]]:
    """Names with the likest of the others, compared without case and punctuation."""
    name_of_plain = {_plain(name): name for name in sorted(others)}
    return [
        (name, name_of_plain[match])
        for name in sorted(names)
        for match in get_close_matches(_plain(name), name_of_plain, n=1, cutoff=likeness_min)
    ]


def _plain(name: str) -> str:
    return "".join(letter for letter in name.lower() if letter.isalnum())


def score_correlations(scores: Scores) -> list[ScoreCorrelation]:
    """One row for every pair of columns, in the order of the columns; null where a column has one value alone."""
    rows = []
    for a, b in combinations(scores, 2):
        shared = sorted(scores[a].keys() & scores[b].keys())
        first, second = ([scores[name][model] for model in shared] for name in (a, b))
        coefficients: dict[str, float | None] = dict.fromkeys(_CORRELATIONS)
        if len(set(first)) > 1 and len(set(second)) > 1:
            coefficients = {name: float(measure(first, second).statistic) for name, measure in _CORRELATIONS.items()}
        rows.append(ScoreCorrelation(a=a, b=b, models=len(shared), **coefficients))
    return rows


def as_matrix(columns: Sequence[str], rows: Sequence[ScoreCorrelation]) -> npt.NDArray[np.float64]:
    """Spearman of every pair of columns, float64 (columns, columns); 1 on the diagonal, NaN where it is null."""
    place = {name: number for number, name in enumerate(columns)}
    values = np.eye(len(columns))
    for row in rows:
        ends = place[row.a], place[row.b]
        values[ends] = values[ends[::-1]] = np.nan if row.spearman is None else row.spearman
    return values
