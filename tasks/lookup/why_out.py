"""Why a row that an earlier release had is not in a later one, from the store as it is now."""

from collections.abc import Callable
from functools import cache

from tasks.ingest.people import store_key
from tasks.tables import Store
from tasks.tombstones import Tombstones


def why_out(store: Store) -> Callable[[str, str], list[str]]:
    """A function (configuration, released id) -> reasons on record.

    It raises BadInput for a row that is not in the store when the store's key cannot be had: only with the key can a
    takedown be told.
    """
    decisions = store.read("decisions", ["item_kind", "item_id", "keep", "reasons"])
    by_kind = {
        kind: {row["item_id"]: row["reasons"] for row in decisions.filter(item_kind=kind).iter_rows(named=True)}
        for kind in ("conversation", "battle")
    }
    battle_of = dict(store.read("battles", ["conversation_a", "battle_id"]).iter_rows())

    @cache
    def tombstones() -> Tombstones | None:
        return Tombstones(store, store_key(store)) if store.parts("takedowns") else None

    def why(config: str, key: str) -> list[str]:
        of_vote = by_kind["battle"].get(battle_of.get(key, ""), []) if config == "battle" else []
        of_conversation = by_kind["conversation"].get(key)
        if of_conversation is None:
            known = tombstones()
            return ["taken down" if known and known.conversations([key]) else "not in the store"]
        reasons = [*of_vote, *(reason for reason in of_conversation if reason not in of_vote)]
        return reasons or [{"chat": "its prompt is in the benchmark", "bench": "not drawn"}.get(config, "kept")]

    return why
