"""Joins the tables of a store into the rows of the configurations, one block of conversations at a time.

Only the columns of `schemas.release` are released. Rows have image ids; the images are added when shards are written.
"""

from collections.abc import Collection, Iterator

import polars as pl

from schemas.items.conversation import UNDATED_BEFORE
from schemas.policy import Linkage
from schemas.release import ReleasedCategories, SideMetadata
from schemas.settings import BenchSettings
from tasks.bench.contamination.guard import Guard, public_prompts
from tasks.release.dataset_card import unlinked
from tasks.storage.blocks import BLOCK_ROWS, battle_blocks, conversation_blocks
from tasks.storage.parquet import compact
from tasks.storage.queries.conversation_features import (
    CATEGORIES,
    CRITERIA,
    TAXONOMY,
    conversation_features,
    english_name,
    with_labels,
)
from tasks.storage.queries.released import (
    battles_as_released,
    conversations_as_released,
    decided_policy,
    kept_conversations,
    unsafe_documents,
)
from tasks.storage.queries.signals import Versions
from tasks.storage.tables import Store

WINNERS = {"model_a": "model_a", "model_b": "model_b", "tie": "tie", "tie_bothbad": "tie (bothbad)"}
"""Winner in our tables -> spelling of VisionArena-Battle."""

_SECONDS = pl.when(pl.col("tstamp") >= UNDATED_BEFORE).then(pl.col("tstamp").dt.timestamp("us").cast(pl.Float64) / 1e6)
_LANGUAGE = pl.col("language").map_elements(english_name, return_dtype=pl.String, skip_nulls=False)
_SIDES = ("conversation_a", "conversation_b")
_OF_BATTLES = 4
"""A block has this many times fewer battles than conversations, because a battle is joined with two conversations."""


