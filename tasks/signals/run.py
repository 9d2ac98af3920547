"""Measures signals of images and texts, in batches, and appends the rows to the signal tables in parts.

In: items or texts of a store, and signals; `Measurer` finds which of them lack a value of a signal's version. Out: rows
in the tables of the signals. A part is written first and counts from when its name is in the table's list.

Batches run on threads of this process. With a task runner (Dask, Ray), shards run in its processes instead; a shard
writes one part a signal, so the parts are the same either way. Paid models keep their budget in this process; paid.py
has those of documents. A new kind of item is a class like `TextItems`.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import cached_property, lru_cache
from itertools import chain, islice
from typing import Any, NamedTuple

import polars as pl

from schemas.tables import TABLES
from tasks.images.decode import DecodedImage, decode_stored
from tasks.providers import Providers
from tasks.providers.capabilities import Failed
from tasks.runtime.parallel import ShardRunner, batch_of, map_ordered
from tasks.runtime.progress import Advance, Measured, progress, silent
from tasks.signals.registry import Item, Signal, image_signals, signal_of
from tasks.storage.parts import listed_in_batches
from tasks.storage.queries.signals import StoredImages, Versions, lacking_ids, missing_ids, signal_values, table_name
from tasks.storage.queries.texts import Texts, lacking_texts, with_texts
from tasks.storage.tables import Store, frame_schema

ITEMS_A_CALL = 32
"""Items of one call on a CPU."""
TEXTS_A_PART = 64 * ITEMS_A_CALL
"""Texts or documents per stored part. A killed run has to measure at most one part in progress again, a worker."""
IMAGES_A_PART = 8 * ITEMS_A_CALL
"""Images per stored part."""

RowsOfSignals = dict[str, list[dict[str, Any]]]
"""Signal, or the name of its table -> rows of that table."""
WrittenParts = tuple[list[tuple[str, str]], Measured]
"""(table, part) pairs that are written but not yet listed, and the counts of the work."""
Load = Callable[[Sequence[str]], Sequence[Item]]
"""Returns the items of these content ids, in order."""


def versions_by_name(signals: Mapping[str, Signal[Any]]) -> Versions:
    """Signal -> its version."""
    return {name: signal.version for name, signal in signals.items()}


_WANTED_IDS = """
    -- a row is one id as it was given
    SELECT content_id FROM wanted_ids
"""


def missing(store: Store, signal: Signal[Any], content_ids: Iterable[str]) -> list[str]:
    """The content ids, sorted, that have no value of the signal's version yet."""
    return missing_ids(store, signal.name, signal.version, content_ids)


def measured(
    signals: Iterable[Signal[Item]], content_ids: Sequence[str], items: Sequence[Item], now: datetime
) -> tuple[RowsOfSignals, Measured]:
    """Measure signals of one batch. Returns rows and counts; a failure gives no row, so the next run tries it again."""
    rows, done = RowsOfSignals(), Measured()
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


def write_rows(store: Store, rows: RowsOfSignals) -> list[tuple[str, str]]:
    """Write rows as parts of the signal tables. Returns (table, part) pairs, which are not listed yet."""
    # one pair a signal with rows: its table, and the part in which they are written
    return [
        (table, store.write_part(table, pl.DataFrame(rows_of_signal, schema=frame_schema(TABLES[table].row))))
        for table, rows_of_signal in (
            (table_name(name), rows_of_signal) for name, rows_of_signal in rows.items() if rows_of_signal
        )
    ]


class Shard(NamedTuple):
    """Items that lack the same signals. Their rows make one part per signal."""

    signals: tuple[str, ...]
    ids: Sequence[str]
    load: Load[Any]


