"""Money: what services cost by the price file, what a run has used, and a budget that no call may exceed."""

import json
import math
import threading
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Self

import yaml
from pydantic import Field, ValidationError

from schemas.errors import BadInput
from schemas.row import Row
from schemas.run import Use

SHIPPED = Path(__file__).parent / "prices.yaml"


class PicturePrice(Row):
    """How a vendor turns a picture into tokens."""

    tile_pixels: int = Field(gt=0)
    """Side of one tile."""
    tiles_max: int = Field(gt=0)
    """Tiles of one picture at most."""
    tokens_a_tile: float = Field(ge=0, allow_inf_nan=False)
    """Tokens billed for each tile."""


class Price(Row):
    """Where a price comes from."""

    source: str = ""
    """Page that states it."""
    date: str = ""
    """Day it was written down, YYYY-MM-DD."""
    confirmed: bool = False
    """Whether it was read from that page."""


class TokenPrice(Price):
    """Price of a language model."""

    input_usd_per_million: float = Field(ge=0, allow_inf_nan=False)
    """US dollars for a million tokens sent."""
    output_usd_per_million: float = Field(ge=0, allow_inf_nan=False)
    """US dollars for a million tokens answered."""
    batch_share: float = Field(default=1.0, ge=0, le=1)
    """Share of the price that the vendor's batch interface costs."""
    picture: PicturePrice
    """Tokens of pictures."""

    def usd(self, input_tokens: float, output_tokens: float) -> float:
        """US dollars of one call."""
        return (input_tokens * self.input_usd_per_million + output_tokens * self.output_usd_per_million) / 1e6

    def picture_tokens(self, width: int, height: int) -> int:
        """Tokens of a picture of this size in pixels, as sent."""
        side = self.picture.tile_pixels
        tiles = min(self.picture.tiles_max, math.ceil(width / side) * math.ceil(height / side))
        return math.ceil(tiles * self.picture.tokens_a_tile)


class UnitPrice(Price):
    """Price of a service that bills units."""

    usd_per_thousand: float = Field(ge=0, allow_inf_nan=False)
    """US dollars for a thousand units."""


class Prices(Row):
    """A price file."""

    token_prices: dict[str, TokenPrice] = Field(default={}, alias="tokens")
    """By vendor and model."""
    unit_prices: dict[str, UnitPrice] = Field(default={}, alias="units")
    """By service."""

    def tokens(self, service: str) -> TokenPrice | None:
        """Price of a model; None when the file has none."""
        return self.token_prices.get(service)

    def unit_usd(self, service: str) -> float | None:
        """US dollars of one unit; None when the file has no price."""
        price = self.unit_prices.get(service)
        return None if price is None else price.usd_per_thousand / 1000


def load_prices(file: str | None = None) -> Prices:
    """The price file, by default the shipped one. Raises BadInput with the first thing wrong in it."""
    path = Path(file) if file else SHIPPED
    try:
        return Prices.model_validate_json(_as_json(path))
    except OSError:
        raise BadInput(f"price file {str(path)!r} cannot be read") from None
    except (yaml.YAMLError, UnicodeDecodeError):
        raise BadInput(f"price file {str(path)!r} is not YAML") from None
    except ValidationError as error:
        problem = error.errors()[0]
        where = ".".join(map(str, problem["loc"])) or "the whole file"
        raise BadInput(f"price file {str(path)!r}: {where}: {problem['msg']}; see the shipped prices.yaml") from None


def _as_json(path: Path) -> str:
    return json.dumps(yaml.safe_load(path.read_text("utf-8")), default=str)


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

    def reserve(self, service: str, most_usd: float | None) -> Bill | None:
        """A bill for a call that costs at most this; None when the budget has no room for it.

        Waits while calls under way may leave room. A call without a known price has no room in any budget.
        """
        with self._changed:
            while not self._has_room(most_usd):
                if most_usd is None or not self._under_way:
                    return None
                self._changed.wait()
            self._reserved_usd += most_usd or 0.0
            self._under_way += 1
        return Bill(self, service, most_usd or 0.0)

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


def check_prices(providers: Iterable[object]) -> None:
    """Whether every chosen paid service has a price. Raises BadInput, because a budget could not be kept without."""
    prices = ledger().prices
    for service in sorted({name for provider in providers if (name := getattr(provider, "service", None))}):
        if prices.tokens(service) is None and service not in prices.unit_prices:
            raise BadInput(
                f"--budget: the price file has no price for {service!r}; add it to a copy, give --prices FILE"
            )


_current: list[Ledger] = []


def ledger() -> Ledger:
    """The ledger of the run in this process; without a run, one without a budget."""
    if not _current:
        _current.append(Ledger(load_prices()))
    return _current[0]


def start_ledger(budget_usd: float | None = None, prices: str | None = None) -> Ledger:
    """Begin a run: nothing used yet. Raises BadInput for a price file that cannot be used."""
    _current[:] = [Ledger(load_prices(prices), budget_usd)]
    return _current[0]
