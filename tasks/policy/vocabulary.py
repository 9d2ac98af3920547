"""What policy rules can use: columns of conversations and battles, and the parts that signals are measured on."""

from collections.abc import Mapping
from functools import cache

import polars as pl

from schemas.battle import Battle
from schemas.conversation import UNDATED_BEFORE, Conversation
from schemas.policy import Over, Policy
from schemas.signals import MeasuredOn
from schemas.tables import SIGNAL_ENTRIES
from tasks.storage.queries.released import renamed
from tasks.storage.tables import frame_of

_ROLE = pl.col("turns").struct.field("role")
_LENGTHS = pl.element().struct.field("content").str.len_chars()

CONVERSATION_COLUMNS: dict[str, pl.Expr] = {
    "num_turns": pl.col("num_turns"),
    "has_picture": pl.col("image_ids").list.len() > 0,
    "image_problems": pl.col("image_problems"),
    "empty_message": pl.col("turns").list.eval(pl.element().struct.field("content").str.strip_chars() == "").list.any(),
    "null_message": pl.col("null_turns").list.len() > 0,
    "ends_with_user": pl.col("turns").list.last().struct.field("role") == "user",
    "prompt_characters": pl.col("turns")
    .list.eval(pl.element().filter(pl.element().struct.field("role") == "user").struct.field("content").str.len_chars())
    .list.sum(),
    "shortest_message_characters": pl.col("turns").list.eval(_LENGTHS).list.min(),
    "single_turn_prompt_characters": pl.when(pl.col("num_turns") == 1).then(
        pl.col("turns").list.eval(_LENGTHS).list.first()
    ),
    "undated": pl.col("tstamp") < UNDATED_BEFORE,
    "feedback": pl.col("feedback"),
    "is_preset": pl.col("preset_dataset").is_not_null(),
    "model_excluded": pl.col("model_excluded"),
    "user_banned": pl.col("user_banned"),
}
"""Policy name -> expression over a conversation. single_turn_prompt_characters is null for several turns."""

BATTLE_COLUMNS: dict[str, pl.Expr] = {
    "anonymous": pl.col("anonymous"),
    "same_model": pl.col("model_a") == pl.col("model_b"),
    "unequal_turns": pl.col("turns_a") != pl.col("turns_b"),
    "winner": pl.col("winner"),
}
"""Policy name -> expression over a battle."""

_PARTS = {
    MeasuredOn.IMAGES: (Over.IMAGES,),
    MeasuredOn.MESSAGES: (Over.MESSAGES, Over.USER_MESSAGES, Over.ASSISTANT_MESSAGES, Over.IMAGE_TEXTS),
    MeasuredOn.ASSISTANT_MESSAGES: (Over.ASSISTANT_MESSAGES,),
    MeasuredOn.PROMPT: (Over.PROMPT,),
}

MEASURED_ON = {name: _PARTS[entry.on] for name, entry in SIGNAL_ENTRIES.items() if entry.screens}
"""Signals that are measured before decisions -> the parts they are measured on."""


def conversation_columns(conversations: pl.DataFrame, policy: Policy) -> pl.DataFrame:
    """`item_id` and one column for each of CONVERSATION_COLUMNS.

    `conversations` has `preset_dataset` and the models' names from the log; `excluded_models` may use those names or
    the renamed ones.
    """
    model = pl.col("model").is_in(policy.excluded_models)
    renamed_model = renamed(conversations, policy.renames).select(model).to_series()
    listed = conversations.with_columns(
        model_excluded=model | renamed_model,
        user_banned=pl.col("user_id").is_in(policy.banned_users).fill_null(False),
    )
    return listed.select(item_id="conversation_id", **CONVERSATION_COLUMNS)


def battle_columns(battles: pl.DataFrame) -> pl.DataFrame:
    """`item_id` and one column for each of BATTLE_COLUMNS. Models have the names of the policy."""
    return battles.select(item_id="battle_id", **BATTLE_COLUMNS)


@cache
def stated_types() -> dict[str, pl.Schema]:
    """`conversation` and `battle` -> schema of their policy columns."""
    conversations = frame_of(Conversation, []).with_columns(preset_dataset=pl.lit(None, pl.String))
    return {
        "conversation": conversation_columns(conversations, Policy(name="none", rules=[])).drop("item_id").schema,
        "battle": battle_columns(frame_of(Battle, [])).drop("item_id").schema,
    }


def parts(conversations: pl.DataFrame, image_text_ids: Mapping[str, str]) -> dict[Over, pl.DataFrame]:
    """For each kind of part, one row per part of a conversation: `item_id` and `content_id`.

    `image_text_ids` gives the text id of what was read in an image, empty for an image without text; an
    image that was not read has a null part, which counts as not measured.
    """
    turns = (
        conversations.select("conversation_id", "turns")
        .explode("turns")
        .select(item_id="conversation_id", role=_ROLE, content_id=pl.col("turns").struct.field("text_id"))
    )
    images = (
        conversations.select(item_id="conversation_id", content_id="image_ids")
        .explode("content_id")
        .drop_nulls("content_id")
    )
    texts = images.with_columns(
        pl.col("content_id").replace_strict(image_text_ids, default=None, return_dtype=pl.String)
    )
    return {
        Over.IMAGES: images,
        Over.IMAGE_TEXTS: texts.filter(pl.col("content_id").is_null() | (pl.col("content_id") != "")),
        Over.MESSAGES: turns.select("item_id", "content_id"),
        Over.USER_MESSAGES: turns.filter(pl.col("role") == "user").select("item_id", "content_id"),
        Over.ASSISTANT_MESSAGES: turns.filter(pl.col("role") == "assistant").select("item_id", "content_id"),
        Over.PROMPT: conversations.select(item_id="conversation_id", content_id="prompt_id"),
    }