def measure_items(
    store: Store,
    signals: Signal[Item] | Sequence[Signal[Item]],
    content_ids: Sequence[str],
    load: Load[Item],
    *,
    workers: int,
    now: datetime,
    advance: Advance = silent,
    part_items: int = TEXTS_A_PART,
) -> Measured:
    """Load the items of the content ids, measure the signals on threads, and store the values, also where some are."""
    signal_list = [signals] if isinstance(signals, Signal) else signals
    signals_by_name = {signal.name: signal for signal in signal_list}
    shards = (Shard(tuple(signals_by_name), ids, load) for ids in cut(content_ids, part_items))
    return _listed(store, _written(store, signals_by_name, shards, workers, now, advance))


def _written(
    store: Store,
    signals: Mapping[str, Signal[Any]],
    shards: Iterable[Shard],
    workers: int,
    now: datetime,
    advance: Advance = silent,
) -> Iterator[WrittenParts]:
    """Measure shards, none of them empty, on threads, and write the parts of each without listing them."""
    size = batch_of(ITEMS_A_CALL)

    def work(batch: Shard) -> tuple[RowsOfSignals, Measured]:
        return measured([signals[name] for name in batch.signals], batch.ids, batch.load(batch.ids), now)

    # The number of batches of each shard that has begun and is not written.
    batch_counts = deque[int]()

    def batches() -> Iterator[Shard]:
        for shard in shards:
            batches_of_shard = [shard._replace(ids=ids) for ids in cut(shard.ids, size)]
            batch_counts.append(len(batches_of_shard))
            yield from batches_of_shard

    results = map_ordered(work, batches(), workers)
    for first_result in results:
        # A result is one batch: the rows of each signal, and the counts of the work. Those of a shard are neighbours.
        results_of_shard = chain([first_result], islice(results, batch_counts.popleft() - 1))
        rows_of_shard, counts_of_shard = RowsOfSignals(), Measured()
        for rows_of_batch, counts_of_batch in results_of_shard:
            counts_of_shard.add(counts_of_batch)
            # Every signal of a shard sees every item, so the most calls are the items.
            advance(max(counts_of_batch.calls.values(), default=0))
            for name, rows_of_signal in rows_of_batch.items():
                rows_of_shard.setdefault(name, []).extend(rows_of_signal)
        yield write_rows(store, rows_of_shard), counts_of_shard


def _listed(store: Store, results: Iterable[WrittenParts], advance: Advance = silent) -> Measured:
    """Add written parts to their tables as results arrive. Returns the summed counts."""
    total = Measured()
    with listed_in_batches(store) as list_parts:
        for parts, done in results:
            list_parts(parts)
            total.add(done)
            advance(max(done.calls.values(), default=0))
    return total


def cut(ids: Sequence[str], size: int) -> Iterator[Sequence[str]]:
    """Split ids into batches of `size`."""
    return (ids[start : start + size] for start in range(0, len(ids), size))


class TextItems(NamedTuple):
    """Texts by content id."""

    text_of: Mapping[str, str]

    @property
    def part_items(self) -> int:
        """Items per stored part."""
        return TEXTS_A_PART

    def ordered(self, content_ids: Iterable[str]) -> list[str]:
        """Content ids in measuring order."""
        return sorted(content_ids)

    def only(self, content_ids: Sequence[str]) -> "TextItems":
        """A picklable subset with only these items."""
        return TextItems({content_id: self.text_of[content_id] for content_id in content_ids})

    def load(self, content_ids: Sequence[str]) -> list[str]:
        """The texts, in order."""
        return [self.text_of[content_id] for content_id in content_ids]


class ImageItems:
    """Stored images by content id. `part_of`: content id -> (table, part, row group)."""

    def __init__(self, store: Store, part_of: dict[str, tuple[str, str, int]]) -> None:
        self.part_of = part_of
        self._images = StoredImages(store, part_of=part_of)
        self._store = store

    def __reduce__(self) -> tuple[Any, ...]:
        return ImageItems, (self._store, self.part_of)

    @property
    def part_items(self) -> int:
        """Items per stored part."""
        return IMAGES_A_PART

    def ordered(self, content_ids: Iterable[str]) -> list[str]:
        """The ids that are stored, in the order in which they are stored."""
        return self._images.ordered(content_ids)

    def only(self, content_ids: Sequence[str]) -> "ImageItems":
        """A picklable subset with only these items."""
        return ImageItems(self._store, {content_id: self.part_of[content_id] for content_id in content_ids})

    def load(self, content_ids: Sequence[str]) -> list[DecodedImage]:
        """The decoded images, in order."""
        stored = [self._images[content_id] for content_id in content_ids]
        return [
            decode_stored(stored_image.bytes, stored_image.format, stored_image.image_id) for stored_image in stored
        ]


