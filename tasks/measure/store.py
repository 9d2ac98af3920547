"""Which facts are missing, and the tables that facts are added to. A fact is measured once, ever."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import polars as pl

from schemas.tables import TABLES
from tasks.lookup.facts import facts, table_name
from tasks.measure.signal import Item, Signal
from tasks.providers.capabilities import Failed
from tasks.tables import Store, frame_schema


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
    """The content ids, sorted, that have no fact of the signal's version yet."""
    known = set(facts(store, signal.name, signal.version, [])["content_id"])
    return sorted(set(content_ids) - known)


def facts_without_picture(store: Store, signals: Iterable[Signal[Any]]) -> dict[str, set[str]]:
    """Signal -> content ids whose fact is recorded while the picture is not listed: a run was killed in between."""
    listed = store.read("images", ["image_id"])["image_id"]
    known = {signal.name: facts(store, signal.name, signal.version, [])["content_id"] for signal in signals}
    return {name: set(ids.filter(~ids.is_in(listed.implode()))) for name, ids in known.items()}


def fact_rows(
    signal: Signal[Item], content_ids: Sequence[str], items: Sequence[Item], now: datetime
) -> tuple[list[dict[str, Any]], Measured]:
    """Measure a batch: the rows to store, and what was done. Failures give no row, so they stay missing."""
    rows: list[dict[str, Any]] = []
    done = Measured(calls=Counter({signal.name: len(items)}))
    for content_id, value in zip(content_ids, signal.values(items), strict=True):
        if isinstance(value, Failed):
            done.failures[signal.name, value.reason] += 1
            continue
        key = {"content_id": content_id, "version": signal.version, "provider": signal.provider, "measured_at": now}
        rows.append(key | value.model_dump())
    return rows, done


def append_facts(store: Store, signal: str, rows: list[dict[str, Any]]) -> None:
    """Add measured rows to the signal's table."""
    if rows:
        store.add_parts(table_name(signal), [write_facts(store, signal, rows)])


def write_facts(store: Store, signal: str, rows: list[dict[str, Any]]) -> str:
    """Write measured rows as a part of the signal's table that no list names yet."""
    schema = frame_schema(TABLES[table_name(signal)].row)
    return store.write_part(table_name(signal), pl.DataFrame(rows, schema=schema))
