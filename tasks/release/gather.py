"""Joins the tables of a store into the rows of the configurations, some conversations or battles at a time.

In: a store with decisions. Out: rows (`Gathered.rows`) with image ids in place of images; `release/shards.py` adds the
images and writes the columns that `schemas.release` declares, no others. A further column is one of the view
`conversation_facts`, one of `chat_rows` or its siblings, and a field in `schemas.release`.
"""

from collections.abc import Collection, Iterator

import polars as pl

from schemas.items.conversation import UNDATED_BEFORE, UNDATED_FROM
from schemas.policy import Linkage
from schemas.release import ReleasedCategories, SideMetadata
from schemas.settings import BenchSettings
from tasks.bench.contamination.guard import public_prompts, withheld_conversations
from tasks.release.dataset_card import unlinked
from tasks.runtime.times import IS_DATED
from tasks.storage.parquet import compact
from tasks.storage.queries.conversation_features import (
    CATEGORIES,
    CRITERIA,
    PROMPT_KINDS,
    TAXONOMY,
    english_name,
    released_without_texts,
)
from tasks.storage.queries.released import decided_policy, released_names, require_redactions, unsafe_documents
from tasks.storage.queries.signals import Versions, versions_in_use
from tasks.storage.tables import Store

PUBLISHED_WINNERS = {"model_a": "model_a", "model_b": "model_b", "tie": "tie", "tie_bothbad": "tie (bothbad)"}
"""Winner in our tables -> spelling of VisionArena-Battle."""
BLOCK_ROWS = 4_096
"""Conversations whose texts are in memory at a time, where the mean stored one has up to `MEAN_ROW_BYTES`."""
MEAN_ROW_BYTES = 4_096
"""Mean stored bytes of a conversation up to which a block has `BLOCK_ROWS` rows; of twice as long ones it has half."""
_CONVERSATIONS_A_BATTLE = 4
"""A block has so many times fewer battles than conversations: a battle has two, whose texts are held twice."""

_SECONDS = pl.when(IS_DATED).then(pl.col("tstamp").dt.timestamp("us").cast(pl.Float64) / 1e6)
_LANGUAGE = pl.col("language").map_elements(english_name, return_dtype=pl.String, skip_nulls=False)
_SIDES = ("conversation_a", "conversation_b")

_CONVERSATIONS = """
    -- a row is one kept conversation and all that is known of it, without its messages; earliest first, of equal times
    -- in the release by id
    SELECT facts.*, preset_dataset
    FROM conversation_facts AS facts
    JOIN (
        SELECT item_id AS conversation_id, preset_dataset FROM decisions WHERE item_kind = 'conversation' AND keep
    ) AS decided USING (conversation_id)
    ORDER BY {released_time}, conversation_id
"""
_NAMED_REDACTIONS = """
    -- a row is one conversation whose redacted form is released, and the policy that made it
    SELECT conversation_id, policy_hash FROM named_redactions
"""
_MESSAGES = """
    -- a row is one conversation of a block with its messages in released form; its time is joined, too, so that parts
    -- of other times are not read; in a release with coarse times, a block has rows of the whole day or month
    SELECT conversation_id, turns FROM released SEMI JOIN block USING (tstamp, conversation_id)
"""
_SIDE_IDS = """
    -- a row is one conversation that is a side of a kept battle, once for each of its battles, and the turn of the vote
    SELECT unnest([conversation_a, conversation_b]) AS conversation_id, unnest([turns_a, turns_b]) AS turns
    FROM battles
    SEMI JOIN (SELECT item_id AS battle_id FROM decisions WHERE item_kind = 'battle' AND keep) AS decided
        USING (battle_id)
"""
_BATTLES = """
    -- a row is one kept battle, and all that is known of the conversations of both sides (as structs), which must be
    -- decided on, too; earliest first. They are materialized, because both sides are looked up in them, and `released`
    -- is a frame of sides alone
    SELECT *
    FROM (
        WITH sides AS MATERIALIZED (
            SELECT facts.*, preset_dataset
            FROM conversation_facts AS facts
            JOIN (
                SELECT item_id AS conversation_id, preset_dataset FROM decisions WHERE item_kind = 'conversation'
            ) AS decided USING (conversation_id)
        )
        SELECT
            battle_id, conversation_a, conversation_b, battles.model_a, battles.model_b, winner, anonymous,
            turns_a, turns_b, battles.tstamp, judge, vote_reason_withheld, side_a, side_b
        FROM battles
        JOIN (
            SELECT item_id AS battle_id, vote_reason_withheld FROM decisions WHERE item_kind = 'battle' AND keep
        ) AS decided USING (battle_id)
        JOIN sides AS side_a ON conversation_a = side_a.conversation_id
        JOIN sides AS side_b ON conversation_b = side_b.conversation_id
    )
    ORDER BY {released_time}, battle_id
"""
_VOTE_REASONS = """
    -- a row is one battle of a block, and what its voter wrote
    SELECT battle_id, vote_reason FROM battles SEMI JOIN block USING (tstamp, battle_id)
"""


