"""Reads battle tables and leaderboards from files into our column names.

Known battle tables: our own releases, VisionArena-Battle, arena-human-preference (33k to 140k), FastChat's clean
battles, and plain tables with model_a, model_b and winner. Only needed columns are read, never images.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from pathlib import Path
from typing import Any

import polars as pl

from schemas.errors import BadInput, known_values
from schemas.rating import Rating
from tasks.leaderboard.leaderboard import CATEGORY
from tasks.runtime.identity import ASKS_IDENTITY
from tasks.runtime.json_rows import BYTE_ORDER_MARK, loads, raw_rows
from tasks.runtime.progress import tell
from tasks.runtime.times import read_times, unwrapped
from tasks.runtime.untrusted import one_line, read_yaml
from tasks.storage.arrow_files import open_arrow
from tasks.storage.parquet import compact, read_parquet_groups, read_parquet_schema, together
from tasks.storage.queries.conversation_features import TAXONOMY, VOTE_MARKS, answers_of, marks

COLUMN_NAMES: dict[str, Any] = read_yaml(Path(__file__).with_suffix(".yaml"))
"""Column names of published tables."""
_STYLE: dict[str, list[str]] = COLUMN_NAMES["style"]
_SOURCES = {name for names in COLUMN_NAMES["battle"].values() for name in names}
_SOURCES |= {
    *COLUMN_NAMES["one_hot"],
    *COLUMN_NAMES["categories"],
    *COLUMN_NAMES["context_tokens"],
    "conv_metadata",
    "taxonomy",
}
_OFFSETS = ("ci_lower_offset", "ci_upper_offset")
"""Ends of an interval as differences from the rating, as papers print them."""
_SOURCES |= {name.format(side) for names in _STYLE.values() for name in names for side in ("a", "b")}
_CONVERSATIONS = ("conversation_a", "conversation_b")
_SAID = {*COLUMN_NAMES["battle"]["prompt"], *COLUMN_NAMES["battle"]["vote_reason"], *_CONVERSATIONS}
_BEYOND_HEADER = "cell beyond the header"
"""Column of the first cell of a CSV row for which the header has no name."""
_OF_VOTES = ("model_a", "model_b", "winner")
_WORDS = ("prompt", "vote_reason")
"""Our columns of what people wrote."""
_TRUTHS = dict.fromkeys(("true", "1", "1.0", "yes"), True) | dict.fromkeys(("false", "0", "0.0", "no"), False)
"""Text -> whether it says yes; pandas writes a column of ones, zeros and gaps as 1.0 and 0.0."""
_UNTOLD = ("", "nan", "none", "null")
"""Texts of cells that say nothing."""


def read_battles(path: Path, named: bool = False, prompts: bool = False) -> pl.DataFrame:
    """The battles of a file, or of every Parquet file below a folder, one row each.

    Columns: model_a, model_b and winner as text, and if the table has them judge, question_id, user, language (null for
    unknown), the four of WildVision's taxonomy, tstamp (UTC), refusal, is_preset, `category:<name>` (bool), and as
    float64 `<covariate>_a`, `<covariate>_b`, rounds (user messages), context_tokens (theirs), weight and score. `score`
    is 1 where model_a won and 0 where it lost; soft preferences from 1.0 to 2.0, as AlpacaEval's, become scores from 1
    to 0. Battles with visible names (`anony` is false) are left out; with `named` they stay, and a bool column
    `named` tells them from others. Rows without a model or a winner (or preference), and those of weight 0, are left
    out, and counted on stderr. With `prompts`, what prompts and reasons say for the search of suspects (`wording`), and
    `conversation_features.MARKS`; their texts are not kept. Raises BadInput for a file that is not such a table.
    """
    raw = read_table(path, _wanted_columns(prompts))
    return _battles_of(raw, str(path), lambda: read_table(path, set()).columns, named, prompts)


def battles_in_frame(rows: pl.DataFrame, named: bool = False, prompts: bool = False) -> pl.DataFrame:
    """The battles in a frame with the columns of any table that `read_battles` reads, as that gives them."""
    raw = _opened(rows.select(name for name in rows.columns if name in _wanted_columns(prompts)))
    return _battles_of(raw, "the frame", lambda: rows.columns, named, prompts)


def _wanted_columns(prompts: bool) -> set[str]:
    return _SOURCES | _SAID if prompts else _SOURCES - _SAID


def _battles_of(
    raw: pl.DataFrame, place: str, columns_of_table: Callable[[], Sequence[str]], with_named: bool, prompts: bool
) -> pl.DataFrame:
    """The battles in the wanted columns of a table. `columns_of_table`: the names of all its columns, for an error."""
    if "winner" not in raw.columns and set(COLUMN_NAMES["one_hot"]) <= set(raw.columns):
        one_hot = COLUMN_NAMES["one_hot"].items()
        # of one vote, the winner whose column says yes
        winners = (pl.when(_is_one(raw[column])).then(pl.lit(winner)) for column, winner in one_hot)
        raw = raw.with_columns(winner=pl.coalesce(winners))
    columns = _chosen(raw, COLUMN_NAMES["battle"])
    columns |= dict(_fields(raw["taxonomy"])) if "taxonomy" in raw.columns else {}
    if "winner" in columns:
        columns.pop("preference", None)
    for name, column in columns.items():
        if column.dtype.is_nested() and name != "tstamp":  # of times, `_times` says why
            raise BadInput(f"{place!r} has lists or objects as {name}; give a text or a number in each row")
    soft = columns.get("preference")
    if soft is not None:
        columns["winner"] = _winner(soft := 2 - _numbers(soft, "preference", 1, 2, may_lack=True))
    if lacking := [name for name in _OF_VOTES if name not in columns]:
        names = ", ".join(map(one_line, columns_of_table()))
        raise BadInput(f"{place!r} lacks {', '.join(lacking)}; its columns are {names}; rename those that are meant")
    texts = (*_OF_VOTES, "judge", "question_id", "user", "language", *TAXONOMY)
    series = [columns[name].cast(pl.String).alias(name) for name in texts if name in columns]
    series = [text.replace("unknown", None) if text.name == "language" else text for text in series]
    series = [text.str.strip_chars() if text.name in _OF_VOTES else text for text in series]
    series = [text.set(text.str.strip_chars() == "", None) for text in series]
    series += [] if soft is None else [soft.alias("score")]
    if "weight" in columns:
        series.append(_numbers(columns["weight"], "weight", 0, float("inf")).alias("weight"))
    if "tstamp" in columns:
        series.append(_times(columns["tstamp"], place).alias("tstamp"))
    series += [_flag(flag_column).alias(name) for name, flag_column in dict(_flags(raw, columns)).items()]
    counted = _counted(raw)
    series += [
        _count(count_column, name).alias(name) for name, count_column in [*_style(counted), *_lengths(counted, columns)]
    ]
    if prompts:
        # the words of a vote's prompt and of its reason, where the table has them
        series += wording(*(columns[name].cast(pl.String) if name in columns else None for name in _WORDS))
    battles = pl.DataFrame([*series, *(raw[name] for name in VOTE_MARKS if name in raw.columns)])
    if "anony" in columns:
        names_shown = ~_anonymous(columns["anony"]).fill_null(True)
        battles = battles.with_columns(named=names_shown) if with_named else battles.filter(~names_shown)
    voted = battles.filter(pl.all_horizontal(pl.col(_OF_VOTES).is_not_null()))
    if unvoted := battles.height - voted.height:
        problem = f"{place!r}: {unvoted:,} of {battles.height:,} battles lack a model name or a winner"
        if voted.is_empty():
            raise BadInput(f"{problem}; every row needs model_a, model_b and winner")
        tell(f"{problem}; they are left out")
    return _weighing(voted, place) if "weight" in columns else voted


def _weighing(battles: pl.DataFrame, place: str) -> pl.DataFrame:
    """The battles whose weight is above 0; others are counted on stderr. Raises BadInput when all are."""
    weighing = battles.filter(pl.col("weight") > 0)
    if weightless := battles.height - weighing.height:
        problem = f"{place!r}: {weightless:,} of {battles.height:,} battles have a weight of 0"
        if weighing.is_empty():
            raise BadInput(f"{problem}; give at least one a weight above 0")
        tell(f"{problem}; they are left out")
    return weighing


def with_prompts(battles: pl.DataFrame, release: Path) -> pl.DataFrame:
    """The battles of a release with a column `prompt`, which is equal for the same user messages and images.

    They come back as they are where a table has votes without conversations.
    """
    user_messages = pl.element().struct.field("content").filter(pl.element().struct.field("role") == "user")
    text = pl.col("conversation_a").list.eval(user_messages).list.join("\n\n")
    image_paths = pl.col("images").list.eval(pl.element().struct.field("path")).list.join(" ").fill_null("")
    columns = ["question_id", *(f"conversation_a.list.element.{name}" for name in ("role", "content"))]
    paths = sorted((release / "battle").rglob("*.parquet"))
    read = (rows for path in paths for rows in read_parquet_groups(path, [*columns, "images.list.element.path"]))
    frames = [
        rows.select(
            "question_id",
            prompt=pl.when(text.is_not_null()).then(pl.concat_str(text, pl.lit("\0"), image_paths).hash()),
        )
        for rows in together(read)
        if {"conversation_a", "images"} <= {*rows.columns}
    ]
    if not frames:
        return battles
    # a row is one id with the first of its prompts: battles that share an id, as no release has, stay as many
    prompts = pl.concat(frames).unique("question_id", keep="first", maintain_order=True)
    return battles.join(prompts, on="question_id", how="left", maintain_order="left")


def _numbers(column: pl.Series, name: str, least: float, most: float, *, may_lack: bool = False) -> pl.Series:
    """float64 numbers from `least` to `most`. Raises BadInput when one is none of them, or without `may_lack` missing.

    A cell without a number is null.
    """
    numbers = column.cast(pl.Float64, strict=False).fill_nan(None)
    is_stated = ~_says_nothing(column) if may_lack else pl.repeat(True, len(column), eager=True)
    is_number = numbers.is_between(least, most) & ~numbers.is_infinite()
    if wrong := int((is_stated & ~is_number.fill_null(False)).sum()):
        raise BadInput(f"{name} is not a number from {least} to {most} in {wrong} of {len(numbers)} battles")
    return numbers


def _says_nothing(column: pl.Series) -> pl.Series:
    """Whether a cell, bool (rows,), is null, not a number (NaN), or a text for either."""
    return column.cast(pl.String).str.strip_chars().str.to_lowercase().is_in(_UNTOLD).fill_null(True)


def _winner(score: pl.Series) -> pl.Series:
    side = pl.when(score > 0.5).then(pl.lit("model_a")).when(score < 0.5).then(pl.lit("model_b"))
    return pl.select(pl.when(score == 0.5).then(pl.lit("tie")).otherwise(side)).to_series()


def _count(column: pl.Series, name: str) -> pl.Series:
    """float64 counts; null where a count is missing. Raises BadInput for what is no count."""
    if column.dtype.is_nested():
        raise BadInput(f"{name} has lists; give a number in each row")
    counts = column.cast(pl.Float64, strict=False)
    is_count = counts.is_finite() & (counts >= 0)
    if wrong := len(counts) - int(is_count.sum()) - column.null_count():
        raise BadInput(f"{name} is negative or not a number in {wrong} of {len(counts)} battles")
    return counts


def read_board(path: Path, slice_name: str) -> list[Rating]:
    """The board in a file; if the file has a column `slice`, only the rows of `slice_name`.

    Raises BadInput when a column is missing, a rating or interval is not a number, or a model is rated twice. The end
    of an interval may be null.
    """
    raw = read_table(path, {name for names in COLUMN_NAMES["board"].values() for name in names} | {"slice"})
    if "slice" in raw.columns:
        slice_names = raw["slice"].unique().to_list()
        if slice_name not in slice_names:
            raise BadInput(f"{str(path)!r} has no slice {known_values(slice_name, map(str, slice_names))}")
        raw = raw.filter(pl.col("slice") == slice_name)
    columns = _chosen(raw, COLUMN_NAMES["board"])
    if lacking := [name for name in COLUMN_NAMES["board"] if name not in columns]:
        raise BadInput(f"board {str(path)!r} lacks {', '.join(lacking)}; its columns are {', '.join(raw.columns)}")
    models = columns["model"].cast(pl.String)
    if models.is_null().any():
        raise BadInput(f"board {str(path)!r} lacks the model in {models.null_count():,} of {len(models):,} rows")
    numbers = [columns[name].cast(pl.Float64, strict=False) for name in ("rating", "ci95_low", "ci95_high")]
    # ends of an interval that are printed as differences from the rating become ratings, too
    numbers = [_ends(cells, numbers[0], path) if cells.name in _OFFSETS else cells for cells in numbers]
    null = [numbers[0].null_count(), *(columns[name].null_count() for name in ("ci95_low", "ci95_high"))]
    if numbers[0].is_null().any() or any(
        column.null_count() > null_count or not column.drop_nulls().is_finite().all()
        for column, null_count in zip(numbers, null, strict=True)
    ):
        raise BadInput(f"board {str(path)!r} has a rating or an interval that is not a number")
    if models.is_duplicated().any():
        raise BadInput(f"board {str(path)!r} rates {models.filter(models.is_duplicated())[0]!r} twice")
    return [
        Rating(slice=slice_name, model=m, rating=r, ci95_low=low, ci95_high=high, rank=None, battles=0, flags=[])
        for m, r, low, high in zip(models, *numbers, strict=True)
    ]


def _ends(offsets: pl.Series, ratings: pl.Series, path: Path) -> pl.Series:
    """Ends of intervals from their differences to the ratings. Raises BadInput for a difference of the wrong sign."""
    is_turned = offsets > 0 if offsets.name == _OFFSETS[0] else offsets < 0
    if is_turned.any():
        sign = "negative" if offsets.name == _OFFSETS[0] else "positive"
        raise BadInput(f"board {str(path)!r}: {offsets.name} must be {sign}, or the rating is outside of its interval")
    return offsets + ratings


def _chosen(raw: pl.DataFrame, names: Mapping[str, list[str]]) -> dict[str, pl.Series]:
    """Our column -> the table's column with the first matching name."""
    # our column -> name of the table's column; None where the table has none of the names
    sources = {name: next((n for n in elsewhere if n in raw.columns), None) for name, elsewhere in names.items()}
    return {name: raw[source] for name, source in sources.items() if source is not None}


