"""Verdicts of people: the table `reviews`, and a journal where they wait while another process writes to the store.

Also what detectors of faces and personal data found, and how much of it people confirmed.

A verdict in the journal is a file of its own, which is on the disk before the reviewer is told so. Whoever holds the
store's lock next takes the files into the table and deletes them then; taking one in twice changes nothing.
"""

import os
import threading
import time
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

import polars as pl
from fsspec.implementations.local import LocalFileSystem
from pydantic import ValidationError

from schemas.items.review import DetectorPrecision, Finding, QueueName, Review
from schemas.policy import Over
from tasks.runtime.progress import tell
from tasks.storage.queries.released import decided_policy
from tasks.storage.queries.signals import latest_query
from tasks.storage.tables import Store, frame_of

JOURNAL = "reviews/waiting"
"""Folder of a store; no release reads it."""
_KEY = ["queue", "item_id", "content_id", "reasons", "reviewer"]
_HALF, _HALF_SECONDS_MAX = ".half", 600
_TAKING_IN = threading.Lock()
"""The store's lock does not separate threads of one process."""


class ReviewsTakenIn(NamedTuple):
    """Outcome of taking a journal in."""

    stored: int
    """Verdicts that are in the table now."""
    gone: int
    """Verdicts that were dropped, because their conversation is not in the store any more."""


def reviews_of(store: Store) -> pl.DataFrame:
    """The table `reviews`, without nulls: rows of earlier versions are verdicts on held conversations."""
    early = datetime.fromtimestamp(0, UTC)
    return store.read("reviews").with_columns(
        pl.col("queue").fill_null(QueueName.HELD.value),
        pl.col("item_id").fill_null(pl.col("conversation_id")),
        pl.col("reviewer").fill_null(""),
        pl.col("reviewed_at").fill_null(early),
    )


def latest(reviews: pl.DataFrame) -> pl.DataFrame:
    """The last verdict of each reviewer on each item with this content and these reasons."""
    return reviews.sort("reviewed_at", maintain_order=True).unique(_KEY, keep="last", maintain_order=True)


NOTHING_HOLDS = "none"
"""Verdict on an item of a benchmark when nothing of what was asked holds."""


def finding(
    queue: QueueName,
    item_id: str,
    content_id: str,
    rater: str,
    findings: Iterable[str],
    reasons: Iterable[str],
    now: datetime,
) -> Review:
    """The row of a finding on a benchmark's item, where several verdicts may hold at once or none."""
    return Review(
        conversation_id=item_id,
        content_id=content_id,
        reasons=list(reasons),
        verdict=" ".join(findings) or NOTHING_HOLDS,
        queue=queue.value,
        item_id=item_id,
        reviewer=rater,
        reviewed_at=now,
    )


def last_findings(store: Store, queue: QueueName) -> pl.DataFrame:
    """item_id, content_id, reviewer, verdict and reasons: the last of each reviewer on each content of an item."""
    rows = latest(reviews_of(store).filter(queue=queue.value))
    return rows.select("item_id", "content_id", "reviewer", "verdict", "reasons").sort("item_id", "reviewer")


def add_reviews(store: Store, reviews: Iterable[Review]) -> None:
    """Add verdicts to the table; call it only while holding the store's lock. The order of calls does not matter."""
    both = pl.concat([reviews_of(store), frame_of(Review, reviews)])
    store.replace("reviews", latest(both))


