"""What the descriptive signals say about whole conversations: one row each, for leaderboards, releases and reports."""

import polars as pl

from schemas.signals import Markdown
from schemas.tags import Categories
from tasks.lookup.facts import Versions, facts
from tasks.tables import Store

CATEGORIES = tuple(Categories.model_fields)
MARKDOWN = tuple(Markdown.model_fields)


def conversation_features(store: Store, conversations: pl.DataFrame, versions: Versions) -> pl.DataFrame:
    """One row for each row of `conversations`, in its order; null where something was not measured.

    Columns: conversation_id, language, the seven categories, code, refusal, multi_turn, context_tokens and
    assistant_tokens, the ten markdown counts of the assistant's messages, their entities, and headers, list_items
    and bold.
    """
    base = conversations.select("conversation_id", "prompt_id", "document_id", multi_turn=pl.col("num_turns") > 1)
    language = facts(store, "language", versions["language"], ["language"])
    categories = facts(store, "categories", versions["categories"], list(CATEGORIES))
    joined = base.join(language, left_on="prompt_id", right_on="content_id", how="left", maintain_order="left").join(
        categories, left_on="document_id", right_on="content_id", how="left", maintain_order="left"
    )
    for part in (_over_messages(store, conversations, versions), _over_answers(store, conversations, versions)):
        joined = joined.join(part, on="conversation_id", how="left", maintain_order="left")
    return joined.drop("prompt_id", "document_id").with_columns(
        headers=pl.sum_horizontal((f"h{level}" for level in range(1, 7)), ignore_nulls=False),
        list_items=pl.col("ordered") + pl.col("unordered"),
        bold=pl.col("bold_stars") + pl.col("bold_underscores"),
    )


def _turns(conversations: pl.DataFrame) -> pl.DataFrame:
    turn = pl.col("turns").struct
    exploded = conversations.select("conversation_id", "turns").explode("turns")
    return exploded.select("conversation_id", role=turn.field("role"), content_id=turn.field("text_id"))


def _over_messages(store: Store, conversations: pl.DataFrame, versions: Versions) -> pl.DataFrame:
    """Tokens of both roles, and whether any message holds code."""
    code = facts(store, "code", versions["code"], ["is_code"])
    tokens = facts(store, "tokens", versions["tokens"], ["tokens"])
    turns = _turns(conversations).join(code, on="content_id", how="left").join(tokens, on="content_id", how="left")
    counted = pl.col("tokens").cast(pl.Int64)
    return turns.group_by("conversation_id").agg(
        code=pl.col("is_code").any(ignore_nulls=False),
        context_tokens=_sum(counted.filter(pl.col("role") == "user")),
        assistant_tokens=_sum(counted.filter(pl.col("role") == "assistant")),
    )


def _over_answers(store: Store, conversations: pl.DataFrame, versions: Versions) -> pl.DataFrame:
    """Refusal in any answer; markdown and named entities summed over answers."""
    refusal = facts(store, "refusal", versions["refusal"], ["refusal"])
    markdown = facts(store, "markdown", versions["markdown"], list(MARKDOWN))
    named = facts(store, "named_entities", versions["named_entities"], ["entities"])
    answers = _turns(conversations).filter(pl.col("role") == "assistant")
    for measured in (refusal, markdown, named):
        answers = answers.join(measured, on="content_id", how="left")
    counts = [_sum(pl.col(name).cast(pl.Int64)) for name in (*MARKDOWN, "entities")]
    return answers.group_by("conversation_id").agg(pl.col("refusal").any(ignore_nulls=False), *counts)


def _sum(counts: pl.Expr) -> pl.Expr:
    """The sum, or null where a part was not measured: too short a length is worse than none."""
    return pl.when(counts.is_not_null().all()).then(counts.sum())
