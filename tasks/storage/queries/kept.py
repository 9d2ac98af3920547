"""Conversations that the decisions keep, which of them are unsafe, and whether the decisions are up to date."""

import json
from collections.abc import Iterator, Sequence
from datetime import date
from itertools import chain

import numpy as np
import numpy.typing as npt
import polars as pl

from tasks.storage.content_id import Distinct
from tasks.storage.parquet import compact
from tasks.storage.queries.released import conversations_as_released, released_slices
from tasks.storage.queries.signals import Versions, signal_values
from tasks.storage.tables import Store

_MARK = "policies/decided_about.json"
_UNSAFE = ["moderation", "image_moderation", "nsfw_image"]
"""Reasons of rules that policies for internal use tag and others drop."""


def kept_conversations(store: Store, by: str = "keep", columns: Sequence[str] | None = None) -> pl.DataFrame:
    """Conversations that the policy keeps, in released form, earliest first, with their preset dataset.

    `by` is the column of decisions that says so: `keep`, or `kept_by_screening` for those that its first pass keeps.
    With `columns`, among them conversation_id, only these; without texts it takes a tenth of the memory.
    """
    kept = _kept(store, by)
    return conversations_as_released(store, columns).join(kept, on="conversation_id", maintain_order="left")


def kept_slices(store: Store, columns: Sequence[str], by: str = "keep") -> Iterator[pl.DataFrame]:
    """The same some at a time, in the order of the store, with models as logged; `columns` has conversation_id."""
    kept = Distinct()
    for some in _each_kept(store, "conversation", by):
        kept.add(some["item_id"])
    for rows in released_slices(store, columns):
        yield rows.filter(kept.hold(pl.col("conversation_id")))


def kept_rows(store: Store, places: npt.NDArray[np.uint32], columns: Sequence[str]) -> Iterator[pl.DataFrame]:
    """The rows of `kept_slices` with these numbers, which are sorted, some at a time."""
    start = 0
    for rows in kept_slices(store, columns):
        yield rows[places[slice(*np.searchsorted(places, [start, start + rows.height]))] - np.uint32(start)]
        start += rows.height


def with_released_turns(store: Store, kept: pl.DataFrame) -> pl.DataFrame:
    """Kept conversations with their `turns` in released form, which are read some at a time."""
    columns, wanted = ["conversation_id", "turns"], kept["conversation_id"].implode()
    read = (rows.filter(pl.col("conversation_id").is_in(wanted)) for rows in released_slices(store, columns))
    turns = pl.concat([store.empty("conversations", columns), *map(compact, read)])
    return kept.join(turns, on="conversation_id", how="left", maintain_order="left")


def _kept(store: Store, by: str) -> pl.DataFrame:
    """preset_dataset and conversation_id of what is kept."""
    return kept_of(store, "conversation", by).rename({"item_id": "conversation_id"})


def kept_of(store: Store, kind: str, by: str = "keep") -> pl.DataFrame:
    """preset_dataset and item_id of what is kept, of one kind."""
    return pl.concat(_each_kept(store, kind, by))


def _each_kept(store: Store, kind: str, by: str) -> Iterator[pl.DataFrame]:
    """The same some at a time."""
    names = ["item_kind", "item_id", by, "preset_dataset"]
    read = chain([store.empty("decisions", names)], store.read_slices("decisions", names))
    return (rows.filter(by, item_kind=kind).select("preset_dataset", "item_id") for rows in read)


def shown_presets(store: Store) -> pl.DataFrame:
    """conversation_id and preset_dataset of kept conversations that show one."""
    presets = (rows.drop_nulls("preset_dataset") for rows in _each_kept(store, "conversation", "keep"))
    return pl.concat(presets).rename({"item_id": "conversation_id"})


def logged_on(rows: pl.DataFrame, since: date | None, until: date | None) -> pl.DataFrame:
    """Rows whose `day` lies from `since` to `until`, both included; all rows without a window."""
    return (
        rows
        if (since, until) == (None, None)
        else rows.filter(pl.col("day").is_between(since or date.min, until or date.max))
    )


def unsafe_documents(store: Store, conversations: pl.DataFrame, versions: Versions) -> pl.Series:
    """document_ids of the conversations that are unsafe.

    Moderation flags a message or did not measure one, or a rule about safety fired and only tagged the conversation.
    """
    said = conversations.select("document_id", "turns").explode("turns")
    said = said.select("document_id", content_id=pl.col("turns").struct.field("text_id"))
    flagged = signal_values(store, "moderation", versions["moderation"], ["flagged_categories"], said["content_id"])
    harmful = pl.col("flagged_categories").is_null() | (pl.col("flagged_categories").list.len() > 0)
    by_signal = said.join(flagged, on="content_id", how="left").filter(harmful)["document_id"]
    tagged = store.read("decisions", ["item_kind", "item_id", "tags"]).filter(item_kind="conversation")
    tagged = tagged.filter(pl.col("tags").list.eval(pl.element().is_in(_UNSAFE)).list.any())
    by_rule = conversations.join(tagged, left_on="conversation_id", right_on="item_id", how="semi")["document_id"]
    return pl.concat([by_signal, by_rule]).unique()


def mark_decided(store: Store) -> None:
    """Record that the decisions are about the present conversations and battles."""
    store.write_bytes(_MARK, json.dumps(_parts(store)).encode())


def is_decided(store: Store) -> bool:
    """Whether no conversation or battle has come, changed or gone since `mark_decided`; true before the first."""
    mark = store.read_bytes(_MARK)
    return mark is None or json.loads(mark) == _parts(store)


def _parts(store: Store) -> dict[str, list[str]]:
    return {table: store.parts(table) for table in ("conversations", "battles")}
