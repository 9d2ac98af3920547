"""A report of the small store, as its release holds it."""

from pathlib import Path

import pytest

from flows.products import item_ids, left_out_items
from schemas.settings import Settings
from tasks.release.gather import Gathered
from tasks.storage.queries.conversation_features import COUNTED, Tallies
from tasks.storage.tables import Store
from tests.builders import VERSIONS


@pytest.fixture(scope="session")
def report(released_store: Store) -> Path:
    """The folder of its report."""
    return Path(released_store.root) / "releases" / "first" / "report"


@pytest.fixture(scope="session")
def tallies(released_store: Store) -> Tallies:
    """Its rows, counted."""
    settings, items = Settings(store=released_store.root), item_ids(released_store)
    gathered = Gathered(released_store, VERSIONS, settings.bench, items, left_out_items(released_store))
    found = Tallies()
    for config in COUNTED:
        for rows in gathered.rows(config):
            found.add(config, rows)
    return found
