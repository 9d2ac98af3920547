"""Reviewers' verdicts on held conversations, as decisions apply them: for that content and those reasons only."""

from collections.abc import Iterable, Mapping
from typing import Any

import polars as pl

from schemas.items.review import HeldVerdict, QueueName
from schemas.policy import Action
from tasks.storage.content_id import combined_id
from tasks.storage.reviews import reviews_of
from tasks.storage.tables import Store


def content_of(conversation: Mapping[str, Any]) -> str:
    """Content id of all messages and images of a row of `conversations`; a new turn changes it."""
    texts = [turn["text_id"] for turn in conversation["turns"]]
    return combined_id("reviewed", [*texts, *conversation["image_ids"]])


def held_reviews(store: Store) -> pl.DataFrame:
    """The verdicts on held conversations."""
    return reviews_of(store).filter(queue=QueueName.HELD.value)


def about_present(reviews: pl.DataFrame, conversations: Iterable[pl.DataFrame]) -> pl.DataFrame:
    """Verdicts on what the conversations are now: item_id, reason, and `dropped`, which one reviewer is enough for."""
    rows = (row for some in conversations for row in some.iter_rows(named=True))
    content = pl.DataFrame(
        [(row["conversation_id"], content_of(row)) for row in rows],
        schema={"conversation_id": pl.String, "content_id": pl.String},
        orient="row",
    )
    valid = reviews.join(content, on=["conversation_id", "content_id"])
    seen = valid.explode("reasons").select("verdict", item_id="conversation_id", reason="reasons")
    return seen.group_by("item_id", "reason").agg(dropped=(pl.col("verdict") == HeldVerdict.DROP.value).any())


def reviewed(hits: pl.DataFrame, verdicts: pl.DataFrame) -> pl.DataFrame:
    """Apply verdicts (`about_present`) to fired rules: a released hold becomes a tag, a dropped hold becomes a drop."""
    is_hold = pl.col("action") == Action.HOLD.value
    verdict = pl.when("dropped").then(pl.lit(Action.DROP.value)).otherwise(pl.lit(Action.TAG.value))
    action = pl.when(is_hold & pl.col("dropped").is_not_null()).then(verdict).otherwise("action")
    return hits.join(verdicts, on=["item_id", "reason"], how="left").with_columns(action=action).select(hits.columns)
