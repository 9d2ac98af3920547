"""What people found about items, written ones and generated ones, as rows; all of it is in the table `reviews`.

A person's finding comes from a filled-in list, whose rater is a keyed hash, or from the review pages, by name.
"""

from collections.abc import Iterable
from datetime import datetime

import polars as pl

from schemas.generated_results import ItemReview
from schemas.review import QueueName, Review
from schemas.written import Fault, ItemCheck
from tasks.storage.reviews import reviews_of
from tasks.storage.tables import Store, frame_of

NONE = "none"
"""Verdict when nothing of what was asked holds."""
INCORRECT, HARMFUL = "incorrect", "harmful"
"""Verdicts on a written item, beside the faults of `Fault`."""
FITS = ("description_fits", "question_fits")
"""Verdicts on a generated item."""
GUIDED = "guided"
"""Reason of a finding on a generated item whose rater had read the guidelines."""


def review_of_check(check: ItemCheck, now: datetime) -> Review:
    """The row of `reviews` for a finding on a written item."""
    said = [check.fault.value if check.fault else INCORRECT] if not check.correct else []
    said += [HARMFUL] if check.harmful else []
    return _review(QueueName.WRITTEN, check.item_id, check.reference_id, check.rater, said, (), now)


def item_checks(store: Store) -> pl.DataFrame:
    """Findings on written items as `ItemCheck`; the last one of each rater on each reference."""
    rows = _given(store, QueueName.WRITTEN)
    return frame_of(ItemCheck, [_check(*row) for row in rows.iter_rows()])


def review_of_generated(found: ItemReview, now: datetime) -> Review:
    """The row of `reviews` for a finding on a generated item."""
    said = [name for name in FITS if getattr(found, name)]
    reasons = (GUIDED,) if found.guided else ()
    return _review(QueueName.GENERATED, found.item_id, found.item_id, found.rater, said, reasons, now)


def generated_reviews(store: Store) -> pl.DataFrame:
    """Findings on generated items as `ItemReview`; the last one of each rater with, and without, the guidelines."""
    rows = _given(store, QueueName.GENERATED)
    return frame_of(ItemReview, (_generated(*row) for row in rows.iter_rows()))


def _given(store: Store, queue: QueueName) -> pl.DataFrame:
    rows = reviews_of(store).filter(queue=queue.value).sort("reviewed_at", maintain_order=True)
    last = rows.unique(["item_id", "content_id", "reasons", "reviewer"], keep="last", maintain_order=True)
    return last.select("item_id", "content_id", "reviewer", "verdict", "reasons").sort("item_id", "reviewer")


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


def _generated(item_id: str, _: str, rater: str, verdict: str, reasons: Iterable[str]) -> ItemReview:
    said = set(verdict.split())
    fits = {name: name in said for name in FITS}
    return ItemReview(item_id=item_id, rater=rater, guided=GUIDED in reasons, **fits)


def _review(
    queue: QueueName,
    item_id: str,
    content_id: str,
    rater: str,
    said: Iterable[str],
    reasons: Iterable[str],
    now: datetime,
) -> Review:
    return Review(
        conversation_id=item_id,
        content_id=content_id,
        reasons=list(reasons),
        verdict=" ".join(said) or NONE,
        queue=queue.value,
        item_id=item_id,
        reviewer=rater,
        reviewed_at=now,
    )
