"""Measures signals that items lack, in batches, and appends the rows to the signal tables in parts.

Batches run on threads of this process. With a task runner (Dask, Ray), shards run in its processes instead; one shard
writes one part, so the parts are the same either way. For paid models see paid.py.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import polars as pl

from schemas.tables import TABLES
from tasks.images.decode import DecodedImage, decode_stored
from tasks.providers import Providers
from tasks.providers.capabilities import Failed
from tasks.runtime.parallel import ShardRunner, batch_of, map_ordered
from tasks.runtime.progress import Advance, Measured, progress, silent
from tasks.signals.registry import Item, Signal, image_signals, signal_of
from tasks.storage.content_id import Distinct
from tasks.storage.parts import listed_in_batches
from tasks.storage.queries.signals import StoredImages, missing_ids, signal_values, table_name
from tasks.storage.tables import Store, frame_schema

BATCH = 32
"""Items of one call on a CPU."""
TEXTS_A_PART = 64 * BATCH
"""Texts or documents per stored part. A killed run has to measure at most this many again."""
IMAGES_A_PART = 8 * BATCH
"""Images per stored part."""

Rows = dict[str, list[dict[str, Any]]]
"""Signal name -> rows of its table."""
Written = tuple[list[tuple[str, str]], Measured]
"""(table, part) pairs that are written but not yet listed, and the counts of the work."""
Load = Callable[[Sequence[str]], Sequence[Item]]
"""Returns the items of these content ids, in order."""


def missing(store: Store, signal: Signal[Any], content_ids: Iterable[str]) -> list[str]:
    """The content ids, sorted, that have no value of the signal's version yet."""
    return missing_ids(store, signal.name, signal.version, content_ids)


class Lacking:
    """Content ids that lack some of these signals. What is stored takes 8 bytes an id and signal (`Distinct`)."""

    def __init__(self, store: Store, signals: Mapping[str, Signal[Any]]) -> None:
        self._stored, self._found = dict[str, Distinct](), Distinct()
        self._lacking = [pl.DataFrame(schema={"content_id": pl.String, "signals": pl.String})]
        for name, signal in signals.items():
            known = self._stored[name] = Distinct()
            for rows in store.read_slices(table_name(name), ["content_id", "version"]):
                known.add(rows.filter(version=signal.version)["content_id"])

    def add(self, content_ids: pl.Series) -> None:
        """Look for these ids; those of earlier calls are passed over."""
        ids = content_ids.drop_nulls().unique()
        ids = ids.filter(~self._found.has(ids))
        lacks = [pl.when(~known.has(ids)).then(pl.lit(name)) for name, known in self._stored.items()]
        rows = pl.DataFrame({"content_id": ids}).with_columns(
            signals=pl.concat_str(*lacks, pl.lit(None, pl.String), separator=",", ignore_nulls=True)
        )
        rows = rows.filter(pl.col("signals") != "")
        self._found.add(rows["content_id"])
        self._lacking.append(rows)

    def by_signals(self) -> dict[tuple[str, ...], pl.Series]:
        """Names of signals, in their order -> the ids that lack just these."""
        groups = pl.concat(self._lacking).partition_by("signals", as_dict=True)
        return {tuple(str(names).split(",")): rows["content_id"] for (names,), rows in groups.items()}


def measured(
    signals: Iterable[Signal[Item]], content_ids: Sequence[str], items: Sequence[Item], now: datetime
) -> tuple[Rows, Measured]:
    """Measure signals of one batch. Returns rows and counts; a failure gives no row, so the next run tries it again."""
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