class Gathered:
    """All rows of a release: kept by the decisions and not withheld for the benchmark.

    `_placed` says where a kept conversation goes; the rest joins its row. Rows have `image_ids` in place of images;
    chat rows also have token counts and labels, which are not released. Memory holds one block of conversations, the
    benchmark, and the conversations similar to it.
    """

    def __init__(
        self,
        store: Store,
        versions: Versions,
        bench: BenchSettings,
        items: pl.Series,
        left_out: Collection[str] = (),
        block_rows: int = BLOCK_ROWS,
    ) -> None:
        """`items`: conversations that are items of written or generated benchmarks, `left_out` those not released."""
        self.withheld_for_bench = 0
        """Number of kept conversations left out of chat because of the benchmark; set while chat rows are read."""
        self._store, self._versions, self._block_rows = store, versions, block_rows
        self._linkage = policy.linkage if (policy := decided_policy(store)) else Linkage()
        public = public_prompts(store, items)
        self._drawn = public.filter(~public.is_in(sorted(left_out)))
        self._conversations = conversation_blocks(store, block_rows)
        self._guard = Guard(store, versions, bench, items)
        for block in self._conversations:
            self._guard.learn(block, _kept(block))
        self._conversations.divide(
            ["signals/text_embedding"], "content_id", lambda block: self._guard.compared(block, _kept(block))
        )
        for block in self._conversations:
            self._guard.compare(block, _kept(block))

    def rows(self, config: str) -> Iterator[pl.DataFrame]:
        """The rows of a configuration in order, in one or more frames."""
        made = {"chat": self._chat, "battle": self._battle, "bench": self._bench, "failures": self._failures}
        return (unlinked(rows, config, self._linkage) for rows in made[config]())

    def _placed(self, block: Store) -> pl.DataFrame:
        """The kept conversations of a block, in released form, with where they go.

        `drawn`: its prompt is in `bench`. `on_bench`: on a prompt of `bench` or one alike, so not in `chat`, and marked
        in `battle`. `hidden`: on a prompt of the hidden split, so nowhere.
        """
        kept, name = _kept(block), pl.col("conversation_id")
        out = self._guard.withheld(block, kept)
        return kept.with_columns(
            drawn=name.is_in(self._drawn.implode()),
            on_bench=name.is_in(list(out.bench)),
            hidden=name.is_in(list(out.hidden)),
        )

    def _chat(self) -> Iterator[pl.DataFrame]:
        self.withheld_for_bench = 0
        for block in self._conversations:
            placed = self._placed(block)
            chat = placed.filter(~pl.col("on_bench"), ~pl.col("hidden"))
            self.withheld_for_bench += placed.height - chat.height
            labelled = with_labels(block, chat, self._versions)
            yield chat_rows(_joined(block, labelled, self._versions))

    def _bench(self) -> Iterator[pl.DataFrame]:
        found: list[pl.DataFrame] = []
        for block in self._conversations:
            public = self._placed(block).filter("drawn", ~pl.col("hidden"))
            if public.height or not found:
                found.append(compact(bench_rows(_joined(block, public, self._versions))))
        yield pl.concat(found).sort("question_id")

    def _failures(self) -> Iterator[pl.DataFrame]:
        """Drawn failures; those that became unsafe since the draw, by decisions made after it, stay out."""
        drawn = self._store.read("failures").filter("drawn")
        documents, unsafe = drawn["document_id"].implode(), set[str]()
        drawn = drawn.drop("document_id")
        found: list[pl.DataFrame] = []
        for block in self._conversations:
            shown = self._placed(block).filter(pl.col("document_id").is_in(documents))
            unsafe |= set(unsafe_documents(block, shown, self._versions))
            shown = shown.filter(pl.col("conversation_id").is_in(drawn["conversation_id"].implode()), ~pl.col("hidden"))
            if shown.height or not found:
                rows = _joined(block, shown.drop("drawn"), self._versions)
                found.append(compact(rows.join(drawn, on="conversation_id", maintain_order="left")))
        safe = pl.concat(found).filter(~pl.col("document_id").is_in(list(unsafe)))
        yield failure_rows(safe)

    def _battle(self) -> Iterator[pl.DataFrame]:
        for block in battle_blocks(self._store, max(1, self._block_rows // _OF_BATTLES)):
            places = self._placed(block).select("conversation_id", "on_bench", "hidden")
            labelled = with_labels(block, conversations_as_released(block), self._versions)
            sides = _joined(block, labelled, self._versions)
            yield battle_rows(_battles(block, sides, places))


def _kept(block: Store) -> pl.DataFrame:
    return kept_conversations(block).drop("preset_dataset")


def _joined(block: Store, conversations: pl.DataFrame, versions: Versions) -> pl.DataFrame:
    decided = block.read("decisions", ["item_kind", "item_id", "keep", "preset_dataset"])
    decisions = decided.filter(item_kind="conversation").select("keep", "preset_dataset", conversation_id="item_id")
    topics = block.read("topics", ["document_id", "topic", "name", "x", "y"])
    topics = topics.rename({"topic": "topic_id", "name": "topic"})
    return (
        conversations.join(decisions, on="conversation_id", maintain_order="left")
        .join(conversation_features(block, conversations, versions), on="conversation_id", maintain_order="left")
        .join(topics, on="document_id", how="left", maintain_order="left")
    )


def _battles(block: Store, conversations: pl.DataFrame, places: pl.DataFrame) -> pl.DataFrame:
    """Kept battles joined with both sides, without those on hidden prompts. Prompt columns come from the left side.

    `places`: conversation_id, on_bench and hidden of the kept conversations.
    """
    decided = block.read("decisions", ["item_kind", "item_id", "keep", "vote_reason_withheld"])
    kept = decided.filter("keep", item_kind="battle").select("vote_reason_withheld", battle_id="item_id")
    battles = battles_as_released(block).join(kept, on="battle_id", maintain_order="left")
    shown = pl.col("vote_reason_withheld").list.len() == 0  # null when nothing was written or decided
    battles = battles.with_columns(vote_reason=pl.when(shown).then("vote_reason"))
    hidden = places.filter("hidden")["conversation_id"].implode()
    battles = battles.filter(~pl.any_horizontal(pl.col(_SIDES).is_in(hidden)))
    style = list(SideMetadata.model_fields)
    for letter in ("a", "b"):
        side = conversations.select(
            pl.col("conversation_id").alias(f"conversation_{letter}"),
            pl.col("turns").alias(f"turns_{letter}_side"),
            *(pl.col(name).alias(f"{name}_{letter}") for name in style),
        )
        battles = battles.join(side, on=f"conversation_{letter}", maintain_order="left")
    own = [name for name in conversations.columns if name not in {*battles.columns, *style}]
    prompt = conversations.select(own).rename({"conversation_id": "conversation_a"})
    return battles.join(prompt, on="conversation_a", maintain_order="left").with_columns(
        in_bench=pl.col("conversation_a").is_in(places.filter("on_bench")["conversation_id"].implode())
    )


def _messages(column: str) -> pl.Expr:
    return pl.col(column).list.eval(pl.struct(pl.element().struct.field("role", "content", "images")))


def _categories() -> pl.Expr:
    columns = {name: name for name in CATEGORIES if name in ReleasedCategories.model_fields}
    columns |= {"is_code": "code", "refusal": "refusal"}
    return pl.struct(pl.col(columns[name]).alias(name) for name in sorted(columns))


_PLACE = ("topic_id", "x", "y")


def chat_rows(kept: pl.DataFrame) -> pl.DataFrame:
    """Rows of `chat`, with `image_ids`, place on the map, and token counts and labels that are not released.

    `kept`: conversations with features, labels, topic and preset.
    """
    same = ("conversation_id", "image_ids", "model", "num_turns", "user_id", "preset_dataset", "topic")
    return kept.sort("tstamp", "conversation_id").select(
        *(*same, "context_tokens", "assistant_tokens", *CRITERIA, *TAXONOMY, *_PLACE),
        conversation=_messages("turns"),
        language=_LANGUAGE,
        tstamp=_SECONDS,
        is_preset=pl.col("preset_dataset").is_not_null(),
        categories=_categories(),
    )


def battle_rows(kept: pl.DataFrame) -> pl.DataFrame:
    """Rows of `battle`, with `image_ids`, topic and place on the map.

    `kept`: battles with both conversations' columns, suffixed _a and _b.
    """
    return kept.sort("tstamp", "battle_id").select(
        *("image_ids", "model_a", "model_b", "vote_reason", "judge", "in_bench", *_PLACE),
        question_id="battle_id",
        winner=pl.col("winner").replace_strict(WINNERS, return_dtype=pl.String),
        conversation_a=_messages("turns_a_side"),
        conversation_b=_messages("turns_b_side"),
        num_turns="turns_a",
        anony="anonymous",
        language=_LANGUAGE,
        tstamp=_SECONDS,
        conv_metadata=pl.struct(pl.col("context_tokens").cast(pl.Int64), a=_side("a"), b=_side("b")),
        categories=_categories(),
        taxonomy=pl.struct(TAXONOMY),
        is_preset=pl.col("preset_dataset").is_not_null(),
    )


def _side(letter: str) -> pl.Expr:
    return pl.struct(pl.col(f"{name}_{letter}").cast(pl.Int64).alias(name) for name in SideMetadata.model_fields)


def bench_rows(drawn: pl.DataFrame) -> pl.DataFrame:
    """Rows of `bench`, with `image_ids` and place on the map: user messages without answers."""
    return drawn.sort("conversation_id").select(
        "image_ids", "topic", *_PLACE, question_id="conversation_id", turns=_asked(), categories=_categories()
    )


def failure_rows(drawn: pl.DataFrame) -> pl.DataFrame:
    """Rows of `failures`, with `image_ids`. `drawn`: conversations with features and columns of table `failures`."""
    found = ("failure_type", "reviewed", "typed_by", "judges", "both_bad", "models")
    return drawn.sort("conversation_id").select(
        "image_ids", *found, *_PLACE, question_id="conversation_id", turns=_asked(), categories=_categories()
    )


def _asked() -> pl.Expr:
    return _messages("turns").list.filter(pl.element().struct.field("role") == "user")
