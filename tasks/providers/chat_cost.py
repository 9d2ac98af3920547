"""Cost of calls to one model of a models file, one by one and in batches. Sends nothing."""

from collections.abc import Sequence

from schemas.asked_model import AskedModel
from schemas.run import Estimate, Prices
from tasks.providers.cost import Count as Count
from tasks.providers.cost import ExpectedUse, estimate_row
from tasks.providers.upload import encoded_size, sent_size

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
    use = ExpectedUse(
        calls=len(calls),
        input_tokens=more_tokens + sum(count(text) for text, _ in calls),
        image_sizes=[sent_size(*encoded_size(encoded)) for _, images in calls for _, encoded in images],
        output_tokens=len(calls) * min(answer_tokens, asked.answer_tokens_max),
        output_tokens_most=len(calls) * asked.answer_tokens_max,
    )
    modes = ("one by one",) if asked.self_hosted else ("one by one", "batch")
    return [estimate_row(asked.service, what, len(calls), use, prices, mode) for mode in modes]
