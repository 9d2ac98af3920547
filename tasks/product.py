"""The form of a product: what it gives the core. `flows/products.py` lists the products."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

if TYPE_CHECKING:  # slow to load, and a plain run loads every product's module
    from schemas.run import StageReport
    from schemas.settings import Settings
    from tasks.release.registered import OpenRelease, ReleasePart
    from tasks.report.page import Part
    from tasks.storage.queries.signals import Versions
    from tasks.storage.tables import Store

ITEM_TEXTS = dict.fromkeys(("item_id", "text"), pl.String)
"""Columns of texts that belong to items."""
JUDGE_TEXTS = dict.fromkeys(("item_id", "question_id", "model", "text"), pl.String)
"""Columns of texts of answers and verdicts."""


def _nothing(*_: object) -> Iterable[Any]:
    return ()


@dataclass(frozen=True, kw_only=True)
class Product:
    """Everything that a product gives the core; by default nothing.

    Each function first looks whether the store (or the release) has the product's tables, and imports no other module
    of the product where it has none.
    """

    item_ids: "Callable[[Store], Iterable[str]]" = _nothing
    """Conversations that are items of its benchmarks: their prompts are public like drawn ones."""
    left_out_items: "Callable[[Store], Iterable[str]]" = _nothing
    """Items that no release holds, for what audits and people found."""
    item_findings: "Callable[[Store, pl.Series], pl.DataFrame]" = lambda *_: pl.DataFrame()
    """Findings on conversations as items, in the order of the ids; no columns when the store has no such items."""
    item_images: "Callable[[Store, str | None], dict[str, tuple[str, str, int]]]" = lambda *_: {}
    """Image id -> (table, part, row group) of images that kept items show: of one benchmark, or of all."""
    hidden_texts: "Callable[[Store], pl.DataFrame]" = lambda _: pl.DataFrame(schema=ITEM_TEXTS)
    """Texts that no release may hold, as `ITEM_TEXTS`."""
    validation_texts: "Callable[[Store], Iterable[str]]" = _nothing
    """Texts about items that a release may hold once they are screened."""
    judge_texts: "Callable[[Store], pl.DataFrame]" = lambda _: pl.DataFrame(schema=JUDGE_TEXTS)
    """Answers and verdicts that a release may hold once they are screened, as `JUDGE_TEXTS`."""
    ratings: "Callable[[Settings, Versions, Path], Iterable[StageReport]]" = _nothing
    """Stages that rate what a release says of its items; the path is the folder of the release that is being built."""
    stand_ins: "Callable[[Store], Iterable[str]]" = _nothing
    """Names of the embedded stand-ins whose boards the release has."""
    report_sections: "Callable[[Store], Iterable[Part]]" = _nothing
    """Sections of the report."""
    parts_of_store: "Callable[[Store], Sequence[ReleasePart]]" = lambda _: ()
    """Parts of a release of the store."""
    parts_of_release: "Callable[[OpenRelease], Sequence[ReleasePart]]" = lambda _: ()
    """Parts of a release on disk, by its files, and by what its manifest and its store say."""
