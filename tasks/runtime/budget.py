"""The use of paid services in a run, its budget, and the price file."""

import json
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime
from pathlib import Path

import yaml
from pydantic import ValidationError

from schemas.errors import BadInput, problem_in_words
from schemas.run import Prices, Use
from tasks.runtime.health import Health
from tasks.runtime.untrusted import read_yaml

SHIPPED_PRICES = Path(__file__).parent / "prices.yaml"


def load_prices(file: str | None = None) -> Prices:
    """The price file, by default the shipped one. Raises BadInput with the first error in it."""
    path = Path(file) if file else SHIPPED_PRICES
    try:
        return Prices.model_validate_json(json.dumps(read_yaml(path), default=str))
    except OSError:
        raise BadInput(f"price file {str(path)!r} cannot be read") from None
    except (yaml.YAMLError, UnicodeDecodeError):
        raise BadInput(f"price file {str(path)!r} is not YAML") from None
    except ValidationError as error:
        problem = error.errors()[0]
        where = ".".join(map(str, problem["loc"])) or "the whole file"
        what = f"{where}: {problem_in_words(problem)}"
        raise BadInput(f"price file {str(path)!r}: {what}; see the shipped prices.yaml") from None


def check_prices(prices: Prices, providers: Iterable[object]) -> None:
    """Raises BadInput when a chosen paid service has no price, because its calls could not count against a budget."""
    for service in sorted({name for provider in providers if (name := getattr(provider, "service", None))}):
        if prices.tokens(service) is None and service not in prices.unit_prices:
            raise BadInput(
                f"--budget: the price file has no price for {service!r}; add it to a copy, give --prices FILE"
            )


def covers(provider: str, service: str) -> bool:
    """Whether a limit under this name is about a service: `openai` is, about all of OpenAI's; "" about every one."""
    return not provider or service == provider or service.startswith((f"{provider}-", f"{provider}_"))


class Bill(AbstractContextManager["Bill"]):
    """The cost of one running call. Closed without `settle`, it counts as its reserved price, unconfirmed.

    One that an earlier run has counted at `counted_usd`, which may be 0, stays so without `settle`, and replaces that
    with it.
    """

    def __init__(self, ledger: "Ledger", service: str, most_usd: float, counted_usd: float | None = None) -> None:
        self._ledger, self._service, self._counted_usd = ledger, service, counted_usd
        self.most_usd = most_usd
        """US dollars that are reserved for it."""
        self._use = Use(calls=1, usd_unconfirmed=most_usd) if counted_usd is None else Use()

    def settle(self, use: Use) -> None:
        """The use that the service reported."""
        counted = {} if self._counted_usd is None else {"calls": 0, "usd_settled": self._counted_usd}
        self._use = use.model_copy(update=counted)

    def settle_units(self, units: int) -> None:
        """One call that is billed by so many units, at the price file's price."""
        usd = self._ledger.prices.unit_usd(self._service)
        self.settle(Use(calls=1, calls_unpriced=int(usd is None), units=units, usd=units * (usd or 0.0)))

    def settle_tokens(self, input_tokens: int | None, output_tokens: int | None, *, batch: bool = False) -> None:
        """One call with the tokens that the service counted; without both counts it stays unconfirmed."""
        if input_tokens is None or output_tokens is None:
            return
        price = self._ledger.prices.tokens(self._service)
        usd = (price.batch_usd if batch else price.usd)(input_tokens, output_tokens) if price else 0.0
        counted = {"input_tokens": input_tokens, "output_tokens": output_tokens}
        self.settle(Use(calls=1, calls_unpriced=int(price is None), usd=usd, **counted))

    def nothing(self) -> None:
        """The service rejected the call, so it costs nothing."""
        self.settle(Use(calls=1))

    def __exit__(self, *_: object) -> None:
        self._ledger.close(self._service, self.most_usd, self._use)


