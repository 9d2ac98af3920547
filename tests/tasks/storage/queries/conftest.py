"""The small store, decided and measured. Do not write to it."""

import pytest

from tests.small_store import small_store


@pytest.fixture(scope="session")
def store(tmp_path_factory):
    return small_store(tmp_path_factory.mktemp("lookup"))
