"""Deciding as the flow does it, on a small store; and two stores that many tests read."""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from flows.products import item_findings
from schemas.items.conversation import Battle, Conversation
from schemas.row import Row
from schemas.settings import Settings
from tasks.policy.steps import decide_items, find_near_images, redact_items
from tasks.storage.tables import Store
from tests.builders import VERSIONS, measure_clean, store_with


class Deciding:
    """Stores conversations with harmless facts, lets a policy decide, and tells what it decided."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.store: Store | None = None
        self.policy = "public_release"

    def given(
        self,
        conversations: Iterable[Conversation],
        battles: Iterable[Battle] = (),
        facts: Mapping[str, Mapping[str, Any]] | None = None,
        **tables: Iterable[Row],
    ) -> "Deciding":
        """`facts` are those that are not harmless, as `measure_clean` takes them."""
        conversations = list(conversations)
        self.store = store_with(self.folder, conversations=conversations, battles=battles, **tables)
        measure_clean(self.store, conversations, **facts or {})
        return self

    def under(self, policy: str) -> "Deciding":
        """Write a policy's text to a file and decide under that."""
        file = self.folder / "policy.yaml"
        file.write_text(policy, encoding="utf-8")
        self.policy = str(file)
        return self

    def decide(self) -> dict[str, dict[str, Any]]:
        """Decision of every conversation by its id, and of every battle by `battle:` and its id."""
        settings = Settings(store=self.store.root, policy=self.policy)
        find_near_images.fn(settings, VERSIONS)
        redact_items.fn(settings, VERSIONS, item_findings)
        decide_items.fn(settings, VERSIONS, item_findings)
        rows = self.store.read("decisions").iter_rows(named=True)
        return {("battle:" if row["item_kind"] == "battle" else "") + row["item_id"]: row for row in rows}

    def reasons(self) -> dict[str, list[str]]:
        """Reasons of every item."""
        return {item: row["reasons"] for item, row in self.decide().items()}


@pytest.fixture
def deciding(tmp_path) -> Deciding:
    """Decisions in a new store under the shipped public policy."""
    return Deciding(tmp_path)


@pytest.fixture(scope="session")
def new_deciding(tmp_path_factory) -> Callable[[], Deciding]:
    """Decisions in a new store each time, for stores that several tests read."""
    return lambda: Deciding(tmp_path_factory.mktemp("deciding"))


@pytest.fixture(scope="session")
def released_store(tmp_path_factory) -> Store:
    """The small store with its release `first`. Do not write to it."""
    from tests.small_store import make_release, small_store  # a release takes seconds to import, and few need it

    made = small_store(tmp_path_factory.mktemp("released"))
    make_release(made, reported=True, release="first")
    return made


@pytest.fixture(scope="session")
def looked(tmp_path_factory):
    """The hostile store. Do not write to it."""
    from tests.looked_store import looked_store

    return looked_store(tmp_path_factory.mktemp("looked"))


@pytest.fixture
def shuffled():
    """Write a table of a store again with its rows in another order, past the sorting of `replace`."""

    def write(store: Store, table: str, seed: int) -> None:
        mixed = store.read(table).sample(fraction=1, shuffle=True, seed=seed)
        parts = [mixed[:1], mixed[1:]] if mixed.height > 1 else [mixed]
        store.replace(table, pl.DataFrame(schema=mixed.schema))
        for part in parts:
            store.append(table, part)

    return write
