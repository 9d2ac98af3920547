"""Conversations and battles of a store with what is stored about them.

In: a store and ids of conversations and battles. Out: `StoredItems`, which asks each table once for all of the ids,
when the first of its rows is needed. A further fact of an item is a query and a property here; what is said of it is in
`explain.py` and `policy/explained.py`.
"""

from collections.abc import Collection, Iterable
from functools import cached_property
from itertools import chain
from typing import Any

import polars as pl

from schemas.policy import Policy
from schemas.tables import SIGNALS, TABLES
from tasks.storage.content_id import text_id
from tasks.storage.queries.released import decided_policy
from tasks.storage.queries.signals import latest_values, table_name
from tasks.storage.tables import Store

StoredRow = dict[str, Any]
"""Values of a stored row, by column."""
_LEFT_OUT = ("content_id", "vector", "grey")
"""Columns of signals that no explanation of an item has: the id, vectors and thumbnails."""
_BATTLES = """
    -- a row is one battle that is wanted or that has a wanted side, without what its voter wrote
    SELECT * EXCLUDE (vote_reason)
    FROM battles
    WHERE battle_id IN (FROM wanted) OR conversation_a IN (FROM wanted) OR conversation_b IN (FROM wanted)
"""
_DECISIONS = """
    -- a row is the decision about one item; a conversation and a battle may have the same id. Columns with a dot are
    -- single fields of other columns
    SELECT COLUMNS('^[a-z_]+$') FROM decisions SEMI JOIN wanted USING (item_id)
"""
_CONVERSATIONS = """
    -- a row is one conversation, with what is no text of its messages and answers
    SELECT * EXCLUDE (turns, "turns.content", "turns.images", served, "served.thinking")
    FROM conversations SEMI JOIN wanted ON conversation_id = item_id
"""
_WHOLE_CONVERSATIONS = """
    -- a row is one conversation with its texts; its time is joined, too, so that parts of other times are not read
    SELECT COLUMNS('^[a-z_]+$') FROM conversations SEMI JOIN wanted USING (tstamp, conversation_id)
"""
_NEAR_PROMPTS = """
    -- a row is one conversation, and the earliest one with almost the same prompt
    SELECT * FROM near_prompts SEMI JOIN wanted ON conversation_a = item_id
"""
_KNOWN_MATCHES = """
    -- a row is one conversation and a known benchmark, with the picture that it shows and the question that it asks
    SELECT * FROM known_matches SEMI JOIN wanted ON conversation_id = item_id ORDER BY conversation_id, benchmark
"""
_PAIRS = """
    -- a row is one pair of images that are alike, one of which is wanted
    SELECT * FROM {table} WHERE image_a IN (FROM wanted) OR image_b IN (FROM wanted)
"""
_VECTORS = """
    -- a row is one version's vector of one prompt
    SELECT content_id, version, measured_at, vector
    FROM "signals/text_embedding" SEMI JOIN wanted ON content_id = item_id
"""