class Gathered:
    """All rows of a release: what the decisions keep. Prompts of the hidden split are in none of them.

    Prompts of the public split are in `bench`, not in `chat`, and marked in `battle`. Rows have `image_ids` in place of
    images; chat rows also have token counts and labels, which card and report count and shards leave out. Memory holds
    one block of conversations, the rows of `bench` and `failures`, and ids of what is withheld.
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
        """`items`: conversations that are items of written or generated benchmarks, `left_out` those not in `bench`.

        Raises BadInput when a redaction that a decision names is missing.
        """
        self.withheld_for_bench = 0
        """Number of kept conversations left out of chat because of the benchmark; set while chat rows are read."""
        self._store, self._versions = store, versions
        self._block_rows = max(1, int(block_rows / conversation_weight(store)))
        policy = decided_policy(store)
        self._linkage = policy.linkage if policy else Linkage()
        require_redactions(store)
        self._named_redactions = pl.concat(store.batches(_NAMED_REDACTIONS))
        """Given to the questions about blocks in place of the view, which would read all decisions for each block."""
        public = public_prompts(store, items)
        self._drawn = public.filter(~public.is_in(sorted(left_out)))
        self._withheld = withheld_conversations(store, versions, bench, public)
        self._bench_rows = list[pl.DataFrame]()
        self._failure_rows = list[pl.DataFrame]()
        """Conversations of both configurations, collected while chat rows are read."""
        self._failures = store.read("failures").filter("drawn").drop("document_id")

    def rows(self, config: str) -> Iterator[pl.DataFrame]:
        """The rows of a configuration in order, in one or more frames; those of chat must be read first."""
        rows_of = {"chat": self._chat, "battle": self._battle, "bench": self._bench, "failures": self._failed}
        return (unlinked(rows, config, self._linkage) for rows in rows_of[config]())

    def _chat(self) -> Iterator[pl.DataFrame]:
        """The rows of chat. Rows of `bench` and `failures` are collected here, so that texts are read once for all."""
        self.withheld_for_bench = 0
        self._bench_rows, self._failure_rows = [], []
        in_use = versions_in_use(self._versions)
        conversation_key = pl.col("conversation_id")
        for block in self._store.batches(self._ordered(_CONVERSATIONS), self._block_rows, versions=in_use):
            # A row is a kept conversation with its messages, and whether a split of the benchmark withholds it.
            conversations = released_names(self._store, self._with_messages(block)).with_columns(
                on_bench=conversation_key.is_in(self._withheld.bench.implode()),
                hidden=conversation_key.is_in(self._withheld.hidden.implode()),
            )
            chat = conversations.filter(~pl.col("on_bench"), ~pl.col("hidden"))
            self.withheld_for_bench += conversations.height - chat.height
            # compact, because a few rows would keep the texts of the whole block in memory
            not_hidden = conversations.filter(~pl.col("hidden"))
            drawn = not_hidden.filter(conversation_key.is_in(self._drawn.implode()))
            self._bench_rows.append(compact(bench_rows(drawn)))
            failures = not_hidden.join(self._failures, on="conversation_id", maintain_order="left")
            self._failure_rows.append(compact(failures))
            yield chat_rows(chat)

    def _bench(self) -> Iterator[pl.DataFrame]:
        """Prompts that were collected with chat; before chat was read there is no frame of them, which is an error."""
        yield pl.concat(self._bench_rows).sort("question_id")

    def _failed(self) -> Iterator[pl.DataFrame]:
        """Drawn failures; those that became unsafe since the draw, by decisions made after it, stay out."""
        failures = pl.concat(self._failure_rows)
        unsafe = unsafe_documents(self._store, failures["document_id"], self._versions)
        yield failure_rows(failures.filter(~pl.col("document_id").is_in(unsafe.implode())))

    def _battle(self) -> Iterator[pl.DataFrame]:
        in_use = versions_in_use(self._versions)
        battles_a_block = max(1, self._block_rows // _CONVERSATIONS_A_BATTLE)
        side_ids = pl.concat(self._store.batches(_SIDE_IDS))
        sides = released_without_texts(self._store, side_ids["conversation_id"], side_ids["turns"])
        for block in self._store.batches(self._ordered(_BATTLES), battles_a_block, versions=in_use, released=sides):
            yield battle_rows(released_names(self._store, self._with_sides(block)))

    def _ordered(self, query: str) -> str:
        """The question, answered in an order that tells no finer time than the rows have, also from block to block."""
        if self._linkage.times == "exact":
            return query.format(released_time="tstamp")
        coarse = f"date_trunc('{self._linkage.times}', tstamp)"
        hour = (f"TIMESTAMPTZ '{end.isoformat()}'" for end in (UNDATED_FROM, UNDATED_BEFORE))
        is_dated = "tstamp < {} OR tstamp >= {}".format(*hour)
        return query.format(released_time=f"if({is_dated}, {coarse}, NULL) NULLS FIRST")

    def _with_messages(self, block: pl.DataFrame) -> pl.DataFrame:
        """Conversations of a block, with their `turns`."""
        places = block.select("tstamp", "conversation_id").unique()
        batches = self._store.batches(_MESSAGES, block=places, named_redactions=self._named_redactions)
        messages = pl.concat(batches)
        return block.join(messages, on="conversation_id", maintain_order="left")

    def _with_sides(self, block: pl.DataFrame) -> pl.DataFrame:
        """Battles of a block with both sides, without those on hidden prompts; the prompt is that of the left side."""
        hidden = self._withheld.hidden.implode()
        # a row is a battle of which neither side is on a hidden prompt
        battles = block.filter(~pl.any_horizontal(pl.col(_SIDES).is_in(hidden)))
        reasons = pl.concat(self._store.batches(_VOTE_REASONS, block=battles.select("tstamp", "battle_id")))
        is_shown = pl.col("vote_reason_withheld").list.len() == 0  # null when nothing was written or decided
        # A row is a battle, with what its voter wrote where that may be released.
        battles = battles.join(reasons, on="battle_id", how="left", maintain_order="left").with_columns(
            vote_reason=pl.when(is_shown).then("vote_reason"),
            in_bench=pl.col("conversation_a").is_in(self._withheld.bench.implode()),
        )
        # A row is a conversation that is a side; one that is a side of several battles is there as often.
        sides = pl.concat(battles[f"side_{letter}"].struct.unnest() for letter in "ab")
        messages = self._with_messages(sides.select("tstamp", "conversation_id").unique()).select(
            "conversation_id", "turns"
        )
        # Each battle gets the messages of both sides up to the vote, and length, style and refusals of their answers.
        for letter in "ab":
            side = f"turns_{letter}_side"
            of_side = messages.rename({"conversation_id": f"conversation_{letter}", "turns": side})
            battles = battles.join(of_side, on=f"conversation_{letter}", maintain_order="left")
            battles = battles.with_columns(pl.col(side).list.head(2 * pl.col(f"turns_{letter}")))
            # a column is one feature of the answers of this side, under its name and letter
            style = [pl.col(f"side_{letter}").struct.field(name).alias(f"{name}_{letter}") for name in _OF_SIDE]
            battles = battles.with_columns(style)
        # All else that is known of the left side is about the prompt, which both sides share.
        # a name is a feature of the prompt: no feature of answers, and not in the battle already
        prompt_names = [name for name in sides.columns if name not in {*battles.columns, *_OF_SIDE}]
        prompt = [pl.col("side_a").struct.field(name) for name in prompt_names]
        return battles.with_columns(prompt)


_OF_SIDE = [*SideMetadata.model_fields, "refusal"]
"""Features of a side's answers; all others are about the prompt."""


