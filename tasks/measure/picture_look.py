"""What ingest is given so that picture signals are measured on the decode that gives a picture its identity."""

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from datetime import datetime
from functools import cached_property, lru_cache
from typing import Any

from tasks.lookup.facts import table_name
from tasks.measure import picture_signals
from tasks.measure.run import Rows, look_at
from tasks.measure.signal import Signal
from tasks.measure.store import Measured, facts_without_picture, write_facts
from tasks.pixels.pictures import Picture
from tasks.providers import Providers
from tasks.tables import Store

Looked = tuple[dict[str, Rows], Measured]


WrittenFacts = tuple[list[tuple[str, str]], Measured]
"""(parts, what was done): parts are (table, part), and no list names them yet."""


class PictureLook:
    """Measures every picture signal that is not recorded. `providers` are loaded when it first looks.

    A copy in another process leaves out what is paid for: there, no budget and no pace is kept. Whatever was left out
    is missing, so that `catch_up_pictures` measures it.
    """

    def __init__(self, store: Store, providers: Providers, now: datetime, spread: bool = False) -> None:
        self._store, self._providers, self._now, self._spread = store, providers, now, spread
        self.done = Measured()

    def __reduce__(self) -> tuple[Any, ...]:
        return _in_this_process, (self._store.root, tuple(sorted(self._providers.names.items())), self._now)

    @cached_property
    def _signals(self) -> list[Signal[Picture]]:
        signals = picture_signals(self._providers)
        paid = self._providers.paid(signals) if self._spread else set()
        return [signal for name, signal in signals.items() if name not in paid]

    @cached_property
    def _measured(self) -> dict[str, set[str]]:
        return facts_without_picture(self._store, self._signals)

    def look(self, pictures: Sequence[Picture]) -> Looked:
        """Measure; safe on any thread."""
        rows, total = {}, Measured()
        for signal in self._signals:
            recorded = self._measured[signal.name]
            new = [picture for picture in pictures if picture.image_id not in recorded]
            of_signal, done = look_at(new, [signal], self._now)
            rows[signal.name] = of_signal.get(signal.name, [])
            total.add(done)
        return rows, total

    def write(self, seen: Sequence[Looked], image_ids: AbstractSet[str]) -> WrittenFacts:
        """Write the facts of these pictures; others were measured by another thread at the same moment."""
        parts, total = [], Measured()
        for signal in self._signals if seen else ():
            rows = [row for of_look, _ in seen for row in of_look[signal.name] if row["content_id"] in image_ids]
            if rows:
                parts.append((table_name(signal.name), write_facts(self._store, signal.name, rows)))
        for _, done in seen:
            total.add(done)
        return parts, total

    def count(self, done: Measured) -> None:
        """Count what was done, in this process or another."""
        self.done.add(done)


@lru_cache(maxsize=1)
def _in_this_process(store: str, names: tuple[tuple[str, str], ...], now: datetime) -> PictureLook:
    """The one that all shards of a run share here."""
    return PictureLook(Store(store), Providers(dict(names)), now, spread=True)
