"""Verdicts of people: the table `reviews`, and a journal where they wait while another process writes to the store.

A verdict in the journal is a file of its own, which is on the disk before the reviewer is told so. Whoever holds the
store's lock next takes the files into the table and deletes them then; taking one in twice changes nothing.
"""

import os
import threading
import time
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

import polars as pl
from fsspec.implementations.local import LocalFileSystem
from pydantic import ValidationError

from schemas.items.review import QueueName, Review
from tasks.runtime.progress import tell
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


NOTHING = "none"
"""Verdict on an item of a benchmark when nothing of what was asked holds."""


def finding(
    queue: QueueName,
    item_id: str,
    content_id: str,
    rater: str,
    said: Iterable[str],
    reasons: Iterable[str],
    now: datetime,
) -> Review:
    """The row of a finding on a benchmark's item, where several verdicts may hold at once or none."""
    return Review(
        conversation_id=item_id,
        content_id=content_id,
        reasons=list(reasons),
        verdict=" ".join(said) or NOTHING,
        queue=queue.value,
        item_id=item_id,
        reviewer=rater,
        reviewed_at=now,
    )


def last_findings(store: Store, queue: QueueName) -> pl.DataFrame:
    """item_id, content_id, reviewer, verdict and reasons: the last of each reviewer on each content of an item."""
    rows = latest(reviews_of(store).filter(queue=queue.value))
    return rows.select("item_id", "content_id", "reviewer", "verdict", "reasons").sort("item_id", "reviewer")


def add_reviews(store: Store, given: Iterable[Review]) -> None:
    """Add verdicts to the table; call it only while holding the store's lock. The order of calls does not matter."""
    both = pl.concat([reviews_of(store), frame_of(Review, given)])
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
    for each in (folder, folder.parent, folder.parent.parent):
        _synced(each)


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
    found = {}
    for name in names:
        content = store.read_bytes(f"{JOURNAL}/{name}")
        try:
            if content is not None:  # else another process has just taken it in
                found[name] = Review.model_validate_json(content)
        except ValidationError:
            continue
    return found


def take_in_journal(store: Store) -> ReviewsTakenIn:
    """Move the journal into the table; call it only while holding the store's lock."""
    with _TAKING_IN:
        names = journalled(store)
        given = waiting_reviews(store, names)
        there = set(store.read("conversations", ["conversation_id"])["conversation_id"]) if given else set()
        live = {name: review for name, review in given.items() if review.conversation_id in there}
        if live:
            add_reviews(store, live.values())
            _table_synced(store)
        for name in given:
            store.fs.rm_file(store.at(f"{JOURNAL}/{name}"))
        for name in set(names) - given.keys():
            tell(f"{JOURNAL}/{name} of the store is no verdict; look at it, and delete it")
        _sweep_halves(store)
        return ReviewsTakenIn(len(live), len(given) - len(live))


def _table_synced(store: Store) -> None:
    """Write the table to the disk, because the files of the journal are deleted next."""
    if isinstance(store.fs, LocalFileSystem):
        folder = Path(store.at("tables/reviews"))
        for each in (*folder.iterdir(), folder, folder.parent):
            _synced(each)


def _sweep_halves(store: Store) -> None:
    """Delete what killed writers left. A file that is still being written is younger."""
    if isinstance(store.fs, LocalFileSystem):
        for half in Path(store.at(JOURNAL)).glob(f"*{_HALF}"):
            if time.time() - half.stat().st_mtime > _HALF_SECONDS_MAX:
                half.unlink(missing_ok=True)
