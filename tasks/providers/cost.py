"""Cost of calls to paid services, before they are made. A provider says itself what it would send; nothing is sent.

In: sizes of items, a provider and the price file. Out: rows of `curate estimate`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from schemas.asked_model import AskedModel
from schemas.errors import BadInput
from schemas.run import Estimate, Prices
from tasks.images.decode import DecodedImage
from tasks.providers.capabilities import Document, TopicEvidence
from tasks.providers.upload import encoded_size, sent_size

Count = Callable[[str], int]
"""Tokens of a text."""
Size = tuple[int, int]
"""Width and height in pixels."""
Sent = tuple[str, Sequence[tuple[str, bytes]]]
"""Text of a call, and its images as (png or jpeg, encoded)."""


@dataclass(frozen=True)
class ItemSize:
    """An item, as far as its cost depends on it."""

    text: str = ""
    """A text, or the prompt of a document; an image has none."""
    images: tuple[Size, ...] = ()
    """The image, or the stored images of a document."""


@dataclass(frozen=True)
class ExpectedUse:
    """Amounts that measuring some items would send to a service."""

    calls: int
    """Requests, without retries."""
    units: int = 0
    """Billed units; their price is under `units` of the price file."""
    input_tokens: int = 0
    """Tokens of texts; their price is under `tokens` of the price file."""
    image_sizes: Sequence[Size] = ()
    """Every image as sent, for services that bill tokens; the price file says how many tokens it has."""
    output_tokens: int = 0
    """Expected tokens of all answers."""
    output_tokens_most: int = 0
    """Tokens of all answers if each had the maximum length."""

    def plus(self, other: "ExpectedUse") -> "ExpectedUse":
        """The sum of both."""
        return ExpectedUse(
            self.calls + other.calls, self.units + other.units, self.input_tokens + other.input_tokens,
            [*self.image_sizes, *other.image_sizes], self.output_tokens + other.output_tokens,
            self.output_tokens_most + other.output_tokens_most,
        )  # fmt: skip


class Billed(Protocol):
    """A paid provider's statements about its cost. With `service` alone, every item is one call and one billed unit."""

    service: str
    """Name in the price file."""
    shares_calls: bool
    """Whether one request asks about an item for all capabilities of the service."""

    def expected_use(self, items: Sequence[ItemSize], count: Count) -> ExpectedUse:
        """Amounts that measuring these items would send."""


def expected_use(provider: Any, items: Sequence[ItemSize], count: Count) -> ExpectedUse:
    """Use that a provider expects, or else one call and one unit an item. Raises BadInput for one that cannot say."""
    if not hasattr(provider, "expected_use"):
        return ExpectedUse(len(items), units=len(items))
    try:
        stated_use = provider.expected_use(items, count)
    except Exception as error:  # of another package's code; its text may quote an item
        stated_use = type(error).__name__
    if not isinstance(stated_use, ExpectedUse):
        raise BadInput(
            f"provider of service {provider.service!r}: expected_use must return an ExpectedUse, and it gave "
            f"{stated_use!r}; see docs/extending.md"
        )
    return stated_use


def estimate_row(
    service: str, what: str, items: int, use: ExpectedUse, prices: Prices, mode: str = "one by one", most: float = 1.0
) -> Estimate:
    """One row; `mode` is `one by one` or `batch`, and `most` how many times the expected calls may be made.

    Its money is None when the price file lacks a price that it needs.
    """
    price, unit_usd = prices.tokens(service), prices.unit_usd(service)
    input_tokens = use.input_tokens + (sum(price.image_tokens(*size) for size in use.image_sizes) if price else 0)
    lacking = (
        (use.units and unit_usd is None)
        or (use.output_tokens_most and price is None)
        or (price is None and unit_usd is None)
    )

    def usd(output_tokens: int) -> float | None:
        if lacking:
            return None
        share = price.batch_share if price and mode == "batch" else 1.0
        return use.units * (unit_usd or 0.0) + (share * price.usd(input_tokens, output_tokens) if price else 0.0)

    expected, dearest = usd(use.output_tokens), usd(use.output_tokens_most)
    return Estimate(
        service=service, mode=mode, signals=what, items=items, calls=use.calls, units=use.units,
        input_tokens=input_tokens, output_tokens=use.output_tokens,
        usd=expected, usd_most=dearest and dearest * most,
    )  # fmt: skip


def chat_cost(
    model: AskedModel,
    what: str,
    calls: Sequence[Sent],
    answer_tokens: int,
    prices: Prices,
    count: Count,
    more_tokens: int = 0,
) -> list[Estimate]:
    """Two rows; a server of one's own has one, because its batches would not be cheaper.

    `answer_tokens` is the expected length of an answer; the most is the model's `answer_tokens_max`.
    `more_tokens` are input of the calls that is not known as text yet.
    """
    use = ExpectedUse(
        calls=len(calls),
        input_tokens=more_tokens + sum(count(text) for text, _ in calls),
        image_sizes=[sent_size(*encoded_size(encoded)) for _, images in calls for _, encoded in images],
        output_tokens=len(calls) * min(answer_tokens, model.answer_tokens_max),
        output_tokens_most=len(calls) * model.answer_tokens_max,
    )
    modes = ("one by one",) if model.self_hosted else ("one by one", "batch")
    return [estimate_row(model.service, what, len(calls), use, prices, mode) for mode in modes]


def size_of(item: str | DecodedImage | Document | TopicEvidence) -> ItemSize:
    """The size of what a provider gets."""
    if isinstance(item, str):
        return ItemSize(item)
    if isinstance(item, DecodedImage):
        return ItemSize(images=((item.width, item.height),))
    if isinstance(item, Document):
        return ItemSize(item.prompt, tuple(encoded_size(encoded) for _, encoded in item.images))
    return ItemSize("\n".join((*item.keywords, *item.exemplars)))
