"""The rows of a release as rows of the listing."""

from collections.abc import Callable, Mapping

import polars as pl

from tasks.explore import listing

IMAGE_ID = r"^([0-9a-f]{32})\.[a-z]+$"
"""Names of other forms, which no release of ours has, name no image: they become addresses and file names."""


def release_rows(config: str, rows: pl.DataFrame, points: pl.DataFrame) -> pl.DataFrame:
    """Rows of a row group of a configuration, with the paths of their images; `points` are those of the map."""
    return _row_of[config](rows, points)


def _text(column: str, role: str | None = None) -> pl.Expr:
    turn = pl.element().struct
    chosen = pl.element() if role is None else pl.element().filter(turn.field("role") == role)
    return pl.col(column).list.eval(chosen.struct.field("content")).list.join("\n\n")


_TAGS = pl.col("categories")
_DAY = pl.from_epoch(pl.col("tstamp").cast(pl.Int64), "s").dt.date().cast(pl.String)
_EXAMPLE = pl.when("is_preset").then(pl.lit(listing.EXAMPLE)).otherwise(pl.lit(listing.UPLOAD))
_IMAGES = pl.col("images").list.eval(pl.element().struct.field("path").str.extract(IMAGE_ID)).list.drop_nulls()


def _tags(rows: pl.DataFrame) -> pl.Expr:
    names = rows["categories"].struct.fields
    told = [pl.when(_TAGS.struct.field(name)).then(pl.lit(name)) for name in names]
    return pl.concat_list(told).list.drop_nulls()


def _shared(rows: pl.DataFrame, key: str, kind: str, asked: str) -> dict[str, pl.Expr]:
    """Columns that all rows have; `asked` is the column with the user's messages."""
    shown = {"id": pl.col(key), "kind": pl.lit(kind), "tags": _tags(rows), "image_ids": _IMAGES}
    return shown | {"prompt": _text(asked, None if asked == "turns" else "user")}


def _placed(rows: pl.DataFrame, key: str, points: pl.DataFrame) -> pl.DataFrame:
    known = points.select(pl.col("id").alias(key), "x", "y", point_topic="topic_id")
    return rows.join(known, on=key, how="left", maintain_order="left")


def _chat(rows: pl.DataFrame, points: pl.DataFrame) -> pl.DataFrame:
    return _placed(rows, "conversation_id", points).select(
        *("language", "tstamp", "topic_id", "x", "y"),
        **_shared(rows, "conversation_id", listing.CONVERSATION, "conversation"),
        models=pl.concat_list("model"),
        topic=pl.col("topic").fill_null(listing.NO_TOPIC),
        preset=pl.coalesce("preset_dataset", _EXAMPLE),
        day=_DAY,
        bench=pl.lit(listing.NOT_IN_BENCH),
        turns=pl.col("num_turns").cast(pl.Int64),
        answers=_text("conversation", "assistant"),
    )


def _battle(rows: pl.DataFrame, points: pl.DataFrame) -> pl.DataFrame:
    in_bench = pl.when("in_bench").then(pl.lit(listing.IN_BENCH)).otherwise(pl.lit(listing.NOT_IN_BENCH))
    return _placed(rows, "question_id", points).select(
        *("language", "tstamp", "x", "y"),
        **_shared(rows, "question_id", listing.BATTLE, "conversation_a"),
        topic_id="point_topic",
        models=pl.concat_list("model_a", "model_b"),
        vote=pl.col("winner").replace("tie (bothbad)", "tie_bothbad"),
        preset=_EXAMPLE,
        day=_DAY,
        bench=in_bench,
        turns=pl.col("num_turns").cast(pl.Int64),
        answers=pl.concat_str(_text("conversation_a", "assistant"), pl.lit("\n"), _text("conversation_b", "assistant")),
    )


def _bench(rows: pl.DataFrame, points: pl.DataFrame) -> pl.DataFrame:
    return _placed(rows, "question_id", points).select(
        *("topic", "topic_id", "x", "y"),
        **_shared(rows, "question_id", listing.PROMPT, "turns"),
        bench=pl.lit(listing.IN_BENCH),
        turns=pl.lit(1, pl.Int64),
    )


def _failure(rows: pl.DataFrame, points: pl.DataFrame) -> pl.DataFrame:
    shared = _shared(rows, "question_id", listing.FAILURE, "turns")
    return _placed(rows, "question_id", points).select("models", "x", "y", **shared, topic_id="point_topic")


_row_of: Mapping[str, Callable[[pl.DataFrame, pl.DataFrame], pl.DataFrame]] = {
    "chat": _chat,
    "battle": _battle,
    "bench": _bench,
    "failures": _failure,
}