def _flags(raw: pl.DataFrame, columns: Mapping[str, pl.Series]) -> Iterator[tuple[str, pl.Series]]:
    """Bool columns under our names; of several with one name, the last is used."""
    for struct in COLUMN_NAMES["categories"]:
        if struct in raw.columns:
            for name, leaf in _leaves(raw[struct]):
                if leaf.dtype == pl.Boolean:
                    plain = name.removeprefix("is_")
                    yield plain if plain == "refusal" else CATEGORY + plain, leaf
    for name, column in (("refusal", "refusal"), ("is_preset", "is_preset"), (f"{CATEGORY}code", "code")):
        if column in columns:
            yield name, columns[column]
    if "turns" in columns:
        yield f"{CATEGORY}multi_turn", columns["turns"].cast(pl.Float64, strict=False).fill_nan(None) > 1


def _counted(raw: pl.DataFrame) -> dict[str, pl.Series]:
    """The columns of a table, and the fields of its `conv_metadata`."""
    fields = dict(_fields(raw["conv_metadata"])) if "conv_metadata" in raw.columns else {}
    return fields | {name: raw[name] for name in raw.columns}


def _lengths(fields: Mapping[str, pl.Series], columns: Mapping[str, pl.Series]) -> Iterator[tuple[str, pl.Series]]:
    if "turns" in columns:
        yield "rounds", columns["turns"]
    if token_column := next((name for name in COLUMN_NAMES["context_tokens"] if name in fields), None):
        yield "context_tokens", fields[token_column]


