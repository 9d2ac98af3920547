"""The price file: what paid services cost."""

import math

from pydantic import Field

from schemas.row import Row


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
