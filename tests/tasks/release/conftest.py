"""One small release for the tests that read it, and copies for the tests that spoil it."""

import shutil
from pathlib import Path

import pytest

from tasks.storage.tables import Store


@pytest.fixture(scope="session")
def store(released_store: Store) -> Store:
    """The small store, with one release in it. Do not write to it."""
    return released_store


@pytest.fixture(scope="session")
def release(store: Store) -> Path:
    """The release. Do not write to it."""
    return Path(store.root) / "releases" / "first"


@pytest.fixture
def own_store(store: Store, tmp_path: Path) -> Store:
    """A copy of the store, with its release."""
    return Store(str(shutil.copytree(store.root, tmp_path / "store")))


@pytest.fixture
def own_release(release: Path, tmp_path: Path) -> Path:
    """A copy of the release."""
    return Path(shutil.copytree(release, tmp_path / "release"))
