"""Personal data in texts -> placeholders."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

REPEATED_CHARACTERS_MIN = 4
"""Shorter values are replaced only where the finder found them."""


class Span(NamedTuple):
    """A stretch of text to replace: the characters from `start` up to `end`."""

    start: int
    end: int
    type: str


def placeholder(kind: str) -> str:
    """`email` -> `<EMAIL>`."""
    return f"<{kind.upper()}>"


def values_of(text: str, spans: Iterable[Span]) -> dict[str, str]:
    """What the spans hold -> its type: it may stand again where the finder does not see it."""
    held = ((text[span.start : span.end].strip(), span.type) for span in spans)
    return {value: kind for value, kind in held if len(value) >= REPEATED_CHARACTERS_MIN}


def redact_text(text: str, spans: Iterable[Span], values: Mapping[str, str]) -> tuple[str, Counter[str]]:
    """The text with every span, and every other occurrence of the values, replaced; and how many of each type."""
    pieces: list[str] = []
    counts: Counter[str] = Counter()
    end = 0
    for span in _without_overlaps([*spans, *_repeats(text, values)]):
        pieces += [text[end : span.start], placeholder(span.type)]
        counts[span.type] += 1
        end = span.end
    return "".join([*pieces, text[end:]]), counts


def _repeats(text: str, values: Mapping[str, str]) -> Iterable[Span]:
    """Where the values stand as whole words, but not as a placeholder."""
    for value, kind in values.items():
        if value in text:
            for found in re.finditer(rf"(?<![\w<]){re.escape(value)}(?![\w>])", text):
                yield Span(found.start(), found.end(), kind)


def _without_overlaps(spans: Iterable[Span]) -> list[Span]:
    """Spans in order of position; those that overlap are one, of the type that begins first."""
    merged: list[Span] = []
    for span in sorted(spans, key=lambda span: (span.start, -span.end, span.type)):
        if merged and span.start < merged[-1].end:
            merged[-1] = merged[-1]._replace(end=max(merged[-1].end, span.end))
        else:
            merged.append(span)
    return merged
