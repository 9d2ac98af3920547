"""Battle tables as files, of every known make -> one frame of known columns.

Known makes: our own releases, VisionArena-Battle, arena-human-preference (33k to 140k), FastChat's clean battles,
and plain tables with model_a, model_b and winner. Only the columns that are needed are read, never pictures.
"""

from collections.abc import Callable, Iterable, Set
from pathlib import Path
from typing import Any

import orjson
import polars as pl

from schemas.errors import BadInput
from tasks.parquet import read_parquet_groups, read_parquet_schema
from tasks.rate.battle_columns import SOURCES, battle_columns


def read_battles(path: Path) -> pl.DataFrame:
    """The battles of a file, or of every Parquet file below a folder, with the columns of `battle_columns`.

    Raises BadInput with what is wrong and what is allowed.
    """
    return battle_columns(read_table(path, SOURCES), str(path))


def read_table(path: Path, wanted: Set[str]) -> pl.DataFrame:
    """The wanted columns of a file or folder, those it has; its names without rows when it has none of them."""
    if not path.exists():
        raise BadInput(f"table {str(path)!r} does not exist")
    files = sorted(path.rglob("*.parquet")) if path.is_dir() else [path]
    if not files:
        raise BadInput(f"{str(path)!r} holds no Parquet file; give a table or a folder of Parquet files")
    if path.is_file() and path.suffix not in _READERS:
        raise BadInput(f"{str(path)!r}: unknown kind of table; give one of {', '.join(_READERS)}")
    try:
        return pl.concat([_READERS[file.suffix](file, wanted) for file in files], how="vertical_relaxed")
    except BadInput:
        raise
    except Exception as error:  # each reader has its own errors for a broken file
        reason = " ".join(str(error).split())[:200]
        raise BadInput(f"{str(path)!r} cannot be read as a table ({type(error).__name__}: {reason})") from None


def _parquet(path: Path, wanted: Set[str]) -> pl.DataFrame:
    names = read_parquet_schema(path).names
    groups = list(read_parquet_groups(path, [name for name in names if name in wanted]))
    return pl.concat(groups) if groups and groups[0].width else _no_rows(names)


def _csv(path: Path, wanted: Set[str]) -> pl.DataFrame:
    """Everything as text: a model may be called 007."""
    table = pl.read_csv(path, infer_schema=False)
    return table.select(name for name in table.columns if name in wanted) if wanted & {*table.columns} else table


def _json(path: Path, wanted: Set[str]) -> pl.DataFrame:
    """A JSON array, or one object a line."""
    content = path.read_bytes()
    if not content.lstrip().startswith(b"["):
        return _json_lines(path, wanted)
    return _frame(orjson.loads(content), wanted)


def _json_lines(path: Path, wanted: Set[str]) -> pl.DataFrame:
    with path.open("rb") as lines:
        return _frame((_object(line, number) for number, line in enumerate(lines, 1) if line.strip()), wanted)


def _object(line: bytes, number: int) -> Any:
    try:
        return orjson.loads(line)
    except orjson.JSONDecodeError:
        raise BadInput(f"line {number} is not JSON; write one object a line") from None


def _frame(rows: Iterable[Any], wanted: Set[str]) -> pl.DataFrame:
    kept: list[dict[str, Any]] = []
    seen: dict[str, None] = {}
    for number, row in enumerate(rows, 1):
        if not isinstance(row, dict):
            raise BadInput(f"row {number} is no object; write one object a line")
        seen |= dict.fromkeys(row)
        kept.append({name: value for name, value in row.items() if name in wanted})
    names = [name for name in seen if name in wanted]
    if not names:
        return _no_rows(seen)
    return pl.DataFrame([{name: row.get(name) for name in names} for row in kept], infer_schema_length=None)


def _no_rows(names: Iterable[str]) -> pl.DataFrame:
    return pl.DataFrame(schema=dict.fromkeys(names, pl.String))


_READERS: dict[str, Callable[[Path, Set[str]], pl.DataFrame]] = {
    ".parquet": _parquet,
    ".csv": _csv,
    ".jsonl": _json_lines,
    ".json": _json,
}
