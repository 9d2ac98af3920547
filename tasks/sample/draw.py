"""The benchmark: as many prompts from every topic as from any other, as far as topics reach."""

import hashlib
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


def draw(documents: Mapping[int, Sequence[str]], total: int, seed: int) -> dict[int, list[str]]:
    """Documents drawn from each topic, `total` in all or as many as there are.

    Which ones is decided by a hash of seed and document, so that tomorrow's new documents move few of today's.
    """
    seats = quotas({topic: len(members) for topic, members in documents.items()}, total)
    return {
        topic: sorted(members, key=lambda document: _lot(document, seed))[: seats[topic]]
        for topic, members in documents.items()
    }


def _lot(document: str, seed: int) -> bytes:
    return hashlib.blake2b(f"{seed}/{document}".encode(), digest_size=16).digest()
