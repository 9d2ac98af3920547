"""Releases from before a hash list named, or a server flagged, what is in them: withdrawn like those of a takedown."""

import hashlib
import json

import polars as pl

from tasks.tables import Store
from tasks.takedown.releases import releases_holding, withdraw_releases

_CHECKED = "ingest/known_withdrawn"


def withdraw_known(store: Store) -> list[str]:
    """Withdraw every release that shows a conversation that is quarantined by now; returns the versions.

    Releases are looked at only after the quarantine has changed.
    """
    state = hashlib.sha256(json.dumps(store.parts("quarantine")).encode()).hexdigest().encode()
    if store.read_bytes(_CHECKED) == state:
        return []
    held = store.read("quarantine").filter(kind="conversation")["key"]
    versions = releases_holding(store, lambda ids: _any_of(ids, held)) if len(held) else []
    withdraw_releases(store, versions)
    store.write_bytes(_CHECKED, state)
    return versions


def _any_of(ids: pl.Series, conv_ids: pl.Series) -> bool:
    """Whether one of the conversation ids is a conv_id, or one with the suffix that tells conversations apart."""
    stems = ids.str.replace(r"-[0-9a-f]{8}$", "")
    return bool((ids.is_in(conv_ids.implode()) | stems.is_in(conv_ids.implode())).any())
