"""Benchmarks made on demand as a product of the core. Other modules are imported late, for a plain run needs none."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from schemas.benches.generated_results import AccuracyRow
from schemas.run import StageReport
from schemas.settings import Settings
from tasks.product import KeyedItems, Product
from tasks.storage.queries.signals import Versions
from tasks.storage.tables import Store

if TYPE_CHECKING:
    from tasks.release.registered import BoardOf, OpenRelease, ReleasePart, ShownBoard, ShownSection
    from tasks.report.page import Part


def _item_ids(store: Store) -> pl.Series:
    return store.read("generated_items", ["item_id"])["item_id"]


def _left_out_items(store: Store) -> set[str]:
    if not store.height("generated_items"):
        return set()
    from tasks.generated_bench.items import found_wanting

    return set[str]().union(*found_wanting(store).values())


def _keyed_items(store: Store, bench: str) -> KeyedItems:
    from tasks.generated_bench.accuracy import accuracy_rows, mark
    from tasks.generated_bench.items import kept_items

    kept = kept_items(store, bench)

    def accuracy(answers: pl.DataFrame) -> list[AccuracyRow]:
        return accuracy_rows(kept.items, mark(kept.items, answers), ["overall", "level"])

    return KeyedItems(kept.items, kept.conversations, accuracy)


def _ratings(settings: Settings, versions: Versions, staging: Path) -> Iterator[StageReport]:
    if Store.open(settings.store).height("generated_items"):
        from tasks.generated_bench.steps import rate_generated

        yield rate_generated(settings)


def _item_sections(store: Store, item_id: str) -> "Iterator[ShownSection]":
    from tasks.generated_bench.item_section import section_of_item

    return section_of_item(store, item_id)


def _item_boards(board_of: "BoardOf") -> "Iterator[ShownBoard]":
    from tasks.generated_bench.results.boards import shown_accuracy

    return shown_accuracy(board_of)


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
    commands="flows.generated_bench.bench_commands",
    item_ids=_item_ids,
    left_out_items=_left_out_items,
    keyed_items=_keyed_items,
    rating_stages=_ratings,
    kinds="flows.generated_bench.review_kinds",
    item_sections=_item_sections,
    item_boards=_item_boards,
    report_sections=_report_sections,
    parts_of_store=_parts_of_store,
    parts_of_release=_parts_of_release,
)
