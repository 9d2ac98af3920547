"""What services cost, by the price file."""

import json
import math
from collections.abc import Iterable
from pathlib import Path

import yaml
from pydantic import Field, ValidationError

from schemas.errors import BadInput
from schemas.row import Row
from tasks.runtime.yaml_files import read_yaml

SHIPPED = Path(__file__).parent / "prices.yaml"


class ImagePrice(Row):
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
    picture: ImagePrice
    """Tokens of pictures."""

    def usd(self, input_tokens: float, output_tokens: float) -> float:
        """US dollars of one call."""
        return (input_tokens * self.input_usd_per_million + output_tokens * self.output_usd_per_million) / 1e6

    def batch_usd(self, input_tokens: float, output_tokens: float) -> float:
        """US dollars of one question in a batch."""
        return self.batch_share * self.usd(input_tokens, output_tokens)

    def image_tokens(self, width: int, height: int) -> int:
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
    return json.dumps(read_yaml(path), default=str)


def check_prices(prices: Prices, providers: Iterable[object]) -> None:
    """Whether every chosen paid service has a price. Raises BadInput, because a budget could not be kept without."""
    for service in sorted({name for provider in providers if (name := getattr(provider, "service", None))}):
        if prices.tokens(service) is None and service not in prices.unit_prices:
            raise BadInput(
                f"--budget: the price file has no price for {service!r}; add it to a copy, give --prices FILE"
            )