def write_rows(store: Store, rows: Rows) -> list[tuple[str, str]]:
    """Write rows as parts of the signal tables. Returns (table, part) pairs, which are not listed yet."""
    return [
        (table, store.write_part(table, pl.DataFrame(found, schema=frame_schema(TABLES[table].row))))
        for table, found in ((table_name(name), found) for name, found in rows.items() if found)
    ]


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
    """Load the items of the content ids, measure the signals on threads, and store the values."""
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
    """Yield rows and counts, `part_items` items at a time."""

    def work(batch: Sequence[str]) -> tuple[Rows, Measured]:
        return measured(signals, batch, load(batch), now)

    rows, total, size = Rows(), Measured(), batch_of(BATCH)
    for number, (of_batch, done) in enumerate(map_ordered(work, list(cut(content_ids, size)), workers), 1):
        total.add(done)
        advance(max(done.calls.values(), default=0))
        for name, found in of_batch.items():
            rows.setdefault(name, []).extend(found)
        if number * size % part_items == 0:
            yield rows, total
            rows, total = Rows(), Measured()
    yield rows, total


def _listed(store: Store, results: Iterable[Written], advance: Advance = silent) -> Measured:
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
        return [decode_stored(each.bytes, each.format, each.image_id) for each in stored]


class Shard(NamedTuple):
    """Items that lack the same signals. Their rows make one part per signal."""

    signals: tuple[str, ...]
    ids: Sequence[str]
    items: TextItems | ImageItems


class Measurer(NamedTuple):
    """Measures signals that items lack. It can be pickled, so that task runners can send it to their processes."""

    root: str
    providers: Providers
    now: datetime

    def measure(self, shard: Shard) -> Written:
        """Measure one shard on one thread and write its parts without listing them."""
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
        """Measure every signal that an item lacks; items that lack the same signals are loaded once.

        Paid signals are measured in this process, which holds the budget; so is work of at most one part.
        """
        lacking = Lacking(store, signals)
        lacking.add(pl.Series([*content_ids], dtype=pl.String))
        return self.measure_lacking(store, items, signals, lacking, workers, runner)

    def measure_lacking(
        self,
        store: Store,
        items: TextItems | ImageItems,
        signals: Mapping[str, Signal[Any]],
        lacking: Lacking,
        workers: int,
        runner: ShardRunner | None,
    ) -> Measured:
        """The same for items of which is known what they lack."""
        total = Measured()
        for names, some_ids in sorted(lacking.by_signals().items()):
            ids = items.ordered(some_ids)
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


class MeasuringObserver:
    """Measures image signals during ingest, on the images that ingest decodes. Loads providers at first use.

    A copy in another process skips paid signals, because budget and rate limits are kept in the main process only;
    `catch_up_images` measures them later.
    """

    def __init__(self, store: Store, providers: Providers, now: datetime, spread: bool = False) -> None:
        self._store, self._providers, self._now, self._spread = store, providers, now, spread

    def __reduce__(self) -> tuple[Any, ...]:
        return _in_this_process, (self._store.root, tuple(sorted(self._providers.names.items())), self._now)

    @cached_property
    def _signals(self) -> list[Signal[DecodedImage]]:
        signals = image_signals(self._providers)
        paid = self._providers.paid(signals) if self._spread else set()
        return [signal for name, signal in signals.items() if name not in paid]

    @cached_property
    def _recorded(self) -> dict[str, set[str]]:
        """Signal -> ids that have a value although the image is not listed, because a run was killed in between."""
        listed = self._store.read("images", ["image_id"])["image_id"].implode()
        known = {
            each.name: signal_values(self._store, each.name, each.version, [])["content_id"] for each in self._signals
        }
        return {name: set(ids.filter(~ids.is_in(listed))) for name, ids in known.items()}

    def measure(self, images: Sequence[DecodedImage]) -> tuple[Rows, Measured]:
        """Measure these images: rows by table, and counts. Thread-safe."""
        rows, total = Rows(), Measured()
        for signal in self._signals:
            new = [image for image in images if image.image_id not in self._recorded[signal.name]]
            of_signal, done = measured([signal], [image.image_id for image in new], new, self._now)
            rows |= {table_name(name): found for name, found in of_signal.items()}
            total.add(done)
        return rows, total


@lru_cache(maxsize=1)
def _in_this_process(store: str, names: tuple[tuple[str, str], ...], now: datetime) -> MeasuringObserver:
    """The observer that all shards of a run share in this process."""
    return MeasuringObserver(Store(store), Providers(dict(names)), now, spread=True)
