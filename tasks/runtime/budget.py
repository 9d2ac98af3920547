"""What a run has used of paid services, and a budget that no call may exceed."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Self

from schemas.run import Use
from tasks.runtime.prices import Prices, load_prices


class Bill:
    """One call under way. Left without a bill, it counts as its highest price, unconfirmed."""

    def __init__(self, ledger: "Ledger", service: str, most_usd: float) -> None:
        self._ledger, self._service, self._most_usd = ledger, service, most_usd
        self._use = Use(calls=1, usd_unconfirmed=most_usd)

    def settle(self, use: Use) -> None:
        """What the service counted."""
        self._use = use

    def nothing(self) -> None:
        """The service turned the call down."""
        self._use = Use(calls=1)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._ledger.close(self._service, self._most_usd, self._use)


class Ledger:
    """What one run has used. Every call reserves its highest price first, so that the budget is never exceeded."""

    def __init__(self, prices: Prices, budget_usd: float | None = None) -> None:
        self.prices = prices
        self.budget_usd = budget_usd
        self._use: dict[str, Use] = {}
        self._reserved_usd, self._under_way = 0.0, 0
        self._changed = threading.Condition()

    def reserve(self, service: str, most_usd: float | None, *, wait: bool = True) -> Bill | None:
        """A bill for a call that costs at most this; None when the budget has no room for it.

        Waits while calls under way may leave room, unless told not to. A call without a known price has no room in
        any budget.
        """
        with self._changed:
            while not self._has_room(most_usd):
                if most_usd is None or not self._under_way or not wait:
                    return None
                self._changed.wait()
            return self._open(service, most_usd or 0.0)

    def late_bill(self, service: str) -> Bill:
        """A bill for a call that an earlier run made: it is owed whatever the budget of this one."""
        with self._changed:
            return self._open(service, 0.0)

    def _open(self, service: str, most_usd: float) -> Bill:
        self._reserved_usd += most_usd
        self._under_way += 1
        return Bill(self, service, most_usd)

    def _has_room(self, most_usd: float | None) -> bool:
        if self.budget_usd is None:
            return True
        spent = sum(use.usd + use.usd_unconfirmed for use in self._use.values())
        return most_usd is not None and spent + self._reserved_usd + most_usd <= self.budget_usd

    def close(self, service: str, most_usd: float, use: Use) -> None:
        """Replace a reservation by what was used."""
        with self._changed:
            self._under_way -= 1
            self._reserved_usd = self._reserved_usd - most_usd if self._under_way else 0.0
            self._use[service] = self._use.get(service, Use()).plus(use)
            self._changed.notify_all()

    def use(self) -> dict[str, Use]:
        """By service, so far."""
        with self._changed:
            return dict(self._use)

    def since(self, before: dict[str, Use]) -> dict[str, Use]:
        """By service, what came after `before`; services that were not called are left out."""
        after = {service: use.minus(before.get(service, Use())) for service, use in sorted(self.use().items())}
        return {service: use for service, use in after.items() if use.calls}


_current: list[Ledger] = []
_depth = 0
_guard = threading.Lock()


def ledger() -> Ledger:
    """The ledger of the run in this process; without a run, one without a budget."""
    if not _current:
        _current.append(Ledger(load_prices()))
    return _current[0]


def start_ledger(budget_usd: float | None = None, prices: str | None = None) -> Ledger:
    """Begin a run: nothing used yet. Raises BadInput for a price file that cannot be used."""
    _current[:] = [Ledger(load_prices(prices), budget_usd)]
    return _current[0]


@contextmanager
def one_ledger(budget_usd: float | None, prices: str | None) -> Iterator[bool]:
    """One ledger, and so one budget, for a run and every stage that it calls. Gives whether this is the outermost."""
    global _depth
    with _guard:
        outermost = not _depth
        if outermost:
            start_ledger(budget_usd, prices)
        _depth += 1
    try:
        yield outermost
    finally:
        with _guard:
            _depth -= 1
