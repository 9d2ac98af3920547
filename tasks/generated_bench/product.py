"""Benchmarks made on demand as a product of the core. Other modules are imported late, for a plain run needs none."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from schemas.run import StageReport
from schemas.settings import Settings
from tasks.product import Product
from tasks.storage.queries.signals import Versions
from tasks.storage.tables import Store

if TYPE_CHECKING:
    from tasks.release.registered import OpenRelease, ReleasePart
    from tasks.report.page import Part


def _item_ids(store: Store) -> pl.Series:
    return store.read("generated_items", ["item_id"])["item_id"]


def _left_out_items(store: Store) -> set[str]:
    if not store.height("generated_items"):
        return set()
    from tasks.generated_bench.items import found_wanting

    return set[str]().union(*found_wanting(store).values())


def _ratings(settings: Settings, versions: Versions, staging: Path) -> Iterator[StageReport]:
    if Store.open(settings.store).height("generated_items"):
        from tasks.generated_bench.steps import rate_generated

        yield rate_generated(settings)


def _report_sections(store: Store) -> "Iterator[Part]":
    if store.height("generated_alignment"):
        from tasks.generated_bench.results.sections import generated_parts

        yield from generated_parts(store)


def _parts_of_store(store: Store) -> "list[ReleasePart]":
    return _items_and_boards() if store.height("generated_items") else []


def _parts_of_release(release: "OpenRelease") -> "list[ReleasePart]":
    files = ("generated", "leaderboard/generated")
    return _items_and_boards() if any((release.folder / name).exists() for name in files) else []


def _items_and_boards() -> "list[ReleasePart]":
    from tasks.generated_bench.generated_file import GENERATED_ITEMS
    from tasks.generated_bench.results.boards import GENERATED_BOARDS

    return [GENERATED_ITEMS, GENERATED_BOARDS]


GENERATED_BENCH = Product(
    item_ids=_item_ids,
    left_out_items=_left_out_items,
    ratings=_ratings,
    report_sections=_report_sections,
    parts_of_store=_parts_of_store,
    parts_of_release=_parts_of_release,
)
