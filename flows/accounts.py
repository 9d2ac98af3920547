"""Why an item of a store is in or out, as `curate explain` and `arena_curation.explain` give it."""

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from flows.commands.tables import note
from schemas.errors import BadInput
from schemas.tables import SIGNALS
from tasks.policy.explained import explained
from tasks.shown import BATTLE, CONVERSATION, item_key
from tasks.storage.queries.explain import explain_item
from tasks.storage.queries.stored_items import StoredItems
from tasks.storage.readable import ReadableStore
from tasks.storage.tables import Store
from tasks.takedown.scope import known_as, taken_down


class ItemAccount(NamedTuple):
    """Why an item is in or out."""

    sentences: list[str]
    """One to five lines for people, without control characters."""
    facts: dict[str, Any]
    """Log line, decision with all its reasons, and signals by image and message; the first key is the kind of item."""


def item_account(root: str, item: str, with_sentences: bool = True, with_signals: bool = True) -> ItemAccount:
    """The account of a conversation, battle, image, user or log line, by any of its names.

    Parts of tables that cannot be read are left out, and named on stderr. `with_signals`: with every signal, not only
    those that sentences need. Raises BadInput where the store does not have the item.
    """
    of_store = ReadableStore.existing(root, any_layout=True)
    try:
        return of_store.again(lambda: _account(of_store, item, with_sentences, with_signals))
    finally:
        for problem in of_store.problems:
            note(problem)


def _account(store: Store, item: str, with_sentences: bool, with_signals: bool) -> ItemAccount:
    for name in _names(store, item):
        if facts := explain_item(store, name, SIGNALS if with_signals else ()):
            return ItemAccount(explained(StoredItems(store, [name]), facts) if with_sentences else [], facts)
    absent = f"is not in store {store.root!r}"
    gone = "was taken down from this store" if taken_down(store, known_as(store, item)) else absent
    raise BadInput(f"{item!r} {gone}; give an ID that `curate takedown` takes, or LOGFILE:LINE")


def _names(store: Store, item: str) -> Iterator[str]:
    """Names by which the store may have the item, as it was given first."""
    yield item
    if (listed := _named_in_the_explorer(store, item)) != item:
        yield listed
    yield from (name for name in known_as(store, item) if name != item)


def _named_in_the_explorer(store: Store, address: str) -> str:
    """The conversation or battle whose page in the explorer ends in these 16 hex digits; the text itself if none."""
    if re.fullmatch("[0-9a-f]{16}", address):
        queries = {
            CONVERSATION: "SELECT conversation_id AS item_id FROM conversations",
            BATTLE: "SELECT battle_id AS item_id FROM battles",
        }
        for kind, query in queries.items():
            for item_ids in store.batches(query):
                for item_id in item_ids["item_id"]:
                    if item_key(kind, item_id) == address:
                        return str(item_id)
    return address
