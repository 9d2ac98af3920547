"""A report of the small store, as its release holds it."""

from pathlib import Path

import pytest

from tasks.storage.tables import Store
from tests.small_store import make_release, small_store


@pytest.fixture(scope="session")
def reported_store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """The small store with one release in it. Do not write to it."""
    made = small_store(tmp_path_factory.mktemp("reported"))
    make_release(made, release="first")
    return made


@pytest.fixture(scope="session")
def report(reported_store: Store) -> Path:
    """The folder of its report."""
    return Path(reported_store.root) / "releases" / "first" / "report"
