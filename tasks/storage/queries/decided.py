"""Whether the decisions are about the conversations and battles that the store has now."""

import json

from tasks.storage.tables import Store

_MARK = "policies/decided_about.json"


def mark_decided(store: Store) -> None:
    """Record that the decisions are about the present conversations and battles."""
    store.write_bytes(_MARK, json.dumps(_parts(store)).encode())


def is_decided(store: Store) -> bool:
    """Whether no conversation or battle has come, changed or gone since `mark_decided`; true before the first."""
    mark = store.read_bytes(_MARK)
    return mark is None or json.loads(mark) == _parts(store)


def _parts(store: Store) -> dict[str, list[str]]:
    return {table: store.parts(table) for table in ("conversations", "battles")}
