"""Measures what is missing, batch by batch, and stores the rows part by part as they come. A value is measured once.

Batches run on the threads of this process. With a task runner (Dask, Ray) whole shards run in its processes instead: a
shard holds the batches whose rows make one part, so the parts are the same. Models that are paid by the item: paid.py.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import polars as pl

from schemas.tables import TABLES
from tasks.images.decode import DecodedImage, decode_stored
from tasks.providers import Providers
from tasks.providers.capabilities import Failed
from tasks.runtime.parallel import map_ordered
from tasks.runtime.progress import Advance, progress, silent
from tasks.runtime.shards import ShardRunner
from tasks.signals import Item, Signal, image_signals, signal_of
from tasks.storage.queries.images import StoredImages
from tasks.storage.queries.signals import facts, table_name
from tasks.storage.tables import Store, frame_schema

BATCH = 32
TEXTS_A_PART = 64 * BATCH
"""Texts or documents whose values are stored at once: what a killed run has to measure again at most."""
PICTURES_A_PART = 8 * BATCH
"""The same of images."""

Rows = dict[str, list[dict[str, Any]]]
"""Signal -> rows of its table."""
Written = tuple[list[tuple[str, str]], "Measured"]
"""(table, part) that no list names yet, and what was done."""
Load = Callable[[Sequence[str]], Sequence[Item]]
"""Gives items by content id, in order."""


@dataclass
class Measured:
    """What a measuring step did: calls and failures by signal name."""

    calls: Counter[str] = field(default_factory=Counter)
    failures: Counter[tuple[str, str]] = field(default_factory=Counter)

    def add(self, other: "Measured") -> None:
        """Count what another part of the work did."""
        self.calls += other.calls
        self.failures += other.failures


def missing(store: Store, signal: Signal[Any], content_ids: Iterable[str]) -> list[str]:
    """The content ids, sorted, that have no value of the signal's version yet."""
    known = set(facts(store, signal.name, signal.version, [])["content_id"])
    return sorted(set(content_ids) - known)


def measured(
    signals: Iterable[Signal[Item]], content_ids: Sequence[str], items: Sequence[Item], now: datetime
) -> tuple[Rows, Measured]:
    """Measure signals of a batch: the rows to store, and what was done. Failures give no row, so they stay missing."""
    rows, done = Rows(), Measured()
    for signal in signals if items else ():
        key = {"version": signal.version, "provider": signal.provider, "measured_at": now}
        of_signal = rows.setdefault(signal.name, [])
        done.calls[signal.name] += len(items)
        for content_id, value in zip(content_ids, signal.values(items), strict=True):
            if isinstance(value, Failed):
                done.failures[signal.name, value.reason] += 1
            else:
                of_signal.append({"content_id": content_id, **key, **value.model_dump()})
    return rows, done


def measure_images(
    images: Sequence[DecodedImage], signals: Iterable[Signal[DecodedImage]], now: datetime
) -> tuple[Rows, Measured]:
    """`measured` of decoded images, which know their content ids."""
    return measured(signals, [image.image_id for image in images], images, now)


def write_rows(store: Store, rows: Rows) -> list[tuple[str, str]]:
    """Write rows as parts of the signals' tables; (table, part) of each, which no list names yet."""
    return [
        (table, store.write_part(table, pl.DataFrame(found, schema=frame_schema(TABLES[table].row))))
        for table, found in ((table_name(name), found) for name, found in rows.items() if found)
    ]


def append_rows(store: Store, rows: Rows) -> None:
    """Add measured rows to the signals' tables."""
    for table, part in write_rows(store, rows):
        store.add_parts(table, [part])


def measure_items(
    store: Store,
    signals: Signal[Item] | Sequence[Signal[Item]],
    content_ids: Sequence[str],
    load: Load[Item],
    *,
    workers: int,
    now: datetime,
    advance: Advance = silent,
    part_items: int | None = None,
) -> Measured:
    """Measure signals of the items that `load` gives for the content ids, on threads, and store the values."""
    several = [signals] if isinstance(signals, Signal) else signals
    parts = _parts(several, content_ids, load, workers, now, part_items or TEXTS_A_PART, advance)
    return _listed(store, ((write_rows(store, rows), done) for rows, done in parts))


