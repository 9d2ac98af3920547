"""The columns of published battle tables -> ours, whatever they are called there and however deep they lie."""

from collections.abc import Iterator

import polars as pl

from schemas.errors import BadInput
from tasks.rate.slices import CATEGORY

_NAMES = {
    "model_a": ("model_a", "left"),
    "model_b": ("model_b", "right"),
    "winner": ("winner",),
    "judge": ("judge", "judge_hash", "evaluation_session_id", "worker"),
    "language": ("language",),
    "tstamp": ("tstamp", "timestamp"),
    "turns": ("num_turns", "turn", "turns_a"),
    "refusal": ("refusal", "is_refusal"),
    "is_preset": ("is_preset",),
    "code": ("is_code", "code"),
}
"""Our column -> its names elsewhere, first found counts."""
_ONE_HOT = {"winner_model_a": "model_a", "winner_model_b": "model_b", "winner_tie": "tie"}
_STRUCTS = ("categories", "category_tag", "conv_metadata")
_STYLE = {
    "tokens": ("sum_assistant_{}_tokens", "assistant_tokens_{}", "tokens_{}"),
    "headers": ("header_count_{}", "headers_{}"),
    "list_items": ("list_count_{}", "list_items_{}"),
    "bold": ("bold_count_{}", "bold_{}"),
    "entities": ("entity_count_{}", "entities_{}"),
}
"""Covariate -> its names elsewhere, with the side in braces; counts may be split by kind (h1 … h6)."""
_OWN_STYLE = {"tokens": "assistant_tokens"}
"""Covariate -> its name in our releases, where that is another."""

SOURCES = {name for names in _NAMES.values() for name in names} | {*_ONE_HOT, *_STRUCTS}
SOURCES |= {name.format(side) for names in _STYLE.values() for name in names for side in ("a", "b")}
"""Every column that may be of use."""


def battle_columns(raw: pl.DataFrame, source: str) -> pl.DataFrame:
    """One row a battle: model_a, model_b and winner as text, and the rest where the table has it.

    The rest: judge, language, tstamp (UTC), refusal, is_preset, `category:<name>` (bool), and `<covariate>_a`,
    `<covariate>_b` (float64). Raises BadInput, naming `source`, when a model's name or the winner has no column.
    """
    if "winner" not in raw.columns and set(_ONE_HOT) <= set(raw.columns):
        raw = raw.with_columns(winner=_from_one_hot())
    chosen = {name: next((n for n in names if n in raw.columns), None) for name, names in _NAMES.items()}
    lacking = [name for name in ("model_a", "model_b", "winner") if chosen[name] is None]
    if lacking:
        raise BadInput(f"{source!r} lacks {', '.join(lacking)}; its columns are {', '.join(raw.columns)}")
    columns = {name: raw[source_name] for name, source_name in chosen.items() if source_name is not None}
    made = [columns[name].cast(pl.String).alias(name) for name in ("model_a", "model_b", "winner")]
    made += [columns[name].cast(pl.String).alias(name) for name in ("judge", "language") if name in columns]
    if "tstamp" in columns:
        made.append(_time(columns["tstamp"], source).alias("tstamp"))
    flags = dict(_flags(raw, columns))
    made += [
        _truth(flag).alias(name if name in ("refusal", "is_preset") else CATEGORY + name)
        for name, flag in flags.items()
    ]
    made += [series.cast(pl.Float64, strict=False).alias(name) for name, series in _style(raw)]
    return pl.DataFrame(made)


def _from_one_hot() -> pl.Expr:
    votes = [pl.when(pl.col(column).cast(pl.Int8) == 1).then(pl.lit(label)) for column, label in _ONE_HOT.items()]
    return pl.coalesce(vote.otherwise(None) for vote in votes)


def _flags(raw: pl.DataFrame, columns: dict[str, pl.Series]) -> Iterator[tuple[str, pl.Series]]:
    """Yes-or-no columns by our names: the last of a name counts."""
    for struct in ("categories", "category_tag"):
        if struct in raw.columns:
            for name, leaf in _leaves(raw[struct]):
                if leaf.dtype == pl.Boolean:
                    yield name.removeprefix("is_"), leaf
    for name in ("refusal", "is_preset", "code"):
        if name in columns:
            yield name, columns[name]
    if "turns" in columns:
        yield "multi_turn", columns["turns"].cast(pl.Int64, strict=False) > 1


def _style(raw: pl.DataFrame) -> Iterator[tuple[str, pl.Series]]:
    fields = {} if "conv_metadata" not in raw.columns else dict(_fields(raw["conv_metadata"]))
    fields |= {name: raw[name] for name in raw.columns}
    for covariate, names in _STYLE.items():
        for side in ("a", "b"):
            own = dict(_fields(fields[side])) if side in fields else {}  # our releases: conv_metadata.a.headers
            found = next((fields[n.format(side)] for n in names if n.format(side) in fields), None)
            found = own.get(_OWN_STYLE.get(covariate, covariate)) if found is None else found
            if found is not None:
                yield f"{covariate}_{side}", _total(found)


def _total(counts: pl.Series) -> pl.Series:
    """A count, or the sum of counts by kind."""
    if counts.dtype != pl.Struct:
        return counts
    missing = counts.is_null()
    total = pl.DataFrame([leaf for _, leaf in _fields(counts)]).sum_horizontal()
    return total.set(missing, None)


def _fields(struct: pl.Series) -> Iterator[tuple[str, pl.Series]]:
    if struct.dtype == pl.Struct:
        for name in struct.struct.fields:
            yield name, struct.struct.field(name)


def _leaves(struct: pl.Series) -> Iterator[tuple[str, pl.Series]]:
    """Innermost fields of nested structs."""
    for name, field in _fields(struct):
        yield from _leaves(field) if field.dtype == pl.Struct else [(name, field)]


def _truth(flag: pl.Series) -> pl.Series:
    if flag.dtype != pl.String:
        return flag.cast(pl.Boolean)
    return flag.str.to_lowercase().replace_strict(
        {"true": True, "1": True, "false": False, "0": False}, default=None, return_dtype=pl.Boolean
    )


def _time(told: pl.Series, source: str) -> pl.Series:
    """UTC times of seconds since 1970, dates and times, or their text. Raises BadInput when one is none of these."""
    if told.dtype == pl.String:
        seconds = told.cast(pl.Float64, strict=False)
        if seconds.null_count() > told.null_count():
            parsed = told.str.to_datetime(time_zone="UTC", strict=False)
            if parsed.null_count() > told.null_count():
                raise BadInput(f"{source!r}: a time of vote is neither seconds since 1970 nor an ISO 8601 time")
            return parsed.dt.cast_time_unit("us")
        told = seconds
    if told.dtype.is_numeric():
        return (told.cast(pl.Float64) * 1e6).cast(pl.Int64).cast(pl.Datetime("us", "UTC"))
    if told.dtype == pl.Null:
        return told.cast(pl.Datetime("us", "UTC"))
    if isinstance(told.dtype, pl.Datetime) and told.dtype.time_zone:
        return told.dt.convert_time_zone("UTC").dt.cast_time_unit("us")
    return told.cast(pl.Datetime("us")).dt.replace_time_zone("UTC")
