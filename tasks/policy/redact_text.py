"""Replaces spans of texts by numbered placeholders such as `<PERSON_1>`; equal values get equal numbers."""

import re
import unicodedata
from collections.abc import Iterable, Mapping, Set
from typing import NamedTuple

from schemas.signals import PERSON
from tasks.storage.queries.repeated_values import REPEATED_CHARACTERS_MIN

NUMBER_TYPES = frozenset({"phone", "card", "iban", "national_id", "passport"})
"""Types whose values are the same however their digits and letters are grouped."""
_LOGGED = re.compile(r"<([A-Z_]{2,30})_(\d{1,6})>")
"""A placeholder that a text had already when it was logged."""


class Span(NamedTuple):
    """Characters `start` (inclusive) to `end` (exclusive) to replace."""

    start: int
    end: int
    type: str


class Replaced(NamedTuple):
    """Characters that were replaced, and what stands there now."""

    start: int
    end: int
    type: str
    placeholder: str


class Placeholders:
    """The placeholders of texts that belong together: numbers of a type begin with 1, in the order of first use.

    Numbers that stand in `texts` already, as in a log that somebody else has redacted, are not given again.
    """

    def __init__(self, texts: Iterable[str] = ()) -> None:
        self._numbers: dict[tuple[str, str], int] = {}
        self._last: dict[str, int] = {}
        for text in texts:
            for kind, number in _LOGGED.findall(text):
                self._last[kind] = max(self._last.get(kind, 0), int(number))

    def placeholder(self, value: str, kind: str) -> str:
        """The placeholder of a value, as `<EMAIL_1>`."""
        name, key = kind.upper(), (kind, plain_form(value, kind))
        if key not in self._numbers:
            self._numbers[key] = self._last[name] = self._last.get(name, 0) + 1
        return f"<{name}_{self._numbers[key]}>"


def plain_form(value: str, kind: str) -> str:
    """The value without what writers vary: case, width, accents' encoding, blanks, signs; grouping of numbers."""
    kept = (_plain(char) for char in unicodedata.normalize("NFKC", value).casefold())
    return ("" if kind in NUMBER_TYPES else " ").join("".join(kept).split())


def _plain(char: str) -> str:
    """Letters, marks and digits as they are, nothing for what has no width, a blank for the rest."""
    kind = unicodedata.category(char)
    return char if kind[0] in "LMN" else "" if kind == "Cf" else " "


def is_left(value: str, kind: str, names_that_stay: Set[str]) -> bool:
    """Whether the value is a name whose plain form is in `names_that_stay`."""
    return kind == PERSON and plain_form(value, kind) in names_that_stay


def without_left(text: str, spans: Iterable[Span], names_that_stay: Set[str]) -> list[Span]:
    """The spans of a text without names that stay."""
    return [span for span in spans if not is_left(text[span.start : span.end], span.type, names_that_stay)]


def values_of(text: str, spans: Iterable[Span]) -> dict[str, str]:
    """Value -> type of the spans that are long enough to be searched for elsewhere in the conversation."""
    values_and_types = ((text[span.start : span.end].strip(), span.type) for span in spans)
    return {value: kind for value, kind in values_and_types if len(value) >= REPEATED_CHARACTERS_MIN}


def redact_text(
    text: str, spans: Iterable[Span], values: Mapping[str, str], placeholders: Placeholders
) -> tuple[str, list[Replaced]]:
    """Replace all spans and all other occurrences of the values. Returns the text and what was replaced, in order."""
    pieces: list[str] = []
    gone: list[Replaced] = []
    end = 0
    for span in _without_overlaps([*spans, *_repeats(text, values)]):
        gone.append(Replaced(*span, placeholders.placeholder(text[span.start : span.end], span.type)))
        pieces += [text[end : span.start], gone[-1].placeholder]
        end = span.end
    return "".join([*pieces, text[end:]]), gone


def moved(character: int, gone: Iterable[Replaced]) -> int:
    """Where a place of a text is after `gone` was replaced; a place within a span moves to its beginning."""
    place = character
    for span in gone:
        if span.end <= character:
            place += len(span.placeholder) - (span.end - span.start)
        elif span.start < character:
            place -= character - span.start
    return place


def _repeats(text: str, values: Mapping[str, str]) -> Iterable[Span]:
    """Occurrences of the values as whole words, except inside placeholders."""
    for value, kind in values.items():
        start = text.find(value)
        while start >= 0:
            end = start + len(value)
            whole = not (_joins(text[max(0, start - 1) : start], "<") or _joins(text[end : end + 1], ">"))
            if whole:
                yield Span(start, end, kind)
            start = text.find(value, end if whole else start + 1)


def _joins(char: str, mark: str) -> bool:
    """Whether a word or placeholder goes on with this character; `char` is empty at the ends of a text."""
    return char.isalnum() or (char != "" and char in ("_", mark))


def _without_overlaps(spans: Iterable[Span]) -> list[Span]:
    """Spans sorted by position; overlapping spans are merged and get the type of the first."""
    merged: list[Span] = []
    for span in sorted(spans, key=lambda span: (span.start, -span.end, span.type)):
        if merged and span.start < merged[-1].end:
            merged[-1] = merged[-1]._replace(end=max(merged[-1].end, span.end))
        else:
            merged.append(span)
    return merged