def _parts(
    signals: Sequence[Signal[Item]],
    content_ids: Sequence[str],
    load: Load[Item],
    workers: int,
    now: datetime,
    part_items: int,
    advance: Advance = silent,
) -> Iterator[tuple[Rows, Measured]]:
    """The rows of `part_items` items after the other."""

    def work(batch: Sequence[str]) -> tuple[Rows, Measured]:
        return measured(signals, batch, load(batch), now)

    rows, total = Rows(), Measured()
    for number, (of_batch, done) in enumerate(map_ordered(work, list(cut(content_ids, BATCH)), workers), 1):
        total.add(done)
        advance(max(done.calls.values(), default=0))
        for name, found in of_batch.items():
            rows.setdefault(name, []).extend(found)
        if number * BATCH % part_items == 0:
            yield rows, total
            rows, total = Rows(), Measured()
    yield rows, total


def _listed(store: Store, results: Iterable[Written], advance: Advance = silent) -> Measured:
    """Name the parts in the lists of their tables as they come."""
    total = Measured()
    for parts, done in results:
        for table, part in parts:
            store.add_parts(table, [part])
        total.add(done)
        advance(max(done.calls.values(), default=0))
    return total


def cut(ids: Sequence[str], size: int) -> Iterator[Sequence[str]]:
    """The ids, `size` at a time."""
    return (ids[start : start + size] for start in range(0, len(ids), size))


class TextItems(NamedTuple):
    """Texts by content id."""

    text_of: Mapping[str, str]

    @property
    def part_items(self) -> int:
        """Items of one part."""
        return TEXTS_A_PART

    def ordered(self, content_ids: Iterable[str]) -> list[str]:
        """The ids in the order in which they are measured."""
        return sorted(content_ids)

    def only(self, content_ids: Sequence[str]) -> "TextItems":
        """These items alone, to travel to another process."""
        return TextItems({content_id: self.text_of[content_id] for content_id in content_ids})

    def load(self, content_ids: Sequence[str]) -> list[str]:
        """The texts, in order."""
        return [self.text_of[content_id] for content_id in content_ids]


class ImageItems:
    """Stored images by content id, each decoded once for all signals. `part_of`: content id -> (table, part)."""

    def __init__(self, store: Store, part_of: dict[str, tuple[str, str]]) -> None:
        self.part_of = part_of
        self._images = StoredImages(store, part_of=part_of)
        self._store = store

    def __reduce__(self) -> tuple[Any, ...]:
        return _image_items, (self._store.root, self.part_of)

    @property
    def part_items(self) -> int:
        """Items of one part."""
        return PICTURES_A_PART

    def ordered(self, content_ids: Iterable[str]) -> list[str]:
        """The ids that are stored, those of one part together."""
        return self._images.ordered(content_ids)

    def only(self, content_ids: Sequence[str]) -> "ImageItems":
        """These items alone, to travel to another process."""
        return ImageItems(self._store, {content_id: self.part_of[content_id] for content_id in content_ids})

    def load(self, content_ids: Sequence[str]) -> list[DecodedImage]:
        """The decoded images, in order."""
        stored = [self._images[content_id] for content_id in content_ids]
        return [decode_stored(each.bytes, each.format, each.image_id) for each in stored]


def _image_items(root: str, part_of: dict[str, tuple[str, str]]) -> ImageItems:
    return ImageItems(Store(root), part_of)


class Shard(NamedTuple):
    """Items that lack the same signals and whose rows make one part of each."""

    signals: tuple[str, ...]
    ids: Sequence[str]
    items: TextItems | ImageItems


