"""Joins the tables of a store into the rows of the three configurations."""

from dataclasses import dataclass

import polars as pl

from schemas.release import SideMetadata
from schemas.settings import BenchSettings
from tasks.contamination.guard import Withheld, withheld
from tasks.lookup.conversation_features import conversation_features
from tasks.lookup.facts import Versions
from tasks.lookup.released import battles_as_released, conversations_as_released
from tasks.release.columns import battle_rows, bench_rows, chat_rows
from tasks.tables import Store

_SIDES = ("conversation_a", "conversation_b")


@dataclass(frozen=True)
class Gathered:
    """Rows of a release, without pictures, and what was withheld."""

    rows: dict[str, pl.DataFrame]
    """Configuration -> rows with `image_ids` in place of images; those of chat have token counts that do not leave."""
    withheld_for_bench: int
    """Kept conversations that are not in chat because of the benchmark: its prompts, prompts alike, hidden ones."""


def gather(store: Store, versions: Versions, bench: BenchSettings) -> Gathered:
    """All rows of the release that the store's decisions and the benchmark allow."""
    conversations = _conversations(store, versions)
    kept = conversations.filter("keep")
    out = withheld(store, kept, versions, bench)
    chat = kept.filter(~pl.col("conversation_id").is_in([*out.bench, *out.hidden]))
    drawn = store.read("bench", ["conversation_id"])["conversation_id"]
    public = kept.filter(pl.col("conversation_id").is_in(drawn.filter(~drawn.is_in(list(out.hidden))).implode()))
    battles = _battles(store, conversations, out)
    rows = {"chat": chat_rows(chat), "battle": battle_rows(battles), "bench": bench_rows(public)}
    return Gathered(rows, kept.height - chat.height)


def _conversations(store: Store, versions: Versions) -> pl.DataFrame:
    """Every conversation with its decision, features and topic."""
    decided = store.read("decisions", ["item_kind", "item_id", "keep", "preset_dataset"])
    decisions = decided.filter(item_kind="conversation").select("keep", "preset_dataset", conversation_id="item_id")
    topics = store.read("topics", ["document_id", "name"]).rename({"name": "topic"})
    conversations = conversations_as_released(store)
    return (
        conversations.join(decisions, on="conversation_id", maintain_order="left")
        .join(conversation_features(store, conversations, versions), on="conversation_id", maintain_order="left")
        .join(topics, on="document_id", how="left", maintain_order="left")
    )


def _battles(store: Store, conversations: pl.DataFrame, out: Withheld) -> pl.DataFrame:
    """Kept battles with both sides, those on hidden prompts left out; the prompt's columns are the left side's."""
    kept = store.read("decisions", ["item_kind", "item_id", "keep"]).filter("keep", item_kind="battle")
    battles = battles_as_released(store).join(kept.select(battle_id="item_id"), on="battle_id", maintain_order="left")
    battles = battles.filter(~pl.any_horizontal(pl.col(_SIDES).is_in(list(out.hidden))))
    style = list(SideMetadata.model_fields)
    for letter in ("a", "b"):
        side = conversations.select(
            pl.col("conversation_id").alias(f"conversation_{letter}"),
            pl.col("turns").alias(f"turns_{letter}_side"),
            *(pl.col(name).alias(f"{name}_{letter}") for name in style),
        )
        battles = battles.join(side, on=f"conversation_{letter}", maintain_order="left")
    own = [*conversations.columns]
    prompt = conversations.select(
        pl.col("conversation_id").alias("conversation_a"),
        *(pl.col(name) for name in own if name not in {"conversation_id", *battles.columns, *style}),
    )
    return battles.join(prompt, on="conversation_a", maintain_order="left").with_columns(
        in_bench=pl.col("conversation_a").is_in(list(out.bench))
    )