class Ledger:
    """The use of one run. Every call first reserves its highest price, so that no limit is ever exceeded."""

    def __init__(self, prices: Prices, budget_usd: float | None = None) -> None:
        self.prices = prices
        self.began_at = datetime.now(UTC)
        self.announce: Callable[[], None] | None = None
        """Called once, before the first call to a paid service."""
        self._limits = {} if budget_usd is None else {"": budget_usd}
        self._use: dict[str, Use] = {}
        self._reserved_usd, self._running = defaultdict[str, float](float), 0
        self._spent_usd = defaultdict[str, float](float)
        """By service, US dollars beyond what earlier runs have counted for the same calls."""
        self._healths = defaultdict[str, Health](Health)
        self._changed = threading.Condition()

    @property
    def budget_usd(self) -> float | None:
        """US dollars that the run may spend in all; None without a limit."""
        return self._limits.get("")

    def limit(self, usd: float, provider: str = "") -> None:
        """Lower what the run may spend in all, or at the services that `provider` covers, to this, if it was more."""
        with self._changed:
            self._limits[provider] = min(usd, self._limits.get(provider, usd))

    def health(self, service: str) -> Health:
        """Whether the service answers the calls of this run."""
        with self._changed:
            return self._healths[service]

    def try_again(self) -> bool:
        """Let one call to each paused service through; whether there are any."""
        with self._changed:
            were_paused = [health.try_again() for health in self._healths.values()]
        return any(were_paused)

    def reserve(self, service: str, most_usd: float | None, *, wait: bool = True) -> Bill | None:
        """A bill for a call that costs at most `most_usd`; None when it exceeds the budget.

        With `wait`, waits while running calls may turn out cheaper than reserved. A call without a known price fits in
        no budget.
        """
        with self._changed:
            announce, self.announce = self.announce, None
        if announce is not None:
            announce()
        with self._changed:
            while not self._has_room(service, most_usd):
                if most_usd is None or not self._running or not wait:
                    return None
                self._changed.wait()
            return self._open(service, most_usd or 0.0)

    def late_bill(self, service: str, counted_usd: float | None = None) -> Bill:
        """A bill for a call of an earlier run, which is not checked against this budget.

        `counted_usd` is what that run counts for it, if it is of the same month; only what exceeds it is taken from
        this budget.
        """
        with self._changed:
            return self._open(service, 0.0, counted_usd)

    def _open(self, service: str, most_usd: float, counted_usd: float | None = None) -> Bill:
        self._reserved_usd[service] += most_usd
        self._running += 1
        return Bill(self, service, most_usd, counted_usd)

    def _has_room(self, service: str, most_usd: float | None) -> bool:
        return all(
            most_usd is not None and self._taken_usd(provider) + most_usd <= limit_usd
            for provider, limit_usd in self._limits.items()
            if covers(provider, service)
        )

    def _taken_usd(self, provider: str) -> float:
        """US dollars that the services of `provider` have cost, or may still cost."""
        spent = sum(usd for name, usd in self._spent_usd.items() if covers(provider, name))
        return spent + sum(usd for name, usd in self._reserved_usd.items() if covers(provider, name))

    def close(self, service: str, most_usd: float, use: Use) -> None:
        """Replace a reservation by the actual use."""
        with self._changed:
            self._running -= 1
            self._reserved_usd[service] -= most_usd
            if not self._running:
                self._reserved_usd.clear()  # with the rounding errors of its sums
            self._use[service] = self._use.get(service, Use()).plus(use)
            self._spent_usd[service] += max(0.0, use.usd + use.usd_unconfirmed - use.usd_settled)
            self._changed.notify_all()

    def use(self) -> dict[str, Use]:
        """Use so far, by service."""
        with self._changed:
            return dict(self._use)

    def since(self, before: dict[str, Use]) -> dict[str, Use]:
        """Use since `before`, by service; services of which nothing is new are left out."""
        after = {service: use.minus(before.get(service, Use())) for service, use in sorted(self.use().items())}
        return {service: use for service, use in after.items() if use != Use()}


_current: Ledger | None = None
_depth = 0
_guard = threading.Lock()


def ledger() -> Ledger:
    """The ledger of the current run; outside of a run, one without a budget."""
    return _current or start_ledger()


def start_ledger(budget_usd: float | None = None, prices: str | None = None) -> Ledger:
    """Start with an empty ledger. Raises BadInput for an unusable price file."""
    global _current
    _current = Ledger(load_prices(prices), budget_usd)
    return _current


def in_run() -> bool:
    """Whether a run is under way in this process."""
    return bool(_depth)


@contextmanager
def one_ledger(budget_usd: float | None, prices: str | None) -> Iterator[None]:
    """One ledger for a run and all its stages."""
    global _depth
    with _guard:
        if not _depth:
            start_ledger(budget_usd, prices)
        _depth += 1
    try:
        yield
    finally:
        with _guard:
            _depth -= 1