def _style(fields: Mapping[str, pl.Series]) -> Iterator[tuple[str, pl.Series]]:
    for side in ("a", "b"):
        side_fields = dict(_fields(fields[side])) if side in fields else {}  # our releases: conv_metadata.a.headers
        for covariate, names in _STYLE.items():
            column = next((fields[n.format(side)] for n in names if n.format(side) in fields), None)
            if column is None:
                column = side_fields.get("assistant_tokens" if covariate == "tokens" else covariate)
            if column is not None:
                yield f"{covariate}_{side}", _total(column)


def _total(counts: pl.Series) -> pl.Series:
    """A count; for a struct of counts by kind, their sum, which is null where none is known."""
    if counts.dtype != pl.Struct:
        return counts
    by_kind = pl.DataFrame([leaf for _, leaf in _fields(counts)])
    return by_kind.select(pl.when(pl.any_horizontal(pl.all().is_not_null())).then(pl.sum_horizontal("*"))).to_series()


def _fields(struct: pl.Series) -> Iterator[tuple[str, pl.Series]]:
    if struct.dtype == pl.Struct:
        yield from ((name, struct.struct.field(name)) for name in struct.struct.fields)


def _leaves(struct: pl.Series) -> Iterator[tuple[str, pl.Series]]:
    """Innermost fields of nested structs."""
    for name, field in _fields(struct):
        yield from _leaves(field) if field.dtype == pl.Struct else [(name, field)]


