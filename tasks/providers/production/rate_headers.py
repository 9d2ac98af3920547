"""What the `x-ratelimit-*` headers of an answer say about the next calls (OpenAI, and servers that copy it)."""

import re
from collections.abc import Mapping
from typing import NamedTuple

_UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
_SPAN = re.compile(r"(\d+(?:\.\d+)?)(h|ms|m|s)")


class Room(NamedTuple):
    """What a service still takes."""

    calls: float
    """Calls now."""
    gap_seconds: float
    """Until it takes one more."""


def room(headers: Mapping[str, str], tokens_used: int | None) -> Room | None:
    """The tighter of the limits on requests and on tokens; None when the headers do not say.

    A limit refills evenly: `reset` is the time until nothing of it is used.
    """
    found = [_room(headers, "requests", 1)]
    if tokens_used:
        found.append(_room(headers, "tokens", tokens_used))
    said = [each for each in found if each]
    return Room(min(each.calls for each in said), max(each.gap_seconds for each in said)) if said else None


def _room(headers: Mapping[str, str], what: str, a_call: int) -> Room | None:
    try:
        limit, left = (float(headers[f"x-ratelimit-{name}-{what}"]) for name in ("limit", "remaining"))
        reset = span_seconds(headers[f"x-ratelimit-reset-{what}"])
    except (KeyError, ValueError):
        return None
    used = limit - left
    return Room(left / a_call, reset * a_call / used if used > 0 else 0.0)


def span_seconds(text: str) -> float:
    """Seconds of `6m0s`, `120ms` or `1.5`. Raises ValueError for anything else."""
    text = text.strip()
    parts = _SPAN.findall(text)
    if parts and "".join(number + unit for number, unit in parts) == text:
        return sum(float(number) * _UNITS[unit] for number, unit in parts)
    return float(text)
