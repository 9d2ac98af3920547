"""Figures of a written benchmark's kept items, family by family."""

import polars as pl

from schemas.row import Int32, Row
from schemas.written import Split
from tasks.storage.queries.benches.written_items import ItemForJudging, items_for_judging
from tasks.storage.tables import Store, frame_of


class FamilyFigures(Row):
    """The kept items of one family."""

    family: str
    """The family; `all` for every item."""
    items: Int32
    """Kept items."""
    images: Int32
    """Their images."""
    validation: Int32
    """Items of the validation split."""
    captioned: Int32
    """Items with a caption for every image."""
    referenced: Int32
    """Items with a reference that is not stale."""
    instruction_words: float
    """Mean words of an instruction."""
    caption_words: float | None
    """Mean words of a caption; null without captions."""
    reference_words: float | None
    """Mean words of a reference; null without one."""


def family_figures(store: Store, bench: str) -> pl.DataFrame:
    """One row for all kept items and one for each family, in order."""
    items = items_for_judging(store, bench)
    families = sorted({item.family for item in items} - {""})
    parts = [("all", items), *((name, [item for item in items if item.family == name]) for name in families)]
    return frame_of(FamilyFigures, [_figures(name, found) for name, found in parts if found])


def _figures(name: str, items: list[ItemForJudging]) -> FamilyFigures:
    captions = [text for item in items for text in item.captions]
    references = [item.reference for item in items if item.reference]
    return FamilyFigures(
        family=name,
        items=len(items),
        images=sum(len(item.image_ids) for item in items),
        validation=sum(item.split is Split.VALIDATION for item in items),
        captioned=sum(bool(item.captions) for item in items),
        referenced=len(references),
        instruction_words=_mean_words([item.instruction for item in items]) or 0.0,
        caption_words=_mean_words(captions),
        reference_words=_mean_words(references),
    )


def _mean_words(texts: list[str]) -> float | None:
    return round(sum(len(text.split()) for text in texts) / len(texts), 2) if texts else None