def _flag(column: pl.Series) -> pl.Series:
    """Whether a cell says yes, bool (rows,); null for no number (NaN), and for a text that says neither yes nor no."""
    if column.dtype == pl.String:
        texts = column.str.strip_chars().str.to_lowercase()
        return texts.replace_strict(_TRUTHS, default=None, return_dtype=pl.Boolean)
    return (column.fill_nan(None) if column.dtype.is_float() else column).cast(pl.Boolean)


def _is_one(column: pl.Series) -> pl.Series:
    """Whether a cell is 1 or says yes, bool (rows,); a share such as 0.7 is no vote. Raises BadInput for lists."""
    if column.dtype.is_nested():
        raise BadInput(f"{column.name} has lists or objects; give 1 or 0 in each row")
    return _flag(column) if column.dtype == pl.String else column.cast(pl.Float64) == 1


def _anonymous(column: pl.Series) -> pl.Series:
    """Whether models were anonymous, bool (battles,); null where a cell says nothing.

    Raises BadInput for what says neither yes nor no: a vote on visible names would count as one on hidden ones.
    """
    is_anonymous = _flag(column)
    unclear = column.filter(is_anonymous.is_null() & ~_says_nothing(column))
    if len(unclear):
        example = one_line(str(unclear[0]), 40)
        raise BadInput(
            f"anony is neither true nor false in {len(unclear)} of {len(column)} battles, such as {example!r}"
        )
    return is_anonymous


