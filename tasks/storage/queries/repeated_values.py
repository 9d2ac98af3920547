"""Where a value that was found to be personal data stands again, in the texts that belong together with its own."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

REPEATED_CHARACTERS_MIN = 4
"""Shorter values are masked only where they were found."""
FoundSpan = Mapping[str, Any]
"""`start`, `end` and `type` of a stretch of a text."""


def with_repeats(texts: Sequence[tuple[str, Sequence[FoundSpan] | None]]) -> list[list[FoundSpan] | None]:
    """The spans of texts that belong together, with every other place where a found value stands as a word.

    Texts belong together when they are shown together: give all of them at once. None stays None: nobody searched it.
    """
    values = {text[span["start"] : span["end"]].strip(): span["type"] for text, spans in texts for span in spans or ()}
    values = {value: kind for value, kind in values.items() if len(value) >= REPEATED_CHARACTERS_MIN}
    return [None if spans is None else [*spans, *_repeats(text, values)] for text, spans in texts]


def _repeats(text: str, values: Mapping[str, str]) -> Iterator[FoundSpan]:
    r"""Where values stand as words: `(?<!\w)value(?!\w)`. Compiling that for each takes longer than the search."""
    for value, kind in values.items():
        start = text.find(value)
        while start >= 0:
            end = start + len(value)
            beside = text[max(0, start - 1) : start] + text[end : end + 1]
            alone = not any(letter.isalnum() or letter == "_" for letter in beside)
            if alone:
                yield {"start": start, "end": end, "type": kind}
            start = text.find(value, end if alone else start + 1)
