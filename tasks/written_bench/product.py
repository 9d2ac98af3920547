"""Benchmarks of items that people wrote, with captions and references, as a product of the core.

Other modules are imported late, in the functions, for a plain run needs none.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import polars as pl

from tasks.product import ITEM_TEXT_SCHEMA, Product
from tasks.storage.tables import Store

if TYPE_CHECKING:
    from tasks.release.registered import OpenRelease, ReleasePart, ShownSection
    from tasks.report.page import Part


def _item_ids(store: Store) -> pl.Series:
    return store.read("bench_items", ["item_id"])["item_id"]


def _item_findings(store: Store, conversation_ids: pl.Series) -> pl.DataFrame:
    if not (store.parts("bench_items") or store.parts("references")):
        return pl.DataFrame()
    from tasks.written_bench.findings import item_findings

    return item_findings(store, conversation_ids)


def _item_images(store: Store, bench: str | None) -> dict[str, tuple[str, str, int]]:
    benches = [bench] if bench else sorted(set(store.read("bench_items", ["bench"])["bench"]))
    if not benches:
        return {}
    from tasks.written_bench.written_items import item_images

    return {image_id: row_group for bench in benches for image_id, row_group in item_images(store, bench).items()}


def _hidden_texts(store: Store) -> pl.DataFrame:
    """Captions and references of items."""
    if not (store.parts("captions") or store.parts("references")):
        return pl.DataFrame(schema=ITEM_TEXT_SCHEMA)
    from tasks.written_bench.written_items import hidden_texts

    return hidden_texts(store)


def _validation_texts(store: Store) -> list[str]:
    """Captions and references of the validation split."""
    if not (store.parts("captions") or store.parts("references")):
        return []
    from tasks.written_bench.written_items import validation_texts

    return validation_texts(store)


def _item_sections(store: Store, item_id: str) -> "Iterator[ShownSection]":
    from tasks.written_bench.item_section import sections_of_written_item

    return sections_of_written_item(store, item_id)


def _report_sections(store: Store) -> "list[Part]":
    if not store.height("bench_items"):
        return []
    from tasks.written_bench.written_report import written_parts

    return written_parts(store)


def _parts_of_store(store: Store) -> "list[ReleasePart]":
    return _released_items() if store.height("bench_items") or store.height("captions") else []


def _parts_of_release(release: "OpenRelease") -> "list[ReleasePart]":
    store = release.store
    has_texts = store is not None and any(store.height(table) for table in ("captions", "references"))
    files = ("written", "leaderboard/written")
    return _released_items() if has_texts or any((release.folder / name).exists() for name in files) else []


def _released_items() -> "list[ReleasePart]":
    from tasks.written_bench.written_file import WRITTEN_ITEMS

    return [WRITTEN_ITEMS]


WRITTEN_BENCH = Product(
    commands="flows.written_bench.command",
    kinds="flows.written_bench.review_kinds",
    estimates="flows.written_bench.estimates",
    item_ids=_item_ids,
    item_findings=_item_findings,
    item_images=_item_images,
    hidden_texts=_hidden_texts,
    validation_texts=_validation_texts,
    item_sections=_item_sections,
    report_sections=_report_sections,
    parts_of_store=_parts_of_store,
    parts_of_release=_parts_of_release,
)
