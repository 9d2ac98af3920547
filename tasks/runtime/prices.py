"""The price file: what paid services cost."""

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
    """How a vendor counts the tokens of an image."""

    tile_pixels: int = Field(gt=0)
    """Side of one tile."""
    tiles_max: int = Field(gt=0)
    """Maximum tiles of one image."""
    tokens_a_tile: float = Field(ge=0, allow_inf_nan=False)
    """Tokens billed for each tile."""


class Price(Row):
    """The source of a price."""

    source: str = ""
    """Page that states the price."""
    date: str = ""
    """Day it was read, YYYY-MM-DD."""
    confirmed: bool = False
    """Whether it was read from the vendor's page."""


class TokenPrice(Price):
    """Price of a language model."""

    input_usd_per_million: float = Field(ge=0, allow_inf_nan=False)
    """US dollars per million input tokens."""
    output_usd_per_million: float = Field(ge=0, allow_inf_nan=False)
    """US dollars per million output tokens."""
    batch_share: float = Field(default=1.0, ge=0, le=1)
    """Price of the vendor's batch API as a fraction of this price."""
    image: ImagePrice
    """Tokens of images."""

    def usd(self, input_tokens: float, output_tokens: float) -> float:
        """US dollars of one call."""
        return (input_tokens * self.input_usd_per_million + output_tokens * self.output_usd_per_million) / 1e6

    def batch_usd(self, input_tokens: float, output_tokens: float) -> float:
        """US dollars of one question in a batch."""
        return self.batch_share * self.usd(input_tokens, output_tokens)

    def image_tokens(self, width: int, height: int) -> int:
        """Tokens of an image of this size in pixels, as sent."""
        side = self.image.tile_pixels
        tiles = min(self.image.tiles_max, math.ceil(width / side) * math.ceil(height / side))
        return math.ceil(tiles * self.image.tokens_a_tile)


class UnitPrice(Price):
    """Price of a service that bills units."""

    usd_per_thousand: float = Field(ge=0, allow_inf_nan=False)
    """US dollars per thousand units."""


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
    """The price file, by default the shipped one. Raises BadInput with the first error in it."""
    path = Path(file) if file else SHIPPED
    try:
        return Prices.model_validate_json(json.dumps(read_yaml(path), default=str))
    except OSError:
        raise BadInput(f"price file {str(path)!r} cannot be read") from None
    except (yaml.YAMLError, UnicodeDecodeError):
        raise BadInput(f"price file {str(path)!r} is not YAML") from None
    except ValidationError as error:
        problem = error.errors()[0]
        where = ".".join(map(str, problem["loc"])) or "the whole file"
        raise BadInput(f"price file {str(path)!r}: {where}: {problem['msg']}; see the shipped prices.yaml") from None


def check_prices(prices: Prices, providers: Iterable[object]) -> None:
    """Raises BadInput when a chosen paid service has no price, because its calls could not count against a budget."""
    for service in sorted({name for provider in providers if (name := getattr(provider, "service", None))}):
        if prices.tokens(service) is None and service not in prices.unit_prices:
            raise BadInput(
                f"--budget: the price file has no price for {service!r}; add it to a copy, give --prices FILE"
            )
