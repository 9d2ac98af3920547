"""Items that wait for a reviewer, and the verdicts: first in the journal, and in the table when nobody else writes."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from threading import Lock
from typing import NamedTuple

import polars as pl
from fsspec.implementations.local import LocalFileSystem

from schemas.errors import BadInput, StoreBusy, StoreUnwell, why_unreadable
from schemas.items.review import DetectorPrecision, Review, ReviewerAgreement, Waiting
from tasks.review_queue import ReviewQueue, Subject, item_fingerprint, review_of, subject_of, verdict_of
from tasks.shown import item_key
from tasks.storage.lock import writing
from tasks.storage.reviews import journalled, keep, latest, reviews_of, take_in_journal, waiting_reviews
from tasks.storage.tables import Store, frame_of

REVIEWER_CHARACTERS_MAX = 60
Given = dict[Subject, dict[str, str]]
"""Subject of a verdict -> reviewer -> verdict."""


class VerdictRefused(Exception):
    """A verdict that is not stored; the text says why in one sentence."""


class Figures(NamedTuple):
    """Agreement and precision by the verdicts so far."""

    agreements: Sequence[ReviewerAgreement] = ()
    precisions: Sequence[DetectorPrecision] = ()


class Progress(NamedTuple):
    """How far a queue is."""

    queue: ReviewQueue
    items: int
    left: int
    """Items without a verdict of this reviewer."""
    untouched: int
    """Items without any verdict."""


class ReviewSession:
    """The queues of a store and the verdicts on their items."""

    def __init__(
        self, store: Store, queues: Sequence[ReviewQueue], figures: Callable[[Store], Figures] = lambda store: Figures()
    ) -> None:
        """`figures` makes agreement and precision from the table."""
        self.store, self.queues = store, {queue.name: queue for queue in queues}
        self._figures, self._lock = figures, Lock()
        self._items: dict[str, tuple[list[bytes | None], dict[str, Waiting]]] = {}
        self._verdicts: tuple[object, dict[str, Given]] = (None, {})
        self._journal: dict[str, Review] = {}
        """Files of the journal that were read."""
        self._known: tuple[bytes | None, Figures] | None = None

    def items(self, name: str) -> dict[str, Waiting]:
        """Key -> item of a queue, as the tables are now. Raises StoreUnwell when one cannot be read."""
        queue = self.queues[name]
        with self._lock:
            seen = [self.store.read_bytes(f"tables/{table}/parts.json") for table in queue.tables]
            if name not in self._items or self._items[name][0] != seen:
                items_by_key = {item_key(name, item.item_id): item for item in queue.selected(self.store)}
                self._items[name] = seen, items_by_key
            return self._items[name][1]

    def given(self, name: str) -> Given:
        """The verdicts on a queue's items, in the table and in the journal."""
        with self._lock:
            files = journalled(self.store)
            seen = files, self.store.read_bytes("tables/reviews/parts.json")
            if self._verdicts[0] != seen:
                self._journal |= waiting_reviews(self.store, set(files) - self._journal.keys())
                journal = [self._journal[file] for file in files if file in self._journal]
                every = pl.concat([reviews_of(self.store), frame_of(Review, journal)])  # read last: what left is there
                by_queue: dict[str, Given] = {}
                for row in latest(every).iter_rows(named=True):
                    subject = Subject(row["item_id"], row["content_id"], tuple(row["reasons"]))
                    by_queue.setdefault(row["queue"], {}).setdefault(subject, {})[row["reviewer"]] = row["verdict"]
                self._verdicts = seen, by_queue
            return self._verdicts[1].get(name, {})

    def progress(self, reviewer: str) -> list[Progress]:
        """How far each queue is."""
        return [self.progress_of(name, reviewer) for name in self.queues]

    def progress_of(self, name: str, reviewer: str) -> Progress:
        """How far one queue is."""
        verdicts_of_subject = self.given(name)
        verdicts_of_items = [verdicts_of_subject.get(subject_of(item), {}) for item in self.items(name).values()]
        open_count, untouched = (
            sum(reviewer not in verdicts for verdicts in verdicts_of_items),
            sum(not verdicts for verdicts in verdicts_of_items),
        )
        return Progress(self.queues[name], len(verdicts_of_items), open_count, untouched)

    def next_key(self, name: str, reviewer: str, after: str = "") -> str | None:
        """The next item without a verdict of this reviewer: first those that nobody gave one, then second opinions."""
        items, verdicts_of_subject = self.items(name), self.given(name)
        keys = list(items)
        start = keys.index(after) + 1 if after in items else 0
        verdicts_of_key = {
            key: verdicts_of_subject.get(subject_of(items[key]), {}) for key in (*keys[start:], *keys[:start])
        }
        mine = [key for key, verdicts in verdicts_of_key.items() if reviewer not in verdicts]
        return next((key for key in mine if not verdicts_of_key[key]), next(iter(mine), None))

    def give(self, name: str, key: str, shown: str, verdicts: Sequence[str], reviewer: str) -> None:
        """Store a verdict in the journal; it is on the disk when this returns. Raises Refused."""
        queue, item = self.queues[name], self.items(name).get(key)
        if item is None:
            raise VerdictRefused("This item does not wait any more: it was decided or taken down. Nothing was stored.")
        if item_fingerprint(item) != shown:
            raise VerdictRefused("This item changed since it was shown. Nothing was stored; look at it again.")
        try:
            verdict = verdict_of(queue, verdicts)
        except BadInput:
            allowed = ", ".join(choice.verdict for choice in queue.choices)
            raise VerdictRefused(f"That is no verdict of this queue; it has {allowed}. Nothing was stored.") from None
        try:
            keep(self.store, review_of(queue, item, verdict, reviewer, datetime.now(UTC)))
        except Exception as error:  # a full disk, or an object store, which has its own errors
            raise VerdictRefused(f"The verdict could not be stored ({why_unreadable(error)}). Give it again.") from None

    def take_in(self, at_once: bool = True) -> None:
        """Move the journal into the table, unless another process writes to the store.

        With `at_once`, only on a local disk: on an object store a lease takes seconds, and would keep a run out.
        """
        if (not at_once or isinstance(self.store.fs, LocalFileSystem)) and journalled(self.store):
            with suppress(StoreBusy, StoreUnwell, OSError), writing(self.store.root) as store:
                take_in_journal(store)

    @property
    def in_journal(self) -> int:
        """Verdicts that wait until nobody else writes to the store."""
        return len(journalled(self.store))

    def figures(self) -> Figures:
        """Agreement of reviewers and precision of detectors, from the table."""
        seen = self.store.read_bytes("tables/reviews/parts.json")
        with self._lock:
            if self._known is None or self._known[0] != seen:
                self._known = seen, self._figures(self.store)
            return self._known[1]