def _shards_of(items: TextItems | ImageItems, lacking_rows: pl.DataFrame, for_other_processes: bool) -> Iterator[Shard]:
    """Shards of items that lack a signal. What is sent to another process holds the items of its shard alone."""
    # A group is the items that lack the same signals, whose names are joined by commas.
    for (names,), group in sorted(lacking_rows.partition_by("signals", as_dict=True).items()):
        for ids in cut(items.ordered(group["content_id"]), items.part_items):
            items_of_shard = items.only(ids) if for_other_processes else items
            yield Shard(tuple(str(names).split(",")), ids, items_of_shard.load)


def _shards_of_texts(rows_of_texts: Iterable[pl.DataFrame]) -> Iterator[Shard]:
    """Shards of texts in the order in which they come. Rows have content_id, text and `signals`."""
    # Signals, joined by commas -> content id -> text; each has less texts than a part.
    waiting = dict[str, dict[str, str]]()
    for rows in rows_of_texts:
        for content_id, signals, text in rows.select("content_id", "signals", "text").iter_rows():
            texts = waiting.setdefault(signals, {})
            texts[content_id] = text
            if len(texts) == TEXTS_A_PART:
                yield _shard_of_texts(signals, waiting.pop(signals))
    for signals, texts in waiting.items():
        yield _shard_of_texts(signals, texts)


def _shard_of_texts(signals: str, texts: dict[str, str]) -> Shard:
    return Shard(tuple(signals.split(",")), [*texts], TextItems(texts).load)


class Measurer(NamedTuple):
    """Measures signals that items lack. It can be pickled, so that task runners can send it to their processes."""

    root: str
    providers: Providers
    now: datetime

    def measure(self, shard: Shard) -> WrittenParts:
        """Measure one shard on one thread and write its parts without listing them."""
        signals = {name: signal_of(name, self.providers) for name in shard.signals}
        (written,) = _written(Store(self.root), signals, [shard], 1, self.now)
        return written

    def measure_missing(
        self,
        store: Store,
        items: TextItems | ImageItems,
        signals: Mapping[str, Signal[Any]],
        content_ids: Iterable[str],
        workers: int,
        runner: ShardRunner | None,
    ) -> Measured:
        """Measure every signal that one of these items lacks; items that lack the same signals are loaded once.

        What is not more than one part stays in this process. Ids that are not stored are passed over.
        """
        wanted_ids, total = pl.DataFrame({"content_id": pl.Series([*content_ids], dtype=pl.String)}), Measured()
        for lacking_rows in lacking_ids(store, versions_by_name(signals), _WANTED_IDS, {"wanted_ids": wanted_ids}):
            chosen_runner = runner if lacking_rows.height > items.part_items else None
            shards = _shards_of(items, lacking_rows, for_other_processes=chosen_runner is not None)
            total.add(self._measure_shards(store, shards, lacking_rows.height, signals, workers, chosen_runner))
        return total

    def measure_texts(
        self,
        store: Store,
        texts: Texts,
        signals: Mapping[str, Signal[Any]],
        versions: Versions,
        workers: int,
        runner: ShardRunner | None,
    ) -> Measured:
        """Measure every signal that one of these texts of the store lacks. Texts are read some at a time.

        `versions` are those of all signals in use, for `lacking_texts`.
        """
        total = Measured()
        for lacking_rows in lacking_texts(store, texts, versions_by_name(signals), versions):
            chosen_runner = runner if lacking_rows.height > TEXTS_A_PART else None
            shards = _shards_of_texts(with_texts(store, lacking_rows, texts.kind, versions))
            total.add(self._measure_shards(store, shards, lacking_rows.height, signals, workers, chosen_runner))
        return total

    def _measure_shards(
        self,
        store: Store,
        shards: Iterable[Shard],
        item_count: int,
        signals: Mapping[str, Signal[Any]],
        workers: int,
        runner: ShardRunner | None,
    ) -> Measured:
        """Measure shards of `item_count` items in all: on a runner, or on threads where there is none.

        Paid signals are measured in this process, which holds the budget.
        """
        with progress(", ".join(signals), item_count) as advance:
            if runner is None:
                return _listed(store, _written(store, signals, shards, workers, self.now, advance))
            total = Measured()
            without_paid = self._without_paid(store, shards, signals, workers, total)
            total.add(_listed(store, runner.map_ordered(self.measure, without_paid), advance))
            return total

    def _without_paid(
        self, store: Store, shards: Iterable[Shard], signals: Mapping[str, Signal[Any]], workers: int, total: Measured
    ) -> Iterator[Shard]:
        """Measure the paid signals of each shard, add their counts to `total`, and yield the shard with the others."""
        paid = self.providers.paid(signals)
        for shard in shards:
            for_here = shard._replace(signals=tuple(name for name in shard.signals if name in paid))
            elsewhere = shard._replace(signals=tuple(name for name in shard.signals if name not in paid))
            if for_here.signals:
                total.add(_listed(store, _written(store, signals, [for_here], workers, self.now)))
            if elsewhere.signals:
                yield elsewhere


