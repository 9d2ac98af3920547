"""Runs signals over what is missing: batches on several threads, facts stored part by part as they come."""

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import Any

from tasks.lookup.images import StoredImages
from tasks.measure.signal import Item, Signal
from tasks.measure.store import Measured, append_facts, fact_rows
from tasks.pixels.pictures import Picture, decode_stored
from tasks.running.parallel import map_ordered
from tasks.running.progress import Advance, silent
from tasks.tables import Store

BATCH = 32
TEXTS_A_PART = 64 * BATCH
"""Texts or documents whose facts are stored at once: what a killed run has to measure again at most."""
PICTURES_A_PART = 8 * BATCH
"""The same of pictures."""

Rows = list[dict[str, Any]]


def measure_items(
    store: Store,
    signal: Signal[Item],
    content_ids: Sequence[str],
    load: Callable[[Sequence[str]], Sequence[Item]],
    *,
    workers: int,
    now: datetime,
    advance: Advance = silent,
) -> Measured:
    """Measure one signal on the items that `load` gives for the content ids, and store the facts."""

    def work(batch: Sequence[str]) -> tuple[Rows, Measured]:
        return fact_rows(signal, batch, load(batch), now)

    total, waiting = Measured(), []
    for number, (rows, done) in enumerate(map_ordered(work, batches(content_ids), workers), 1):
        total.add(done)
        waiting += rows
        advance(done.calls[signal.name])
        if number * BATCH % TEXTS_A_PART == 0:
            append_facts(store, signal.name, waiting)
            waiting = []
    append_facts(store, signal.name, waiting)
    return total


def look_at(
    pictures: Sequence[Picture], signals: Sequence[Signal[Picture]], now: datetime
) -> tuple[dict[str, Rows], Measured]:
    """Every signal of some decoded pictures: rows by signal name."""
    ids = [picture.image_id for picture in pictures]
    total, rows = Measured(), {}
    for signal in signals if pictures else ():
        rows[signal.name], done = fact_rows(signal, ids, pictures, now)
        total.add(done)
    return rows, total


def look_at_stored(
    store: Store,
    images: StoredImages,
    image_ids: Sequence[str],
    signals: Sequence[Signal[Picture]],
    workers: int,
    now: datetime,
    advance: Advance = silent,
) -> Measured:
    """Decode stored pictures again, for signals that were added or failed after they were taken in."""

    def work(batch: Sequence[str]) -> tuple[dict[str, Rows], Measured]:
        return look_at(decoded(images, batch), signals, now)

    total = Measured()
    waiting: dict[str, Rows] = {signal.name: [] for signal in signals}
    for number, (rows, done) in enumerate(map_ordered(work, batches(image_ids), workers), 1):
        total.add(done)
        advance(max(done.calls.values()))
        for name, of_signal in rows.items():
            waiting[name] += of_signal
            if number * BATCH % PICTURES_A_PART == 0:
                append_facts(store, name, waiting[name])
                waiting[name] = []
    for name, of_signal in waiting.items():
        append_facts(store, name, of_signal)
    return total


def decoded(images: StoredImages, image_ids: Sequence[str]) -> list[Picture]:
    """Stored pictures, decoded again."""
    stored = [images[image_id] for image_id in image_ids]
    return [decode_stored(each.bytes, each.format, each.image_id) for each in stored]


def batches(ids: Sequence[str]) -> Iterator[Sequence[str]]:
    """The ids, some at a time."""
    for start in range(0, len(ids), BATCH):
        yield ids[start : start + BATCH]