class StoredItems:
    """Conversations and battles with these ids, the sides of the battles, and the conversations that they repeat."""

    def __init__(self, store: Store, item_ids: Iterable[str]) -> None:
        self.store = store
        self._wanted_ids = {*item_ids}
        self._values = dict[str, dict[str, StoredRow]]()
        self._pairs = dict[str, pl.DataFrame]()

    @cached_property
    def policy(self) -> Policy:
        """The policy that made the decisions; one without rules when there are no decisions."""
        return decided_policy(self.store) or Policy(name="none", rules=[])

    @cached_property
    def _battles(self) -> list[StoredRow]:
        return self.store.ask(_BATTLES, wanted=_frame(self._wanted_ids)).to_dicts()

    def battle(self, item_id: str) -> StoredRow | None:
        """The battle that has this id, or else the one that has a side with it, without what its voter wrote."""
        of_id = (row for row in self._battles if row["battle_id"] == item_id)
        of_side = (row for row in self._battles if item_id in (row["conversation_a"], row["conversation_b"]))
        return next(chain(of_id, of_side), None)

    @cached_property
    def ids_with_sides(self) -> set[str]:
        """Ids of what is wanted, and of the sides of its battles."""
        return self._wanted_ids | {row[side] for row in self._battles for side in ("conversation_a", "conversation_b")}

    @cached_property
    def decisions(self) -> dict[tuple[str, str], StoredRow]:
        """Kind and id of an item -> its decision."""
        item_ids = self.ids_with_sides | {row["battle_id"] for row in self._battles}
        rows = self.store.ask(_DECISIONS, wanted=_frame(item_ids)).iter_rows(named=True)
        return {(row["item_kind"], row["item_id"]): row for row in rows}

    @cached_property
    def conversations(self) -> dict[str, StoredRow]:
        """Conversation id -> its row without texts; of `turns` it has the columns `turns.role` and `turns.text_id`."""
        repeated_ids = {row["duplicate_of"] for row in self.decisions.values()} - {None}
        item_ids = self.ids_with_sides | repeated_ids
        rows = self.store.ask(_CONVERSATIONS, wanted=_frame(item_ids)).iter_rows(named=True)
        return {row["conversation_id"]: row for row in rows}

    @cached_property
    def whole_conversations(self) -> pl.DataFrame:
        """The rows of the conversations with their texts."""
        schema = self.store.empty("conversations", ["tstamp", "conversation_id"]).schema
        times_and_ids = pl.DataFrame([*self.conversations.values()], schema=schema)
        return self.store.ask(_WHOLE_CONVERSATIONS, wanted=times_and_ids)

    @cached_property
    def near_prompts(self) -> dict[str, StoredRow]:
        """Conversation id -> the earliest conversation with almost the same prompt; not of the sides of battles."""
        rows = self.store.ask(_NEAR_PROMPTS, wanted=_frame(self._wanted_ids)).iter_rows(named=True)
        return {row["conversation_a"]: row for row in rows}

    @cached_property
    def known_matches(self) -> dict[str, list[StoredRow]]:
        """Conversation id -> what it holds of known benchmarks, a row each; not of the sides of battles."""
        matches = dict[str, list[StoredRow]]()
        for row in self.store.ask(_KNOWN_MATCHES, wanted=_frame(self._wanted_ids)).iter_rows(named=True):
            matches.setdefault(row["conversation_id"], []).append(row)
        return matches

    def values(self, signal: str) -> dict[str, StoredRow]:
        """Content id -> its value of a signal that was measured last, of all contents of the items."""
        if signal not in self._values:
            read_texts = {} if signal == "image_text" else self.values("image_text")  # they have signals of their own
            ids = self._content_ids | {text_id(row["text"]) for row in read_texts.values() if row["text"]}
            self._values[signal] = latest_values(self.store, signal, ids, value_columns(signal))
        return self._values[signal]

    def values_of(self, content_id: str, signals: Collection[str] = SIGNALS) -> StoredRow:
        """Signal -> its value of one content, for those of the signals that were measured."""
        of_signals = {signal: self.values(signal).get(content_id) for signal in signals}
        return {signal: value for signal, value in of_signals.items() if value is not None}

    def pairs(self, table: str) -> pl.DataFrame:
        """The pairs of alike images, in `near_images` or `semantic_images`, with an image of the conversations."""
        if table not in self._pairs:
            image_ids = {image_id for row in self.conversations.values() for image_id in row["image_ids"]}
            self._pairs[table] = pairs_with(self.store, table, image_ids)
        return self._pairs[table]

    @cached_property
    def vectors(self) -> pl.DataFrame:
        """Embeddings of the conversations' prompts, of every version: content_id, version, measured_at and vector."""
        prompt_ids = {row["prompt_id"] for row in self.conversations.values()}
        return self.store.ask(_VECTORS, wanted=_frame(prompt_ids))

    @cached_property
    def _content_ids(self) -> set[str]:
        """Ids of texts, prompts, documents and images."""
        ids = {row["vote_reason_id"] for row in self._battles}
        for row in self.conversations.values():
            texts = [*row["turns.text_id"], *(row["served.thinking_id"] or ())]
            ids |= {*texts, *row["image_ids"], row["prompt_id"], row["document_id"]}
        return ids - {None}


def value_columns(signal: str) -> list[str]:
    """The columns of a signal that an explanation of an item has."""
    return [name for name in TABLES[table_name(signal)].row.model_fields if name not in _LEFT_OUT]


def pairs_with(store: Store, table: str, image_ids: Iterable[str]) -> pl.DataFrame:
    """The pairs in `near_images` or `semantic_images` that have one of these images."""
    return store.ask(_PAIRS.format(table=table), wanted=_frame(image_ids))


def _frame(item_ids: Iterable[str]) -> pl.DataFrame:
    return pl.DataFrame({"item_id": pl.Series(sorted(item_ids), dtype=pl.String)})