class Measurer(NamedTuple):
    """Measures what items lack; travels to the processes of a task runner."""

    root: str
    providers: Providers
    now: datetime

    def measure(self, shard: Shard) -> Written:
        """One shard, in this process on one thread; its parts are named in no list yet."""
        chosen, store = [signal_of(name, self.providers) for name in shard.signals], Store(self.root)
        ((rows, done),) = _parts(chosen, shard.ids, shard.items.load, 1, self.now, len(shard.ids) + BATCH)
        return write_rows(store, rows), done

    def measure_missing(
        self,
        store: Store,
        items: TextItems | ImageItems,
        signals: Mapping[str, Signal[Any]],
        content_ids: Iterable[str],
        workers: int,
        runner: ShardRunner | None,
    ) -> Measured:
        """What each item lacks; items that lack the same signals are loaded once for all of them.

        Signals that are paid for stay in this process, where the budget is, and so does what fills no more than a part.
        """
        wanted, lacking, total = list(content_ids), dict[str, list[str]](), Measured()
        for name, signal in signals.items():
            for content_id in missing(store, signal, wanted):
                lacking.setdefault(content_id, []).append(name)
        for names in sorted({tuple(names) for names in lacking.values()}):
            ids = items.ordered(each for each, of_item in lacking.items() if tuple(of_item) == names)
            paid = self.providers.paid(names) if runner else set()
            elsewhere = tuple(name for name in names if name not in paid)
            away = runner if elsewhere and len(ids) > items.part_items else None
            here = [signals[name] for name in names if name in paid or not away]
            with progress(", ".join(names), len(ids)) as advance:
                if away:
                    shards = (Shard(elsewhere, some, items.only(some)) for some in cut(ids, items.part_items))
                    total.add(_listed(store, away.map_ordered(self.measure, shards), advance))
                if here:
                    total.add(
                        measure_items(
                            store, here, ids, items.load, workers=workers, now=self.now,
                            advance=silent if away else advance, part_items=items.part_items,
                        )
                    )  # fmt: skip
        return total


Looked = tuple[Rows, Measured]


class MeasuringObserver:
    """Measures every image signal that is not recorded, on the decode that ingest makes. Loads providers at first use.

    A copy in another process leaves out what is paid for: there, no budget and no pace is kept. What was left out is
    missing, so that `catch_up_pictures` measures it.
    """

    def __init__(self, store: Store, providers: Providers, now: datetime, spread: bool = False) -> None:
        self._store, self._providers, self._now, self._spread = store, providers, now, spread
        self.done = Measured()

    def __reduce__(self) -> tuple[Any, ...]:
        return _in_this_process, (self._store.root, tuple(sorted(self._providers.names.items())), self._now)

    @cached_property
    def _signals(self) -> list[Signal[DecodedImage]]:
        signals = image_signals(self._providers)
        paid = self._providers.paid(signals) if self._spread else set()
        return [signal for name, signal in signals.items() if name not in paid]

    @cached_property
    def _recorded(self) -> dict[str, set[str]]:
        """Signal -> ids that have a value while the image is not listed: a run was killed in between."""
        listed = self._store.read("images", ["image_id"])["image_id"].implode()
        known = {each.name: facts(self._store, each.name, each.version, [])["content_id"] for each in self._signals}
        return {name: set(ids.filter(~ids.is_in(listed))) for name, ids in known.items()}

    def look(self, pictures: Sequence[DecodedImage]) -> Looked:
        """Measure; safe on any thread."""
        rows, total = Rows(), Measured()
        for signal in self._signals:
            new = [picture for picture in pictures if picture.image_id not in self._recorded[signal.name]]
            of_signal, done = measure_images(new, [signal], self._now)
            rows |= of_signal
            total.add(done)
        return rows, total

    def write(self, seen: Sequence[Looked], image_ids: AbstractSet[str]) -> Written:
        """Write the values of these images; others were measured by another thread at the same moment."""
        rows, total = Rows(), Measured()
        for found, done in seen:
            total.add(done)
            for name, of_signal in found.items():
                rows.setdefault(name, []).extend(row for row in of_signal if row["content_id"] in image_ids)
        return write_rows(self._store, rows), total

    def count(self, done: Measured) -> None:
        """Count what was done, in this process or another."""
        self.done.add(done)


@lru_cache(maxsize=1)
def _in_this_process(store: str, names: tuple[tuple[str, str], ...], now: datetime) -> MeasuringObserver:
    """The one that all shards of a run share here."""
    return MeasuringObserver(Store(store), Providers(dict(names)), now, spread=True)
