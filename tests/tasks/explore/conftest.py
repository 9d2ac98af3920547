"""A visitor of the hostile store, and a release of the small store."""

from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from tasks.explore.of_release import OfRelease
from tasks.explore.of_store import OfStore
from tasks.policy.explained import explained
from tests.looked_store import client
from tests.small_store import make_release, small_store


@pytest.fixture(scope="session")
def of_store(looked) -> OfStore:
    """The hostile store, open."""
    return OfStore(looked.store, explained)


@pytest.fixture
def browser(looked) -> TestClient:
    """A visitor of the hostile store."""
    return client(OfStore(looked.store, explained))


@pytest.fixture(scope="session")
def small_release(tmp_path_factory) -> Path:
    """A release of the small store. Do not write to it."""
    made = small_store(tmp_path_factory.mktemp("small"))
    make_release(made, reported=True, release="1.0.0")
    return Path(made.root) / "releases" / "1.0.0"


@pytest.fixture(scope="session")
def of_release(small_release) -> OfRelease:
    """The release, open."""
    return OfRelease(small_release, "1.0.0", lambda: "")
