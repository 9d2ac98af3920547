"""Why a row that an earlier release had is not in a later one, from the store as it is now."""

from collections.abc import Callable
from functools import cache, cached_property

import numpy as np
import numpy.typing as npt
import polars as pl

from tasks.ingest.people import store_key
from tasks.store.tombstones import Tombstones
from tasks.tables import Store

_Hashes = npt.NDArray[np.uint64]
_Numbers = npt.NDArray[np.unsignedinteger]


def why_out(store: Store) -> Callable[[str, str], list[str]]:
    """A function (configuration, released id) -> reasons on record. Memory grows by 12 bytes a decision, 16 a vote.

    It raises BadInput for a row that is not in the store when the store's key cannot be had: only with the key can a
    takedown be told.
    """
    by_kind, reasons_of = _decided(store)
    battle_of = _Lookup()
    for rows in store.read_slices("battles", ["conversation_a", "battle_id"]):
        battle_of.add(rows["conversation_a"], _hashes(rows["battle_id"]))

    @cache
    def tombstones() -> Tombstones | None:
        return Tombstones(store, store_key(store)) if store.parts("takedowns") else None

    def why(config: str, key: str) -> list[str]:
        own = int(_hashes(pl.Series([key]))[0])
        vote = battle_of.get(own) if config == "battle" else None
        of_vote = reasons_of(None if vote is None else by_kind["battle"].get(vote))
        decided = by_kind["conversation"].get(own)
        if decided is None:
            known = tombstones()
            return ["taken down" if known and known.conversations([key]) else "not in the store"]
        reasons = [*of_vote, *(reason for reason in reasons_of(decided) if reason not in of_vote)]
        return reasons or [{"chat": "its prompt is in the benchmark", "bench": "not drawn"}.get(config, "kept")]

    return why


class _Lookup:
    """A dictionary from 64-bit hashes of ids to numbers, in the memory of both. Of equal ids the first counts."""

    def __init__(self) -> None:
        self._parts: list[tuple[_Hashes, _Numbers]] = [(np.zeros(0, np.uint64), np.zeros(0, np.uint32))]

    def add(self, ids: pl.Series, values: _Numbers) -> None:
        """Add ids, each with its number."""
        self._parts.append((_hashes(ids), values))

    @cached_property
    def _sorted(self) -> tuple[_Hashes, _Numbers]:
        keys, values = (np.concatenate(each) for each in zip(*self._parts, strict=True))
        self._parts = []
        order = np.argsort(keys, kind="stable")
        return keys[order], values[order]

    def get(self, hashed: int) -> int | None:
        """The number of the id with this hash; None where there is none."""
        keys, values = self._sorted
        place = int(np.searchsorted(keys, np.uint64(hashed)))
        return int(values[place]) if place < len(keys) and int(keys[place]) == hashed else None


def _hashes(ids: pl.Series) -> _Hashes:
    return ids.hash(seed=0).to_numpy()


def _decided(store: Store) -> tuple[dict[str, _Lookup], Callable[[int | None], list[str]]]:
    """By kind of item, from its id to a number, and the reasons that a number stands for; none for None."""
    known: dict[tuple[str, ...], int] = {}
    by_kind = {"conversation": _Lookup(), "battle": _Lookup()}
    for rows in store.read_slices("decisions", ["item_kind", "item_id", "reasons"]):
        numbers = [known.setdefault(tuple(reasons), len(known)) for reasons in rows["reasons"].to_list()]
        numbered = rows.with_columns(number=pl.Series(numbers, dtype=pl.UInt32))
        for kind, lookup in by_kind.items():
            some = numbered.filter(item_kind=kind)
            lookup.add(some["item_id"], some["number"].to_numpy())
    by_number = [list(reasons) for reasons in known]
    return by_kind, lambda number: [] if number is None else by_number[number]
