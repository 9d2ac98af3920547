"""A report of the small store, as its release holds it."""

from pathlib import Path

import pytest

from tasks.storage.tables import Store


@pytest.fixture(scope="session")
def report(released_store: Store) -> Path:
    """The folder of its report."""
    return Path(released_store.root) / "releases" / "first" / "report"
