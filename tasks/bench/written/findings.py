"""Findings of people on written items: rows of `reviews`, those that count now, and what a policy reads of them."""

from collections.abc import Iterable
from datetime import datetime

import polars as pl

from schemas.review import QueueName, Review
from schemas.written import Fault, ItemCheck
from tasks.bench.written.written_items import NO_CAPTIONS, captions_by_place, captions_id, current_references
from tasks.storage.content_id import text_id
from tasks.storage.reviews import finding, last_findings
from tasks.storage.tables import Store, frame_of

INCORRECT, HARMFUL = "incorrect", "harmful"
"""Verdicts on a written item, beside the faults of `Fault`."""


def review_of_check(check: ItemCheck, now: datetime) -> Review:
    """The row of `reviews` for a finding on a written item."""
    said = [check.fault.value if check.fault else INCORRECT] if not check.correct else []
    said += [HARMFUL] if check.harmful else []
    return finding(QueueName.WRITTEN, check.item_id, check.reference_id, check.rater, said, (), now)


def item_checks(store: Store) -> pl.DataFrame:
    """Findings on written items as `ItemCheck`; the last one of each rater on each reference."""
    return frame_of(ItemCheck, [_check(*row) for row in last_findings(store, QueueName.WRITTEN).iter_rows()])


def _check(item_id: str, reference_id: str, rater: str, verdict: str, _: Iterable[str]) -> ItemCheck:
    said = set(verdict.split())
    faults = [fault for fault in Fault if fault.value in said]
    return ItemCheck(
        item_id=item_id,
        reference_id=reference_id,
        rater=rater,
        correct=not faults and INCORRECT not in said,
        fault=faults[0] if len(faults) == 1 else None,
        harmful=HARMFUL in said,
    )


FINDINGS = ("is_item", "item_unchecked", "item_incorrect", "item_harmful")
"""What is known of a conversation as an item; a policy can use these columns."""


def counted_checks(store: Store) -> pl.DataFrame:
    """Findings on the reference that each item has now; those on an earlier or stale one do not count."""
    items = (
        store.read("references", ["item_id", "document_id", "written_at"])
        .sort("written_at")
        .unique("item_id", keep="last")
    )
    captions, now = captions_by_place(store, items), dict[str, str]()
    for item_id, (text, written_from) in current_references(store, items).items():
        placed = captions.get(item_id, {})
        if written_from in (captions_id([placed[place] for place in sorted(placed)]), NO_CAPTIONS):
            now[item_id] = text_id(text)
    standing = pl.DataFrame(
        {"item_id": list(now), "reference_id": list(now.values())},
        schema={"item_id": pl.String, "reference_id": pl.String},
    )
    return item_checks(store).join(standing, on=["item_id", "reference_id"], how="semi")


def item_findings(store: Store, conversation_ids: pl.Series) -> pl.DataFrame:
    """FINDINGS of each conversation, in order. Incorrect and harmful: at least half of its raters say so."""
    counted = (
        counted_checks(store)
        .group_by("item_id")
        .agg(item_incorrect=pl.col("correct").mean() <= 0.5, item_harmful=pl.col("harmful").mean() >= 0.5)
    )
    items = store.read("bench_items", ["item_id"])["item_id"].implode()
    found = pl.DataFrame({"item_id": conversation_ids}).join(counted, on="item_id", how="left", maintain_order="left")
    is_item = pl.col("item_id").is_in(items)
    return found.select(
        is_item=is_item,
        item_unchecked=is_item & pl.col("item_incorrect").is_null(),
        item_incorrect=pl.col("item_incorrect").fill_null(False),
        item_harmful=pl.col("item_harmful").fill_null(False),
    )
