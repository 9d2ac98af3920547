"""Findings of people on written items: rows of `reviews`, those that count now, yields, and agreement of raters.

Yields are by number of images and by family.
"""

from collections.abc import Mapping
from datetime import datetime

import numpy as np
import polars as pl

from schemas.benches.written import Fault, ItemCheck
from schemas.items.review import QueueName, Review
from schemas.row import Int32, Row
from tasks.storage.content_id import text_id
from tasks.storage.reviews import finding, last_findings
from tasks.storage.tables import Store, frame_of
from tasks.written_bench.written_items import (
    NO_CAPTIONS,
    captions_by_place,
    captions_id,
    current_references,
    item_members,
)

ALL_ITEMS, ONE, SEVERAL = "all", "one image", "several images"
INCORRECT, HARMFUL = "incorrect", "harmful"
"""Verdicts on a written item, beside the faults of `Fault`."""

FINDINGS = ("is_item", "item_unchecked", "item_incorrect", "item_harmful")
"""Columns about a conversation as an item, which a policy can use."""


def review_of_check(check: ItemCheck, now: datetime) -> Review:
    """The row of `reviews` for a finding on a written item."""
    words = [check.fault.value if check.fault else INCORRECT] if not check.correct else []
    words += [HARMFUL] if check.harmful else []
    return finding(QueueName.WRITTEN, check.item_id, check.reference_id, check.rater, words, (), now)


def item_checks(store: Store) -> pl.DataFrame:
    """Findings on written items as `ItemCheck`; the last one of each rater on each reference."""
    checks = []
    for item_id, reference_id, rater, verdict, _ in last_findings(store, QueueName.WRITTEN).iter_rows():
        words = verdict.split()
        faults = [fault for fault in Fault if fault.value in words]
        checks.append(ItemCheck(
            item_id=item_id, reference_id=reference_id, rater=rater, correct=not faults and INCORRECT not in words,
            fault=faults[0] if len(faults) == 1 else None, harmful=HARMFUL in words,
        ))  # fmt: skip
    return frame_of(ItemCheck, checks)


def counted_checks(store: Store) -> pl.DataFrame:
    """Findings on the reference that each item has now; those on an earlier or stale one do not count."""
    written = store.read("references", ["item_id", "document_id", "written_at"]).sort("written_at")
    items = written.unique("item_id", keep="last")
    captions, now = captions_by_place(store, items), dict[str, str]()
    for item_id, (text, written_from) in current_references(store, items).items():
        placed = captions.get(item_id, {})
        if written_from in (captions_id([placed[place] for place in sorted(placed)]), NO_CAPTIONS):
            now[item_id] = text_id(text)
    standing = pl.DataFrame([*now.items()], {"item_id": pl.String, "reference_id": pl.String}, orient="row")
    return item_checks(store).join(standing, on=["item_id", "reference_id"], how="semi")


def item_findings(store: Store, conversation_ids: pl.Series) -> pl.DataFrame:
    """FINDINGS of each conversation, in order. Incorrect and harmful: at least half of its raters say so."""
    counted = (
        counted_checks(store)
        .group_by("item_id")
        .agg(item_incorrect=pl.col("correct").mean() <= 0.5, item_harmful=pl.col("harmful").mean() >= 0.5)
    )
    items = store.read("bench_items", ["item_id"])["item_id"].implode()
    conversations = pl.DataFrame({"item_id": conversation_ids}).join(
        counted, on="item_id", how="left", maintain_order="left"
    )
    is_item = pl.col("item_id").is_in(items)
    return conversations.select(
        is_item=is_item,
        item_unchecked=is_item & pl.col("item_incorrect").is_null(),
        item_incorrect=pl.col("item_incorrect").fill_null(False),
        item_harmful=pl.col("item_harmful").fill_null(False),
    )


class Yield(Row):
    """Checked items of one part: correct ones, and why the others are not."""

    part: str
    """all, one image, several images, or `family:` and a family."""
    items: Int32
    """Items that somebody checked."""
    correct: Int32
    """Items that more than half of their raters found correct."""
    caption: Int32
    """Incorrect items whose raters mostly see the fault in a caption."""
    reference: Int32
    """Incorrect items whose raters mostly see the fault in the reference."""
    unstated: Int32
    """Incorrect items without a stated fault, or with both faults named equally often."""
    harmful: Int32
    """Items that at least half of their raters found harmful."""
    correct_percent: float | None
    """100 correct / items; null without items."""
    caption_percent: float | None
    """100 caption / items."""
    reference_percent: float | None
    """100 reference / items."""
    unstated_percent: float | None
    """100 unstated / items. The four shares add up to 100; published tables leave this one out."""


class ItemAgreement(Row):
    """Agreement of raters whether items are correct."""

    raters: Int32
    """People who checked an item."""
    items: Int32
    """Items that two or more of them checked."""
    pairs: Int32
    """Pairs of findings on one item."""
    agreed_percent: float | None
    """Share of these pairs that agree; null without any."""
    alpha: float | None
    """Krippendorff's alpha of `correct`, nominal; null when undefined."""


