"""A report of the small store, as its release holds it."""

from pathlib import Path

import polars as pl
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
def rows_of_release(released_store: Store) -> dict[str, list[pl.DataFrame]]:
    """Its rows by configuration, in parts."""
    settings, items = Settings(store=released_store.root), item_ids(released_store)
    gathered = Gathered(released_store, VERSIONS, settings.bench, items, left_out_items(released_store))
    return {config: list(gathered.rows(config)) for config in COUNTED}


@pytest.fixture(scope="session")
def tallies(rows_of_release: dict[str, list[pl.DataFrame]]) -> Tallies:
    """Its rows, counted."""
    tallies = Tallies()
    for config, parts in rows_of_release.items():
        for rows in parts:
            tallies.add(config, rows)
    return tallies