class MeasuringObserver:
    """Measures image signals while images are taken in and decoded. Loads providers at first use.

    With `free_only` it skips paid signals, which `catch_up_images` measures later: nothing is sent before a run has
    read its logs and knows what it would cost. So does a copy in another process, because budget and rate limits are
    kept in the main process only.
    """

    def __init__(self, store: Store, providers: Providers, now: datetime, free_only: bool = False) -> None:
        self._store, self._providers, self._now, self._free_only = store, providers, now, free_only

    def __reduce__(self) -> tuple[Any, ...]:
        return _in_this_process, (self._store.root, tuple(sorted(self._providers.names.items())), self._now)

    @cached_property
    def _signals(self) -> list[Signal[DecodedImage]]:
        signals = image_signals(self._providers)
        paid = self._providers.paid(signals) if self._free_only else set()
        return [signal for name, signal in signals.items() if name not in paid]

    @cached_property
    def _recorded(self) -> dict[str, set[str]]:
        """Signal -> ids that have a value although the image is not listed, because a run was killed in between."""
        listed = self._store.read("images", ["image_id"])["image_id"].implode()
        ids_by_signal = {
            signal.name: signal_values(self._store, signal.name, signal.version, [])["content_id"]
            for signal in self._signals
        }
        return {name: set(ids.filter(~ids.is_in(listed))) for name, ids in ids_by_signal.items()}

    def measure(self, images: Sequence[DecodedImage]) -> tuple[RowsOfSignals, Measured]:
        """Measure these images: rows by table, and counts. Thread-safe."""
        rows, total = RowsOfSignals(), Measured()
        for signal in self._signals:
            new = [image for image in images if image.image_id not in self._recorded[signal.name]]
            of_signal, done = measured([signal], [image.image_id for image in new], new, self._now)
            rows |= {table_name(name): signal_rows for name, signal_rows in of_signal.items()}
            total.add(done)
        return rows, total


@lru_cache(maxsize=1)
def _in_this_process(store: str, names: tuple[tuple[str, str], ...], now: datetime) -> MeasuringObserver:
    """The observer that all shards of a run share in this process."""
    return MeasuringObserver(Store(store), Providers(dict(names)), now, free_only=True)
