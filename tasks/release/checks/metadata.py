"""Lengths and Markdown of answers, counted again from the texts of released rows.

Named entities are not counted again: that would take longer than the rest of `curate verify`.
"""

from collections.abc import Iterator

import polars as pl

from schemas.signals import Markdown
from schemas.tags import Criteria, Taxonomy
from tasks.providers.embedded.texts import Cl100k
from tasks.signals.rules.texts import markdown

_ROLES = {"context_tokens": "user", "assistant_tokens": "assistant"}
_IMAGE_ID = pl.element().struct.field("path").str.head(32)


def without_images(rows: pl.DataFrame) -> pl.DataFrame:
    """Rows of a shard with the ids of their images in place of them."""
    return rows.with_columns(image_ids=pl.col("images").list.eval(_IMAGE_ID)).drop("images")


def as_gathered(config: str, rows: pl.DataFrame) -> pl.DataFrame:
    """Rows without images as they were gathered: those of `chat` with tokens, and with null for unreleased labels."""
    if config != "chat":
        return rows
    tokens = {name: _tokens(rows["conversation"], role) for name, role in _ROLES.items()}
    labels = dict.fromkeys(Criteria.model_fields, pl.lit(None, pl.Boolean))
    return rows.with_columns(**tokens, **labels, **dict.fromkeys(Taxonomy.model_fields, pl.lit(None, pl.String)))


def wrong_metadata(rows: pl.DataFrame) -> Iterator[str]:
    """Problems of rows of `battle` whose `conv_metadata` is not what their messages give; null is never wrong."""
    metadata = rows["conv_metadata"].struct
    right = [("context_tokens", metadata.field("context_tokens"), _tokens(rows["conversation_a"], "user"))]
    for side in ("a", "b"):
        of_side, messages = metadata.field(side).struct, rows[f"conversation_{side}"]
        counts = {"assistant_tokens": _tokens(messages, "assistant"), **_marks(messages)}
        right += [(f"{side}.{name}", of_side.field(name), count) for name, count in counts.items()]
    for name, value, count in right:
        for key in rows["question_id"].filter((value != count).fill_null(False)):
            yield f"row {key!r}: conv_metadata.{name} is not what its messages give"


def _tokens(conversations: pl.Series, role: str) -> pl.Series:
    """Tokens (cl100k_base) of the messages by `role`, one sum for each conversation."""
    messages = _messages(conversations, role)
    counts = pl.Series("tokens", Cl100k().count_tokens(messages["content"].to_list()), pl.Int64)
    return _summed(messages.with_columns(counts), len(conversations))["tokens"]


def _marks(conversations: pl.Series) -> dict[str, pl.Series]:
    """Markdown of the answers, one sum for each conversation, as `conversation_features` adds it up."""
    messages = _messages(conversations, "assistant")
    marks_of_messages = pl.DataFrame(
        [markdown(text).model_dump() for text in messages["content"]],
        {**dict.fromkeys(Markdown.model_fields, pl.Int64)},
    )
    marks = _summed(messages.hstack(marks_of_messages), len(conversations)).select(
        headers=pl.sum_horizontal(f"h{level}" for level in range(1, 7)),
        list_items=pl.col("ordered") + pl.col("unordered"),
        bold=pl.col("bold_stars") + pl.col("bold_underscores"),
    )
    return {name: marks[name] for name in marks.columns}


def _messages(conversations: pl.Series, role: str) -> pl.DataFrame:
    """`row` (its place, from 0) and `content` of each message by `role`."""
    # A row is one message with the number of its conversation, by which sums go back to it.
    exploded = pl.DataFrame({"turns": conversations}).with_row_index("row").explode("turns").drop_nulls("turns")
    return exploded.select("row", pl.col("turns").struct.unnest()).filter(role=role).select("row", "content")


def _summed(messages: pl.DataFrame, rows: int) -> pl.DataFrame:
    """The sums of all counts of the messages, one row for each of `rows` conversations; 0 without messages."""
    sums = messages.drop("content").group_by("row").sum()
    every = pl.DataFrame({"row": pl.arange(rows, dtype=pl.UInt32, eager=True)})
    return every.join(sums, on="row", how="left", maintain_order="left").fill_null(0)
