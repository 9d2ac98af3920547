"""Measuring by a model that is paid by the item: nothing that was answered is asked again, even after a kill."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from datetime import datetime
from functools import partial
from typing import Any, Generic, NamedTuple

import polars as pl

from tasks.lookup.facts import table_name
from tasks.measure.run import batches, measure_items
from tasks.measure.signal import Item, Signal
from tasks.measure.store import Measured, append_facts, fact_rows
from tasks.providers.capabilities import RemoteModel
from tasks.running.parallel import map_as_done
from tasks.running.progress import Advance, progress, silent
from tasks.tables import Store

PART_ITEMS = 32
"""Answers that are stored at once: what a killed run has to ask again at most, besides the calls under way."""

Load = Callable[[Sequence[str]], Sequence[Item]]


def measure_one_by_one(
    store: Store,
    signal: Signal[Item],
    model: RemoteModel,
    content_ids: Sequence[str],
    load: Load[Item],
    *,
    now: datetime,
    advance: Advance = silent,
) -> Measured:
    """Ask about each item alone, as many at once as the model allows, in whatever order the answers come."""

    def work(content_id: str) -> tuple[list[dict[str, Any]], Measured]:
        return fact_rows(signal, [content_id], load([content_id]), now)

    total, before = Measured(), store.parts(table_name(signal.name))
    waiting: list[dict[str, Any]] = []
    try:
        for rows, done in map_as_done(work, content_ids, model.calls_at_once):
            total.add(done)
            waiting += rows
            advance()
            if len(waiting) >= PART_ITEMS:
                append_facts(store, signal.name, waiting)
                waiting = []
    finally:
        append_facts(store, signal.name, waiting)
    _merge(store, table_name(signal.name), before)
    return total


def _merge(store: Store, table: str, before: Sequence[str]) -> None:
    """One part of the many small ones that came after `before`."""
    new = store.parts(table)[len(before) :]
    if len(new) > 1:
        merged = store.write_part(table, pl.concat([store.read_part(table, part) for part in new]))
        store.list_parts(table, [*before, merged])


class Overnight(NamedTuple, Generic[Item]):
    """One signal of items that are asked about overnight."""

    signal: Signal[Item]
    model: RemoteModel
    content_ids: Sequence[str]
    load: Load[Item]


def measure_overnight(
    store: Store, work: Sequence[Overnight[Item]], *, hours: float, workers: int, now: datetime
) -> Measured:
    """Ask about all items of all signals together: once over them for the questions, once more for the answers."""
    total, nights = Measured(), []
    with ExitStack() as stack:
        for signal, model, content_ids, load in work:
            nights.append(stack.enter_context(model.together(store, hours)))
            ask = partial(_collect, signal, load)
            with progress(f"{signal.name}: questions", len(content_ids)) as advance:
                for count in map_as_done(ask, batches(content_ids), workers):
                    advance(count)
            nights[-1].send()
        for night, (signal, _, content_ids, load) in zip(nights, work, strict=True):
            night.wait()
            total.add(measure_items(store, signal, content_ids, load, workers=workers, now=now))
    return total


def _collect(signal: Signal[Item], load: Load[Item], content_ids: Sequence[str]) -> int:
    return len(signal.values(load(content_ids)))
