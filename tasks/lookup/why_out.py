"""Why a row that an earlier release had is not in a later one, from the store as it is now."""

from collections.abc import Callable
from functools import cache
from typing import Any

import polars as pl

from tasks.ingest.people import store_key
from tasks.tables import Store
from tasks.tombstones import Tombstones


def why_out(store: Store) -> Callable[[str, str], list[str]]:
    """A function (configuration, released id) -> reasons on record.

    It raises BadInput for a row that is not in the store when the store's key cannot be had: only with the key can a
    takedown be told.
    """
    decisions = store.read("decisions", ["item_kind", "item_id", "reasons"])
    by_kind = {kind: _Lookup(decisions.filter(item_kind=kind).drop("item_kind")) for kind in ("conversation", "battle")}
    battle_of = _Lookup(store.read("battles", ["conversation_a", "battle_id"]))

    @cache
    def tombstones() -> Tombstones | None:
        return Tombstones(store, store_key(store)) if store.parts("takedowns") else None

    def why(config: str, key: str) -> list[str]:
        of_vote = (by_kind["battle"].get(battle_of.get(key) or "") or []) if config == "battle" else []
        of_conversation = by_kind["conversation"].get(key)
        if of_conversation is None:
            known = tombstones()
            return ["taken down" if known and known.conversations([key]) else "not in the store"]
        reasons = [*of_vote, *(reason for reason in of_conversation if reason not in of_vote)]
        return reasons or [{"chat": "its prompt is in the benchmark", "bench": "not drawn"}.get(config, "kept")]

    return why


class _Lookup:
    """A dictionary from the first column of a frame to its second, in the frame's memory."""

    def __init__(self, frame: pl.DataFrame) -> None:
        self._keys, self._values = frame.sort(frame.columns[0])

    def get(self, key: str) -> Any:
        """The value of a key; None where there is none."""
        place = self._keys.search_sorted(key)
        found = place < len(self._keys) and self._keys[place] == key
        value = self._values[place] if found else None
        return value.to_list() if isinstance(value, pl.Series) else value