def keep(store: Store, review: Review) -> None:
    """Write a verdict into the journal; it is on the disk when this returns. Needs no lock."""
    name, content = f"{time.time_ns():020d}-{uuid4().hex}.json", review.model_dump_json().encode()
    if not isinstance(store.fs, LocalFileSystem):
        store.fs.pipe_file(store.at(f"{JOURNAL}/{name}"), content)
        return
    folder = Path(store.at(JOURNAL))
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f"{name}{_HALF}").open("xb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    (folder / f"{name}{_HALF}").rename(folder / name)
    for place in (folder, folder.parent, folder.parent.parent):
        _synced(place)


def _synced(place: Path) -> None:
    """Write a file, or the entries of a folder, to the disk."""
    opened = os.open(place, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def journalled(store: Store) -> list[str]:
    """Names of the files in the journal, oldest first."""
    return store.json_files(JOURNAL)


def waiting_reviews(store: Store, names: Iterable[str]) -> dict[str, Review]:
    """File of the journal -> its verdict. Files that cannot be read stay, and are named on stderr when taken in."""
    reviews = {}
    for name in names:
        content = store.read_bytes(f"{JOURNAL}/{name}")
        try:
            if content is not None:  # else another process has just taken it in
                reviews[name] = Review.model_validate_json(content)
        except ValidationError:
            continue
    return reviews


def take_in_journal(store: Store) -> ReviewsTakenIn:
    """Move the journal into the table; call it only while holding the store's lock."""
    with _TAKING_IN:
        names = journalled(store)
        journal_reviews = waiting_reviews(store, names)
        there = set(store.read("conversations", ["conversation_id"])["conversation_id"]) if journal_reviews else set()
        live = {name: review for name, review in journal_reviews.items() if review.conversation_id in there}
        if live:
            add_reviews(store, live.values())
            _table_synced(store)
        for name in journal_reviews:
            store.fs.rm_file(store.at(f"{JOURNAL}/{name}"))
        for name in set(names) - journal_reviews.keys():
            tell(f"{JOURNAL}/{name} of the store is no verdict; look at it, and delete it")
        _sweep_halves(store)
        return ReviewsTakenIn(len(live), len(journal_reviews) - len(live))


def _table_synced(store: Store) -> None:
    """Write the table to the disk, because the files of the journal are deleted next."""
    if isinstance(store.fs, LocalFileSystem):
        folder = Path(store.at("tables/reviews"))
        for path in (*folder.iterdir(), folder, folder.parent):
            _synced(path)


def _sweep_halves(store: Store) -> None:
    """Delete what killed writers left. A file that is still being written is younger."""
    if isinstance(store.fs, LocalFileSystem):
        for half in Path(store.at(JOURNAL)).glob(f"*{_HALF}"):
            if time.time() - half.stat().st_mtime > _HALF_SECONDS_MAX:
                half.unlink(missing_ok=True)


FACE = "face"
FOUND = {"item_id": pl.String, "content_id": pl.String, "type": pl.String, "provider": pl.String}
"""Columns of findings."""


def found_faces(store: Store) -> pl.DataFrame:
    """One row for each image with a face as strong as the deciding policy's rules ask for: `FOUND`."""
    policy = decided_policy(store)
    rules = [rule for rule in policy.rules if rule.signal.startswith("faces.")] if policy else []
    least = min((rule.at_least for rule in rules if rule.at_least is not None), default=0.0)
    rows = _last(store, "faces", ["confidence_max"])
    strong_faces = rows.filter((pl.col("confidence_max") >= least) & (pl.col("confidence_max") > 0))
    return strong_faces.select("provider", item_id="content_id", content_id="content_id", type=pl.lit(FACE)).select(
        [*FOUND]
    )


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
    return pl.concat(store.batches(latest_query(signal, ["provider", *columns])))


def detector_precisions(store: Store) -> list[DetectorPrecision]:
    """Precision of each detector, provider and type over the findings that people reviewed; empty without reviews."""
    detectors = (QueueName.FACES, QueueName.PERSONAL_DATA, QueueName.IMAGE_TEXTS)
    reviews = reviews_of(store).filter(pl.col("queue").is_in([queue.value for queue in detectors]))
    if reviews.is_empty():
        return []
    confirmed = (pl.col("verdict") == Finding.CONFIRMED.value).mean()
    shares = reviews.group_by("queue", "item_id").agg(share=confirmed)
    spans = personal_spans(store)
    of_queue = {
        QueueName.FACES: found_faces(store),
        QueueName.PERSONAL_DATA: of_policy(store, spans),
        QueueName.IMAGE_TEXTS: of_policy(store, spans, Over.IMAGE_TEXTS),
    }
    findings = pl.concat([rows.select(*FOUND, queue=pl.lit(queue.value)) for queue, rows in of_queue.items()])
    counted = findings.join(shares, on=["queue", "item_id"]).group_by(
        detector="queue", provider="provider", type="type"
    )
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