def _times(column: pl.Series, place: str) -> pl.Series:
    """UTC times; null for those that cannot be read, which are counted on stderr. Raises BadInput when none can."""
    column = column.fill_nan(None) if column.dtype.is_float() else column
    times, problem = read_times(column)
    if problem:
        stated, read = (len(column) - series.null_count() for series in (column, times))
        problem = f"{place!r}: {stated - read:,} of {stated:,} times of vote cannot be read, {problem}"
        if not read:
            raise BadInput(problem)
        tell(f"{problem}; these votes have no time")
    return times


def read_table(path: Path, columns: Set[str]) -> pl.DataFrame:
    """The wanted columns that a table has (CSV, JSON, Arrow, Parquet, or a folder of Parquet), CSV cells as text.

    A column that a file of a folder lacks is null in its rows. If the table has none of them, all its column names
    without rows. Raises BadInput for a file that is no table.
    """
    if not path.exists():
        raise BadInput(f"table {str(path)!r} does not exist")
    files = sorted(file for file in path.rglob("*.parquet") if file.is_file()) if path.is_dir() else [path]
    if not files:
        raise BadInput(f"{str(path)!r} holds no Parquet file; give a table or a folder of Parquet files")
    parts = [file for file in files if (file.parent / "parts.json").is_file()]
    # A folder is a store of which a part of a table is among the files.
    if stores := [parent.parent for part in parts for parent in part.parents if parent.name == "tables"]:
        store = min(stores, key=lambda folder: len(folder.parts))
        raise BadInput(f"{str(path)!r} holds tables of a store; `curate rate --store {store}` rates its battles")
    if path.is_file() and path.suffix not in _READERS:
        raise BadInput(f"{str(path)!r}: unknown kind of table; give one of {', '.join(_READERS)}")
    try:
        read = together(_READERS[file.suffix](file, columns) for file in files)
        frames = [_opened(frame) for frame in read]
        # a file without rows may have no types and all columns, so it counts only where no file has rows
        with_rows = [frame for frame in frames if frame.height] or frames[:1]
        return pl.concat(with_rows, how="diagonal_relaxed")
    except BadInput:
        raise
    except Exception as error:  # each library raises its own errors for a broken file
        reason = " ".join(str(error).split())[:200]
        raise BadInput(f"{str(path)!r} cannot be read as a table ({type(error).__name__}: {reason})") from None