def conversation_weight(store: Store) -> float:
    """Weight of a conversation: 1 if the mean stored one has up to `MEAN_ROW_BYTES`, 2 if twice as many, and so on."""
    sizes = store.part_sizes("conversations")
    rows = sum(rows_of_part for rows_of_part, _ in sizes)
    size_bytes = sum(bytes_of_part for _, bytes_of_part in sizes)
    return max(1.0, size_bytes / max(1, rows) / MEAN_ROW_BYTES)


def _messages(column: str) -> pl.Expr:
    return pl.col(column).list.eval(pl.struct(pl.element().struct.field("role", "content", "images")))


def _categories() -> pl.Expr:
    # released name -> our column
    columns = {name: name for name in (*CATEGORIES, *PROMPT_KINDS) if name in ReleasedCategories.model_fields}
    columns |= {"is_code": "code", "refusal": "refusal"}
    return pl.struct(pl.col(columns[name]).alias(name) for name in sorted(columns))


_PLACE = ("topic_id", "x", "y")


def chat_rows(kept: pl.DataFrame) -> pl.DataFrame:
    """Rows of `chat`, with `image_ids`, place on the map, and token counts and labels that are not released.

    `kept`: conversations with features, labels, topic and preset.
    """
    # columns that are released as they are
    unchanged = ("conversation_id", "image_ids", "model", "num_turns", "user_id", "preset_dataset", "topic")
    return kept.sort("tstamp", "conversation_id").select(
        *(*unchanged, "context_tokens", "assistant_tokens", *CRITERIA, *TAXONOMY, *_PLACE),
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
    battles = kept.with_columns(refusal=pl.col("refusal_a") | pl.col("refusal_b"), refused_by=_refused_by())
    return battles.sort("tstamp", "battle_id").select(
        *("image_ids", "model_a", "model_b", "vote_reason", "refused_by", "judge", "in_bench", *_PLACE),
        question_id="battle_id",
        winner=pl.col("winner").replace_strict(PUBLISHED_WINNERS, return_dtype=pl.String),
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


def _refused_by() -> pl.Expr:
    """Whose answers decline: model_a, model_b, both or neither; null if one side's were not measured."""
    by_a, by_b = pl.col("refusal_a"), pl.col("refusal_b")
    of_a = pl.when(by_b).then(pl.lit("both")).otherwise(pl.lit("model_a"))
    of_others = pl.when(by_b).then(pl.lit("model_b")).otherwise(pl.lit("neither"))
    return pl.when(by_a.is_not_null() & by_b.is_not_null()).then(pl.when(by_a).then(of_a).otherwise(of_others))


def _side(letter: str) -> pl.Expr:
    return pl.struct(pl.col(f"{name}_{letter}").cast(pl.Int64).alias(name) for name in SideMetadata.model_fields)


def bench_rows(drawn: pl.DataFrame) -> pl.DataFrame:
    """Rows of `bench`, with `image_ids` and place on the map: user messages without answers."""
    return drawn.sort("conversation_id").select(
        "image_ids", "topic", *_PLACE, question_id="conversation_id", turns=_asked(), categories=_categories()
    )


def failure_rows(drawn: pl.DataFrame) -> pl.DataFrame:
    """Rows of `failures`, with `image_ids`. `drawn`: conversations with features and columns of table `failures`."""
    columns = ("failure_type", "reviewed", "typed_by", "judges", "both_bad", "models")
    return drawn.sort("conversation_id").select(
        "image_ids", *columns, *_PLACE, question_id="conversation_id", turns=_asked(), categories=_categories()
    )


def _asked() -> pl.Expr:
    return _messages("turns").list.filter(pl.element().struct.field("role") == "user")
