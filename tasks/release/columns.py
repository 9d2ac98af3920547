"""Which columns leave the building, and nothing else. Pictures are named here and filled in when written."""

import polars as pl

from schemas.conversation import UNDATED_BEFORE
from schemas.release import ReleasedCategories, SideMetadata
from tasks.language_names import english_name
from tasks.lookup.conversation_features import CATEGORIES

WINNERS = {"model_a": "model_a", "model_b": "model_b", "tie": "tie", "tie_bothbad": "tie (bothbad)"}
"""Our winner -> the spelling of VisionArena-Battle."""

_SECONDS = pl.when(pl.col("tstamp") >= UNDATED_BEFORE).then(pl.col("tstamp").dt.timestamp("us").cast(pl.Float64) / 1e6)
_LANGUAGE = pl.col("language").map_elements(english_name, return_dtype=pl.String, skip_nulls=False)


def _messages(column: str) -> pl.Expr:
    message = pl.element().struct
    pair = pl.struct(role=message.field("role"), content=message.field("content"))
    return pl.col(column).list.eval(pair)


def _categories(suffix: str = "") -> pl.Expr:
    columns = [pl.col(f"{name}{suffix}").alias(name) for name in CATEGORIES if name in ReleasedCategories.model_fields]
    renamed = [pl.col(f"code{suffix}").alias("is_code"), pl.col(f"refusal{suffix}").alias("refusal")]
    ordered = sorted([*columns, *renamed], key=lambda expression: expression.meta.output_name())
    return pl.struct(ordered)


def chat_rows(kept: pl.DataFrame) -> pl.DataFrame:
    """Rows of `chat`, with `image_ids` in place of images, and token counts, which the card tells the mean of.

    `kept` has conversations, features, topic and preset.
    """
    return kept.sort("tstamp", "conversation_id").select(
        "image_ids",
        "conversation_id",
        "model",
        "num_turns",
        conversation=_messages("turns"),
        language=_LANGUAGE,
        user_id="user_id",
        tstamp=_SECONDS,
        is_preset=pl.col("preset_dataset").is_not_null(),
        preset_dataset="preset_dataset",
        categories=_categories(),
        topic="topic",
        context_tokens="context_tokens",
        assistant_tokens="assistant_tokens",
    )


def battle_rows(kept: pl.DataFrame) -> pl.DataFrame:
    """Rows of `battle`, with `image_ids`. `kept` has battles and, with suffix _a and _b, both conversations."""
    return kept.sort("tstamp", "battle_id").select(
        question_id="battle_id",
        model_a="model_a",
        model_b="model_b",
        winner=pl.col("winner").replace_strict(WINNERS, return_dtype=pl.String),
        judge="judge",
        conversation_a=_messages("turns_a_side"),
        conversation_b=_messages("turns_b_side"),
        num_turns="turns_a",
        anony="anonymous",
        language=_LANGUAGE,
        tstamp=_SECONDS,
        image_ids="image_ids",
        conv_metadata=_battle_metadata(),
        categories=_categories(),
        in_bench="in_bench",
    )


def _battle_metadata() -> pl.Expr:
    def side(letter: str) -> pl.Expr:
        return pl.struct(pl.col(f"{name}_{letter}").cast(pl.Int64).alias(name) for name in SideMetadata.model_fields)

    return pl.struct(context_tokens=pl.col("context_tokens").cast(pl.Int64), a=side("a"), b=side("b"))


def bench_rows(drawn: pl.DataFrame) -> pl.DataFrame:
    """Rows of `bench`, with `image_ids`: the user message alone, no answer."""
    return drawn.sort("conversation_id").select(
        question_id="conversation_id",
        turns=_messages("turns").list.filter(pl.element().struct.field("role") == "user"),
        image_ids="image_ids",
        topic="topic",
        categories=_categories(),
    )