def _opened(table: pl.DataFrame) -> pl.DataFrame:
    """The table with the text of its first message in place of a conversation, and `VOTE_MARKS` of the answers of both.

    A table without rows has no types.
    """
    if not isinstance(table.schema.get("conversation_a"), pl.List):
        return table
    # Of one conversation, the text of its first message, which stands for the prompt.
    opening = pl.col("conversation_a").list.first().struct.field("content").cast(pl.String, strict=False)
    turns, models = [table.schema.get(name) for name in _CONVERSATIONS], _chosen(table, COLUMN_NAMES["battle"])
    if all(map(_is_told, turns)) and {"model_a", "model_b"} <= {*models}:
        answers = pl.concat_str(
            *(answers_of(pl.col(name)) for name in _CONVERSATIONS), separator="\n", ignore_nulls=True
        )
        sides = [pl.col(models[side].name).cast(pl.String) for side in ("model_a", "model_b")]
        table = table.with_columns(**marks(sides, answers))
    return compact(table.drop("conversation_b", strict=False).with_columns(conversation_a=opening))


def _is_told(kind: pl.DataType | None) -> bool:
    """Whether a column has messages of a role and a text."""
    inner = kind.inner if isinstance(kind, pl.List) else None
    fields = {field.name: field.dtype for field in inner.fields} if isinstance(inner, pl.Struct) else {}
    return fields.get("role") == fields.get("content") == pl.String


def _parquet(path: Path, columns: Set[str]) -> pl.DataFrame:
    names = read_parquet_schema(path).names
    groups = list(read_parquet_groups(path, [name for name in names if name in columns]))
    return pl.concat(groups) if groups and groups[0].width else _no_rows(names)


def _csv(path: Path, columns: Set[str]) -> pl.DataFrame:
    """All columns as text, so that a model named 007 keeps its name; rows with a cell too many are left out."""
    names = pl.read_csv(path, infer_schema=False, n_rows=0).columns
    # The header is read as a row, so that rows may have one cell more than it; blank lines are rows without cells.
    cells = pl.read_csv(
        path,
        has_header=False,
        schema=dict.fromkeys([*names, _BEYOND_HEADER], pl.String),
        truncate_ragged_lines=True,
        missing_columns="insert",
    )
    has_cells = pl.any_horizontal(pl.all().is_not_null())
    header_row = int(cells.select(has_cells.arg_max()).item())
    rows = cells[header_row + 1 :]
    # Which of the cells is too many cannot be told: a list without quotes is several cells. Commas at the end are not.
    is_ragged = rows[_BEYOND_HEADER].is_not_null()
    if is_ragged.any():
        first_number = int(is_ragged.arg_true()[0]) + 1
        problem = f"row {first_number} has more cells than the header's {len(names)}"
        _leave_out(path, problem, int(is_ragged.sum()), rows.height, "quote cells with commas")
        rows = rows.filter(~is_ragged)
    kept = [name for name in names if name in columns]
    return rows.select(kept) if kept else _no_rows(names)


def _arrow(path: Path, columns: Set[str]) -> pl.DataFrame:
    """Arrow's IPC, as a stream or as a file."""
    with open_arrow(path) as file:
        names = file.schema.names
        kept = [name for name in names if name in columns]
        read = [pl.DataFrame(batch.select(kept)) for batch in file.batches] if kept else []
        return pl.concat(read, rechunk=True) if read else _no_rows(names)


