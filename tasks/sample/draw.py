"""The benchmark: as many prompts from every topic as from any other, or by the size of topics, as far as they reach."""

import hashlib
import math
from collections.abc import Callable, Mapping, Sequence


def quotas(sizes: Mapping[int, int], total: int) -> dict[int, int]:
    """Seats for each topic: equal shares, topics smaller than their share leave the rest to the others.

    Two topics with documents to spare differ by one seat at most. Seats that do not divide evenly go to the largest
    topics, then to the lower numbers.
    """
    seats, left = {}, min(total, sum(sizes.values()))
    for place, topic in enumerate(sorted(sizes, key=lambda t: (sizes[t], -t))):
        seats[topic] = min(sizes[topic], left // (len(sizes) - place))
        left -= seats[topic]
    return seats


def proportional_quotas(sizes: Mapping[int, int], total: int) -> dict[int, int]:
    """Seats for each topic by its size, one at least while there are as many (divisor method of Webster, 1832).

    Seat by seat to the topic with the largest size / (2 seats + 1), of equals to the lower number. That is above
    a half for a topic with prompts to spare and below for one without, so none gets more seats than it has prompts.
    """
    seats = dict.fromkeys(sizes, 0)
    for _ in range(min(total, sum(sizes.values()))):
        seats[max(sizes, key=lambda t: (not seats[t], sizes[t] / (2 * seats[t] + 1), -t))] += 1
    return seats


def draw(
    documents: Mapping[int, Sequence[str]],
    total: int,
    seed: int,
    weights: Mapping[str, float] | None = None,
    seats_of: Callable[[Mapping[int, int], int], dict[int, int]] = quotas,
) -> dict[int, list[str]]:
    """Documents drawn from each topic, `total` in all or as many as there are; none twice.

    Which ones is decided by a hash of seed and document, so that tomorrow's new documents move few of today's.
    Within a topic a document of twice the weight is twice as likely to come first (Efraimidis and Spirakis 2006).
    """
    seats = seats_of({topic: len(members) for topic, members in documents.items()}, total)
    heavy = weights or {}
    return {
        topic: sorted(members, key=lambda document: _place(document, seed, heavy.get(document, 1.0)))[: seats[topic]]
        for topic, members in documents.items()
    }


def lot(document: str, seed: int) -> str:
    """32 hex digits; sorting by them is a draw."""
    return hashlib.blake2b(f"{seed}/{document}".encode(), digest_size=16).hexdigest()


def _place(document: str, seed: int, weight: float) -> tuple[float, str]:
    """What a document is sorted by: exponential with rate `weight`."""
    drawn = lot(document, seed)
    return -math.log1p(-int(drawn[:13], 16) / 2**52) / weight, drawn
