"""The benchmark: as many prompts from every topic as from any other, as far as topics reach."""

import hashlib
import math
from collections.abc import Mapping, Sequence


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


def draw(
    documents: Mapping[int, Sequence[str]], total: int, seed: int, weights: Mapping[str, float] | None = None
) -> dict[int, list[str]]:
    """Documents drawn from each topic, `total` in all or as many as there are; none twice.

    Which ones is decided by a hash of seed and document, so that tomorrow's new documents move few of today's.
    Within a topic a document of twice the weight is twice as likely to come first (Efraimidis and Spirakis 2006).
    """
    seats = quotas({topic: len(members) for topic, members in documents.items()}, total)
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