def _json(path: Path, columns: Set[str]) -> pl.DataFrame:
    """JSON Lines, an array of objects, or what `DataFrame.to_json` wrote.

    Rows that are no objects are left out, and those with a cell of another kind than most, or, where two kinds are as
    many, than the first row: one column has one type.
    """
    rows_by_number: dict[int, dict[str, Any]] = {}
    broken: list[int] = []
    with path.open("rb") as stream:
        for number, raw in enumerate(raw_rows(stream), 1):
            row = None
            with suppress(ValueError):
                row = loads(raw.removeprefix(BYTE_ORDER_MARK))
            if isinstance(row, dict):
                rows_by_number[number] = row
            elif raw.strip():
                broken.append(number)
    if broken:
        row_count = len(rows_by_number) + len(broken)
        hint = "write one object a line, or an array of objects"
        _leave_out(path, f"row {broken[0]} is not a JSON object", len(broken), row_count, hint)
    names = dict.fromkeys(name for row in rows_by_number.values() for name in row)
    kept_names = [name for name in names if name in columns]
    if not kept_names:
        return _no_rows(names)
    cells = {number: {name: unwrapped(row.get(name)) for name in kept_names} for number, row in rows_by_number.items()}
    for name in kept_names:
        kinds = {number: _kind_of_cell(row[name]) for number, row in cells.items() if row[name] is not None}
        if len(set(kinds.values())) < 2:
            continue
        (usual_kind, _), *_ = Counter(kinds.values()).most_common()
        odd = [number for number, kind in kinds.items() if kind != usual_kind]
        problem = f"row {odd[0]} has {kinds[odd[0]]} as {name}, and other rows {usual_kind}"
        _leave_out(path, problem, len(odd), len(cells), f"give {usual_kind} in each row")
        for number in odd:
            del cells[number]
    return pl.DataFrame(list(cells.values()), infer_schema_length=None)


def _kind_of_cell(cell: Any) -> str:
    """The kind of a cell; cells of one kind can be in one column, and numbers and texts are one kind."""
    if isinstance(cell, list):
        return "a list"
    return "an object" if isinstance(cell, dict) else "a plain value"


def _leave_out(path: Path, problem: str, count: int, row_count: int, hint: str) -> None:
    """Tell of rows that are not read. Raises BadInput if these are all rows.

    `problem`: the place of the first of them and what is wrong; `hint`: what to do about it.
    """
    problem = f"{str(path)!r}: {problem}"
    if count == row_count:
        raise BadInput(f"{problem}; {hint}")
    tell(f"{problem}; {count:,} such rows are left out")


def _no_rows(names: Iterable[str]) -> pl.DataFrame:
    return pl.DataFrame(schema=dict.fromkeys(names, pl.String))


_READERS: dict[str, Callable[[Path, Set[str]], pl.DataFrame]] = {
    ".parquet": _parquet,
    ".csv": _csv,
    ".jsonl": _json,
    ".json": _json,
    ".ndjson": _json,
    ".arrow": _arrow,
    ".feather": _arrow,
}
"""Suffix -> reader: (path, wanted columns) -> those that the file has; if none, all its names without rows."""


WORDS_MIN = 3
"""Texts of fewer different words are like many others."""


def sorted_words(text: pl.Expr) -> pl.Expr:
    """A hash of the different words of a text, uint64; null for fewer than `WORDS_MIN`.

    Texts that differ in order, case, numbers and punctuation alone are equal.
    """
    # Of one text, its different words in order, without case, numbers and punctuation.
    words = text.str.to_lowercase().str.extract_all(r"\p{L}+").list.unique().list.sort()
    return pl.when(words.list.len() >= WORDS_MIN).then(words.list.join(" ").hash())


def asks_identity(text: pl.Expr) -> pl.Expr:
    """Whether a text asks which model answers, in one of the languages of `asks_identity.yaml`."""
    return text.str.contains("(?i)" + ASKS_IDENTITY)


def wording(prompt: pl.Series | None, reason: pl.Series | None) -> list[pl.Series]:
    """Columns that `suspects` uses: prompt_words and asks_identity of prompts, reason_words of reasons; no text."""
    columns = [] if prompt is None else [sorted_words(pl.lit(prompt)).alias("prompt_words")]
    columns += [] if prompt is None else [asks_identity(pl.lit(prompt)).alias("asks_identity")]
    columns += [] if reason is None else [sorted_words(pl.lit(reason)).alias("reason_words")]
    return [pl.select(column).to_series() for column in columns]
