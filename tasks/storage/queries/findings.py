"""Findings of the detectors of faces and personal data, and how many of them people confirmed."""

from typing import Any

import polars as pl

from schemas.items.review import DetectorPrecision, Finding, QueueName
from schemas.policy import Over
from tasks.storage.queries.released import decided_policy
from tasks.storage.reviews import reviews_of
from tasks.storage.tables import Store

FACE = "face"
FOUND = {"item_id": pl.String, "content_id": pl.String, "type": pl.String, "provider": pl.String}
"""Columns of findings."""


def found_faces(store: Store) -> pl.DataFrame:
    """One row for each image with a face as strong as the deciding policy's rules ask for: `FOUND`."""
    policy = decided_policy(store)
    rules = [rule for rule in policy.rules if rule.signal.startswith("faces.")] if policy else []
    least = min((rule.at_least for rule in rules if rule.at_least is not None), default=0.0)
    rows = _last(store, "faces", ["confidence_max"])
    found = rows.filter((pl.col("confidence_max") >= least) & (pl.col("confidence_max") > 0))
    return found.select("provider", item_id="content_id", content_id="content_id", type=pl.lit(FACE)).select([*FOUND])


def personal_spans(store: Store) -> pl.DataFrame:
    """One row for each stretch of a text that was found to be personal data: `FOUND`, `start`, `end`, `confidence`."""
    spans = _last(store, "text_pii", ["spans"]).explode("spans").drop_nulls("spans").unnest("spans")
    item = pl.format("{}:{}-{}:{}", "content_id", "start", "end", "type")
    return spans.select(item.alias("item_id"), "content_id", "type", "provider", "start", "end", "confidence")


def of_policy(store: Store, spans: pl.DataFrame, over: Over | None = None) -> pl.DataFrame:
    """`personal_spans` of the types that text_pii rules of the policy name; `over` limits the rules to these parts."""
    policy = decided_policy(store)
    rules = [rule for rule in policy.rules if rule.signal.startswith("text_pii.")] if policy else []
    rules = [rule for rule in rules if over in (None, rule.over)]
    if not rules or not all(rule.contains_any for rule in rules):
        return spans
    return spans.filter(pl.col("type").is_in(sorted({kind for rule in rules for kind in rule.contains_any or []})))


def _last(store: Store, signal: str, columns: list[str]) -> pl.DataFrame:
    """content_id, provider and columns of the value that was measured last, for each content id."""
    names = ["content_id", "provider", "measured_at", *columns]
    frames = [store.empty(f"signals/{signal}", names), *store.read_slices(f"signals/{signal}", names)]
    last = pl.concat(frames).sort("measured_at", maintain_order=True)
    return last.unique("content_id", keep="last", maintain_order=True).drop("measured_at")


def detector_precisions(store: Store) -> list[DetectorPrecision]:
    """Precision of each detector, provider and type over the findings that people reviewed; empty without reviews."""
    detectors = (QueueName.FACES, QueueName.PERSONAL_DATA, QueueName.IMAGE_TEXTS)
    given = reviews_of(store).filter(pl.col("queue").is_in([queue.value for queue in detectors]))
    if given.is_empty():
        return []
    confirmed = (pl.col("verdict") == Finding.CONFIRMED.value).mean()
    told = given.group_by("queue", "item_id").agg(share=confirmed)
    spans = personal_spans(store)
    of_queue = {
        QueueName.FACES: found_faces(store),
        QueueName.PERSONAL_DATA: of_policy(store, spans),
        QueueName.IMAGE_TEXTS: of_policy(store, spans, Over.IMAGE_TEXTS),
    }
    found = pl.concat([rows.select(*FOUND, queue=pl.lit(queue.value)) for queue, rows in of_queue.items()])
    counted = found.join(told, on=["queue", "item_id"]).group_by(detector="queue", provider="provider", type="type")
    share = pl.col("share")
    numbers = counted.agg(
        reviewed=share.is_in([0.0, 1.0]).sum().cast(pl.Int64),
        confirmed=(share == 1).sum().cast(pl.Int64),
        disagreed=share.is_between(0, 1, closed="none").sum().cast(pl.Int64),
    )
    ordered = numbers.filter(pl.col("reviewed") > 0).sort("detector", "provider", "type")
    return [_precision(row) for row in ordered.iter_rows(named=True)]


def _precision(row: dict[str, Any]) -> DetectorPrecision:
    from scipy.stats import binomtest  # slow to import

    low, high = binomtest(row["confirmed"], row["reviewed"]).proportion_ci(0.95, method="exact")
    precision = row["confirmed"] / row["reviewed"]
    return DetectorPrecision(**row, precision=precision, ci95_low=float(low), ci95_high=float(high))