def majorities(checks: pl.DataFrame) -> pl.DataFrame:
    """item_id, correct, fault (caption, reference or unstated; null when correct) and harmful: one row an item.

    `checks` are rows of `ItemCheck`. Half is no majority for correct, and enough for harmful.
    """
    faults = {name: (pl.col("fault") == name.value).fill_null(False).sum() for name in Fault}
    counted = checks.group_by("item_id").agg(
        correct=pl.col("correct").mean() > 0.5,
        harmful=pl.col("harmful").mean() >= 0.5,
        **{name.value: count for name, count in faults.items()},
    )
    caption, reference = pl.col(Fault.CAPTION.value), pl.col(Fault.REFERENCE.value)
    # One value is one item: the fault that more of its raters name; null where as many name either.
    stated = pl.when(caption > reference).then(pl.lit("caption")).when(reference > caption).then(pl.lit("reference"))
    fault = pl.when(~pl.col("correct")).then(stated.otherwise(pl.lit("unstated")))
    return counted.select("item_id", "correct", "harmful", fault=fault).sort("item_id")


def yields(items: pl.DataFrame) -> list[Yield]:
    """The yield of all items, of those with one and with several images, and of each family.

    `items` has `majorities` with `images` (a number) and `family`.
    """
    several = pl.col("images") > 1
    parts = [(ALL_ITEMS, items), (ONE, items.filter(~several)), (SEVERAL, items.filter(several))]
    families = sorted(set(items["family"]) - {""})
    parts += [(f"family:{family}", items.filter(family=family)) for family in families]
    yield_rows = []
    for part, rows in [(part, rows) for part, rows in parts if rows.height or part == ALL_ITEMS]:
        counts = {name: int((rows["fault"] == name).sum()) for name in ("caption", "reference", "unstated")}
        counts = {"correct": int(rows["correct"].sum()), **counts}
        shares = {f"{name}_percent": 100 * n / rows.height if rows.height else None for name, n in counts.items()}
        yield_rows.append(Yield(part=part, items=rows.height, harmful=int(rows["harmful"].sum()), **counts, **shares))
    return yield_rows


def item_agreement(checks: pl.DataFrame) -> ItemAgreement:
    """Agreement of raters on `correct`, over items that at least two of them checked."""
    from tasks.leaderboard.agreement import alpha  # imported late: it brings scipy

    rated = checks.filter(pl.len().over("item_id") > 1)
    counted = rated.group_by("item_id").agg(yes=pl.col("correct").sum(), no=(~pl.col("correct")).sum())
    counts = counted.select(pl.col("yes", "no").cast(pl.Float64)).to_numpy()
    pairs, same = (int((n * (n - 1) / 2).sum()) for n in (counts.sum(axis=1), counts))
    alpha_value = float(alpha(counts, np.ones((1, len(counts))))[0])
    return ItemAgreement(
        raters=checks["rater"].n_unique(), items=len(counts), pairs=pairs,
        agreed_percent=100 * same / pairs if pairs else None, alpha=None if np.isnan(alpha_value) else alpha_value,
    )  # fmt: skip


def finding_tables(store: Store, bench: str) -> Mapping[str, pl.DataFrame]:
    """Table name -> rows: yield and agreement of a benchmark's items."""
    members = item_members(store, bench)
    images = store.read("bench_items", ["item_id", "images"])
    image_counts = store.read("conversations", ["conversation_id", "image_ids"])
    image_counts = image_counts.select(item_id="conversation_id", stored=pl.col("image_ids").list.len())
    of_item = members.join(images, on="item_id", how="left").join(image_counts, on="item_id", how="left")
    of_item = of_item.with_columns(images=pl.coalesce("images", "stored"))
    checks = counted_checks(store).join(members, on="item_id", how="semi")
    item_majorities = majorities(checks).join(of_item.select("item_id", "family", "images"), on="item_id")
    agreement = item_agreement(checks)
    return {"yield": _rounded(yields(item_majorities)), "agreement": _rounded([agreement])}


def _rounded(rows: list[Yield] | list[ItemAgreement]) -> pl.DataFrame:
    return frame_of(type(rows[0]), rows).with_columns(pl.selectors.float().round(3))


def kept_and_dropped(store: Store, bench: str) -> tuple[int, dict[str, int]]:
    """(kept items, reason -> dropped items that have it)."""
    members = item_members(store, bench)["item_id"]
    decided = store.read("decisions", ["item_kind", "item_id", "keep", "reasons"]).filter(item_kind="conversation")
    decided = decided.filter(pl.col("item_id").is_in(members.implode()))
    reasons = decided.filter(~pl.col("keep"))["reasons"].explode().value_counts(sort=True)
    return int(decided["keep"].sum()), dict(reasons.iter_rows())
