"""The listing: one row for each conversation, battle and benchmark prompt that can be shown, newest first."""

import hashlib
from typing import NamedTuple

import polars as pl

from tasks.storage.queries.conversation_features import marks

SNIPPET_CHARACTERS = 280
"""Characters of a prompt that a card shows."""
SCHEMA: dict[str, pl.DataType | type[pl.DataType]] = {
    "kind": pl.String,
    "id": pl.String,
    "models": pl.List(pl.String),
    "vote": pl.String,
    "language": pl.String,
    "topic": pl.String,
    "tags": pl.List(pl.String),
    "preset": pl.String,
    "day": pl.String,
    "bench": pl.String,
    "outcome": pl.String,
    "reasons": pl.List(pl.String),
    "image_ids": pl.List(pl.String),
    "turns": pl.Int64,
    "tstamp": pl.Float64,
    "x": pl.Float32,
    "y": pl.Float32,
    "topic_id": pl.Int32,
    "prompt": pl.String,
    "answers": pl.String,
    "place": pl.Int32,
}
"""Columns that sources fill in; `prompt` and `answers` are masked texts, `place` is where the source finds the row."""
IN_BENCH, NOT_IN_BENCH = "in the benchmark", "not in it"
NO_TOPIC, OUTLIERS = "no topic", -1
UPLOAD, EXAMPLE = "upload", "example image"
CONVERSATION, BATTLE, PROMPT, FAILURE = "conversation", "battle", "prompt", "failed prompt"
SIDE = "side of a battle"
"""Kind of a conversation that a battle shows too; it is listed only when it is asked for."""


class Facet(NamedTuple):
    """One column by which the listing is filtered and counted."""

    name: str
    """Parameter in links."""
    title: str
    column: str
    many: bool = False
    """Whether a row has a list of values."""


FACETS = (
    Facet("outcome", "Decision", "outcome"),
    Facet("reason", "Reason", "reasons", many=True),
    Facet("kind", "Kind", "kind"),
    Facet("model", "Model", "models", many=True),
    Facet("vote", "Vote", "vote"),
    Facet("topic", "Topic", "topic"),
    Facet("language", "Language", "language"),
    Facet("tag", "Tag", "tags", many=True),
    Facet("preset", "Image from", "preset"),
    Facet("bench", "Benchmark", "bench"),
    Facet("day", "Day", "day"),
)


def item_key(kind: str, item_id: str) -> str:
    """16 hex digits that name an item in links and file names; ids of logs may hold anything."""
    kind = CONVERSATION if kind == SIDE else kind
    return hashlib.blake2b(f"{kind} {item_id}".encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def finished(rows: list[pl.DataFrame]) -> pl.DataFrame:
    """The listing from rows with the columns of `SCHEMA`; those that are missing are null.

    Adds `MARKS` of answers to `tags`, and `key`, `snippet` and `searched` (prompt and answers in lower case). Leaves
    `answers` and `prompt` out.
    """
    frames = [_typed(pl.DataFrame(schema=SCHEMA)), *map(_typed, rows)]
    whole = pl.concat(frames, how="diagonal").sort(
        "tstamp", "kind", "id", descending=[True, False, False], nulls_last=True
    )
    keys = [item_key(kind, item_id) for kind, item_id in whole.select("kind", "id").iter_rows()]
    names = [facet.column for facet in FACETS if not facet.many]
    lists = [facet.column for facet in FACETS if facet.many]
    return whole.with_columns(
        pl.col(names).cast(pl.Categorical()),
        pl.col(lists).fill_null([]).cast(pl.List(pl.Categorical())),
        pl.col("image_ids").fill_null([]),
        key=pl.Series(keys, dtype=pl.String),
    )


def _typed(rows: pl.DataFrame) -> pl.DataFrame:
    """The rows with the types of `SCHEMA`, and `snippet` and `searched` in place of their texts."""
    typed = rows.with_columns(pl.col(name).cast(kind) for name, kind in SCHEMA.items() if name in rows.columns)
    answers = pl.col("answers").fill_null("") if "answers" in rows.columns else pl.lit("")
    if {"answers", "tags", "models"} <= {*rows.columns}:
        found = marks([pl.col("models").list.first(), pl.col("models").list.last()], answers)
        flags = [pl.when(holds).then(pl.lit(name)) for name, holds in found.items()]
        typed = typed.with_columns(tags=pl.concat_list(pl.col("tags").fill_null([]), *flags).list.drop_nulls())
    return typed.with_columns(
        snippet=pl.col("prompt").str.head(SNIPPET_CHARACTERS),
        searched=pl.concat_str("prompt", pl.lit("\n"), answers).str.to_lowercase(),
    ).drop("prompt", "answers", strict=False)
