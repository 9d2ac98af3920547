"""The products, and what they give the core.

A product is deleted by deleting its folder and its line here.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from schemas.errors import BadInput
from schemas.run import StageReport
from schemas.settings import Settings
from tasks.arena.product import ARENA
from tasks.demo.product import DEMO
from tasks.explore.product import EXPLORE
from tasks.generated_bench.product import GENERATED_BENCH
from tasks.judging.product import JUDGING
from tasks.product import ITEM_TEXT_SCHEMA, JUDGE_TEXT_SCHEMA, Explorer, KeyedItems, Product
from tasks.storage.queries.signals import Versions
from tasks.storage.tables import Store
from tasks.written_bench.product import WRITTEN_BENCH

if TYPE_CHECKING:  # slow to load, and not all who need this module release something
    from tasks.providers.capabilities import StreamingModel
    from tasks.release.registered import OpenRelease, ReleasePart
    from tasks.report.page import Part
    from tasks.shown import AskedTables

PRODUCTS: tuple[Product, ...] = (
    WRITTEN_BENCH,
    JUDGING,
    GENERATED_BENCH,
    ARENA,
    DEMO,
    EXPLORE,
)


def item_ids(store: Store) -> pl.Series:
    """Conversations that are items of benchmarks: their prompts are public like drawn ones."""
    return pl.Series("item_id", (item for product in PRODUCTS for item in product.item_ids(store)), pl.String)


def left_out_items(store: Store) -> set[str]:
    """Items that no release holds, for what audits and people found."""
    return {item for product in PRODUCTS for item in product.left_out_items(store)}


def item_findings(store: Store, conversation_ids: pl.Series) -> pl.DataFrame:
    """Findings on conversations as items, in the order of the ids; no columns when the store has no such items."""
    return pl.concat((product.item_findings(store, conversation_ids) for product in PRODUCTS), how="horizontal")


def item_images(store: Store, bench: str | None = None) -> dict[str, tuple[str, str, int]]:
    """Image id -> (table, part, row group) of images that kept items show: of one benchmark, or of all."""
    return {image: place for product in PRODUCTS for image, place in product.item_images(store, bench).items()}


def keyed_items(store: Store, bench: str) -> KeyedItems:
    """The kept items of a benchmark with keys. Raises BadInput when there are none."""
    for product in PRODUCTS:
        if items := product.keyed_items(store, bench):
            return items
    raise BadInput(f"--bench {bench!r}: store {store.root!r} has no benchmark of this name")


def hidden_texts(store: Store) -> pl.DataFrame:
    """item_id and text of what no release may hold."""
    return pl.concat([pl.DataFrame(schema=ITEM_TEXT_SCHEMA), *(product.hidden_texts(store) for product in PRODUCTS)])


def validation_texts(store: Store) -> list[str]:
    """The texts about items that a release may hold once they are screened."""
    return [text for product in PRODUCTS for text in product.validation_texts(store)]


def judge_texts(store: Store) -> pl.DataFrame:
    """item_id, question_id, model and text of the answers and verdicts that a release may hold once screened."""
    return pl.concat([pl.DataFrame(schema=JUDGE_TEXT_SCHEMA), *(product.judge_texts(store) for product in PRODUCTS)])


def unscreened_judge_texts(store: Store) -> dict[str, str]:
    """Text id -> text of every answer and verdict that a release may hold at most, screened or not."""
    return {text_id: text for product in PRODUCTS for text_id, text in product.unscreened_judge_texts(store).items()}


def rate_items(settings: Settings, versions: Versions, staging: Path) -> Iterator[StageReport]:
    """Rate models on items of the release in this folder; nothing without verdicts or items."""
    for product in PRODUCTS:
        yield from product.rating_stages(settings, versions, staging)


def judge_stand_ins(store: Store) -> list[str]:
    """Names of the embedded judges whose boards the release has."""
    return [name for product in PRODUCTS for name in product.stand_ins(store)]


def report_sections(store: Store) -> "Iterator[Part]":
    """The sections that products add to the report."""
    for product in PRODUCTS:
        yield from product.report_sections(store)


def parts_of_store(store: Store) -> "list[ReleasePart]":
    """The parts that products add to a release of the store."""
    return _in_order(part for product in PRODUCTS for part in product.parts_of_store(store))


def parts_of_release(release: "OpenRelease") -> "list[ReleasePart]":
    """The parts that products add to a release on disk."""
    return _in_order(part for product in PRODUCTS for part in product.parts_of_release(release))


def drawn_models(folder: Path, seed: int) -> "dict[str, StreamingModel]":
    """Models without keys for an arena. The folder gets the images that they know. Raises BadInput for none."""
    for product in PRODUCTS:
        if models := product.drawn_models(folder, seed):
            return models
    raise BadInput("no product here draws models; give a models file")


def explorer_here() -> Explorer:
    """How stores and releases are shown. Raises BadInput for nothing."""
    for product in PRODUCTS:
        if explorer := product.explorer():
            return explorer
    raise BadInput("no product here shows stores and releases")


def asked_tables(place: str, unmask: bool, versions: "Callable[[], Versions]") -> "AbstractContextManager[AskedTables]":
    """The tables of a store or a release, to be asked in SQL. Raises BadInput where nothing answers."""
    for product in PRODUCTS:
        if product.asked_tables is not None:
            return product.asked_tables(place, unmask, versions)
    raise BadInput("no product here answers questions in SQL")


def _in_order(parts: "Iterable[ReleasePart]") -> "list[ReleasePart]":
    """The parts in the order of their tables in `RELEASED_TABLES`."""
    from tasks.release.registered import RELEASED_TABLES

    order = list(RELEASED_TABLES)
    return sorted(parts, key=lambda part: order.index(part.tables[0]))


def problems_of(folder: Path, store: Store | None = None) -> list[str]:
    """All problems of a release with the parts of products, one line each; empty when it is whole."""
    from tasks.release.verify import verify_release

    return verify_release(folder, parts_of_release, store)
