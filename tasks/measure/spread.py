"""Texts and stored pictures measured in the worker processes of a task runner, shard by shard.

A shard holds the batches that threads of one process would measure together, so that its parts are the same.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from tasks.lookup.facts import table_name
from tasks.lookup.images import StoredImages
from tasks.measure import DESCRIPTIVE_TEXT_SIGNALS, SCREENING_TEXT_SIGNALS, picture_signals, run
from tasks.measure.picture_look import WrittenFacts
from tasks.measure.run import Rows, batches, decoded, look_at
from tasks.measure.store import Measured, fact_rows, write_facts
from tasks.providers import Providers
from tasks.running.progress import Advance
from tasks.running.shards import ShardRunner
from tasks.tables import Store


class TextShard(NamedTuple):
    """Texts that lack the same signals."""

    signals: tuple[str, ...]
    ids: Sequence[str]
    texts: Sequence[str]


class PictureShard(NamedTuple):
    """Stored pictures that lack the same signals."""

    signals: tuple[str, ...]
    part_of: dict[str, tuple[str, str]]
    """Content id -> (table, part), in the order in which they are measured."""


class ShardMeasurer(NamedTuple):
    """Measures shards and writes their facts as parts that no list names yet; travels to other processes."""

    store: str
    providers: Providers
    now: datetime

    def texts(self, shard: TextShard) -> WrittenFacts:
        """One shard of texts."""
        text_of = dict(zip(shard.ids, shard.texts, strict=True))
        makers = SCREENING_TEXT_SIGNALS | DESCRIPTIVE_TEXT_SIGNALS
        rows: dict[str, Rows] = {name: [] for name in shard.signals}
        total = Measured()
        for name in shard.signals:
            signal = makers[name][1](self.providers)
            for batch in batches(shard.ids):
                measured, done = fact_rows(signal, batch, [text_of[text_id] for text_id in batch], self.now)
                rows[name] += measured
                total.add(done)
        return self._write(rows, total)

    def pictures(self, shard: PictureShard) -> WrittenFacts:
        """One shard of stored pictures, each decoded once."""
        images = StoredImages(Store(self.store), part_of=shard.part_of)
        every = picture_signals(self.providers)
        rows: dict[str, Rows] = {name: [] for name in shard.signals}
        total = Measured()
        for batch in batches(list(shard.part_of)):
            measured, done = look_at(decoded(images, batch), [every[name] for name in shard.signals], self.now)
            for name in shard.signals:
                rows[name] += measured[name]
            total.add(done)
        return self._write(rows, total)

    def _write(self, rows: dict[str, Rows], total: Measured) -> WrittenFacts:
        store, measured = Store(self.store), {name: of_signal for name, of_signal in rows.items() if of_signal}
        return [(table_name(name), write_facts(store, name, found)) for name, found in measured.items()], total


class Spread:
    """Gives shards of one step to a task runner and lists what comes back."""

    def __init__(self, runner: ShardRunner, store: Store, providers: Providers, now: datetime) -> None:
        self._runner, self._store = runner, store
        self._measurer = ShardMeasurer(store.root, providers, now)

    def texts(
        self, signals: Sequence[str], ids: Sequence[str], text_of: Mapping[str, str], advance: Advance
    ) -> Measured:
        """Measure signals of texts that all lack them."""
        shards = (
            TextShard(tuple(signals), some, [text_of[text_id] for text_id in some])
            for some in _cut(ids, run.TEXTS_A_PART)
        )
        return self._list(self._runner.map_ordered(self._measurer.texts, shards), signals[0], advance)

    def pictures(self, signals: Sequence[str], ids: Sequence[str], images: StoredImages, advance: Advance) -> Measured:
        """Measure signals of stored pictures that all lack them."""
        shards = (
            PictureShard(tuple(signals), {image_id: images.part_of[image_id] for image_id in some})
            for some in _cut(ids, run.PICTURES_A_PART)
        )
        return self._list(self._runner.map_ordered(self._measurer.pictures, shards), signals[0], advance)

    def _list(self, results: Iterator[WrittenFacts], counted: str, advance: Advance) -> Measured:
        total = Measured()
        for parts, done in results:
            for table, part in parts:
                self._store.add_parts(table, [part])
            total.add(done)
            advance(done.calls[counted])
        return total


def _cut(ids: Sequence[str], size: int) -> Iterator[Sequence[str]]:
    for start in range(0, len(ids), size):
        yield ids[start : start + size]
