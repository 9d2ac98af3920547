"""Removal reasons: why a row of an earlier release is not in a later one, from the current store."""

from collections.abc import Callable, Iterator, Mapping, Sequence

import polars as pl

from tasks.storage.tables import Store
from tasks.storage.tombstones import Tombstones
from tasks.storage.user_ids import store_key

Reasons = Callable[[str, Sequence[str]], Mapping[str, list[str]]]
"""Function of a configuration and released ids that returns the reasons for each id."""
_OTHERWISE = {"chat": "its prompt is in the benchmark", "bench": "not drawn"}


def removal_reasons(store: Store) -> Reasons:
    """A function that looks the reasons up; every call reads the decisions once.

    It raises BadInput when a row is not in the store and the store's key is not available, because the key is needed
    to recognise what was taken down.
    """

    def reasons(config: str, ids: Sequence[str]) -> dict[str, list[str]]:
        battles = dict(_battles(store, ids)) if config == "battle" else {}
        decided = dict(_decided(store, [*ids, *battles.values()]))
        taken = _taken_down(store, [key for key in ids if ("conversation", key) not in decided])
        found = {}
        for key in ids:
            own = decided.get(("conversation", key))
            if own is None:
                found[key] = ["taken down" if key in taken else "not in the store"]
            else:
                of_vote = decided.get(("battle", battles.get(key, "")), [])
                found[key] = list(dict.fromkeys([*of_vote, *own])) or [_OTHERWISE.get(config, "kept")]
        return found

    return reasons


def _battles(store: Store, ids: Sequence[str]) -> Iterator[tuple[str, str]]:
    """(conversation_a, which is the id of a released battle, battle_id)."""
    for rows in store.read_slices("battles", ["conversation_a", "battle_id"]):
        yield from rows.filter(pl.col("conversation_a").is_in(ids)).iter_rows()


def _decided(store: Store, ids: Sequence[str]) -> Iterator[tuple[tuple[str, str], list[str]]]:
    for rows in store.read_slices("decisions", ["item_kind", "item_id", "reasons"]):
        for kind, key, reasons in rows.filter(pl.col("item_id").is_in(ids)).iter_rows():
            yield (kind, key), reasons


def _taken_down(store: Store, ids: list[str]) -> set[str]:
    return Tombstones(store, store_key(store)).conversations(ids) if ids and store.parts("takedowns") else set()
