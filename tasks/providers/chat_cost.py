"""What calls to one model of a models file would cost, one by one and in batches. Sends nothing."""

import io
from collections.abc import Callable, Iterable, Sequence

import PIL.Image

from schemas.asked_model import AskedModel
from schemas.run import Estimate, Prices, TokenPrice
from tasks.images.decode import FORMATS

SIDE_MAX = 1600
"""Longer side of a sent image (`tasks/providers/production/upload.py`; a test holds them equal)."""

Count = Callable[[str], int]
"""Tokens of a text."""
Sent = tuple[str, Sequence[tuple[str, bytes]]]
"""Text of a call, and its images as (png or jpeg, encoded)."""


def chat_cost(
    asked: AskedModel,
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
    price, number = prices.tokens(asked.service), len(calls)
    tokens = more_tokens + sum(
        count(text) + (sum(_image_tokens(images, price)) if price else 0) for text, images in calls
    )
    expected = min(answer_tokens, asked.answer_tokens_max)
    found = []
    for mode in ("one by one",) if asked.self_hosted else ("one by one", "batch"):
        usd = (price.batch_usd if mode == "batch" else price.usd) if price else None
        found.append(Estimate(
            service=asked.service, mode=mode, signals=what, items=number, calls=number, input_tokens=tokens,
            output_tokens=number * expected,
            usd=usd(tokens, number * expected) if usd else None,
            usd_most=usd(tokens, number * asked.answer_tokens_max) if usd else None,
        ))  # fmt: skip
    return found


def _image_tokens(images: Iterable[tuple[str, bytes]], price: TokenPrice) -> Iterable[int]:
    for _, encoded in images:
        width, height = PIL.Image.open(io.BytesIO(encoded), formats=FORMATS).size
        scale = min(1.0, SIDE_MAX / max(width, height))
        yield price.image_tokens(max(1, round(width * scale)), max(1, round(height * scale)))
