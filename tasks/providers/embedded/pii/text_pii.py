"""Personal data in texts: patterns with checksums first, then a model for names and addresses."""

import re
from collections.abc import Iterable, Sequence
from functools import cached_property

from schemas.signals import PiiSpan
from tasks.providers.embedded.pii.introduced import introduced, titled
from tasks.providers.embedded.pii.names import NameFinder
from tasks.providers.embedded.pii.numbers import SHAPED
from tasks.providers.embedded.pii.patterns import matches
from tasks.providers.embedded.pii.readings import in_one_line, readings

_SURROGATE = re.compile("[\ud800-\udfff]")
"""Unpaired surrogates, which UTF-8 cannot encode; they are replaced by U+FFFD."""


class PatternsAndNames:
    """Finds personal data in the whole text, whatever its length."""

    version = f"patterns-18+{NameFinder.version}"

    @cached_property
    def _names(self) -> NameFinder:
        return NameFinder()

    def find_pii(self, texts: Sequence[str]) -> list[list[PiiSpan]]:
        """Spans of every text, in order, without overlaps."""
        return [self._find(_SURROGATE.sub("\ufffd", text)) for text in texts]

    def _find(self, text: str) -> list[PiiSpan]:
        """Spans by precedence: certain patterns, then names and addresses, then numbers that only look like a phone."""
        known = readings(text)
        unmarked = [reading for reading in known if not reading.sure][-1]
        formed = matches(known)
        sure = [span for span in formed if span.confidence > SHAPED]
        said, line = unmarked.text, in_one_line(unmarked)
        names = [*introduced(said), *self._names.find_names(said), *titled(said)]
        found = [
            *map(unmarked.original, names),
            *map(line.original, introduced(line.text) if line is not unmarked else ()),
        ]
        return without_overlaps([*sure, *found, *(s for s in formed if s.confidence <= SHAPED)])


def without_overlaps(spans: Iterable[PiiSpan]) -> list[PiiSpan]:
    """Spans in order of position; overlapping spans of one type are merged, otherwise the first given stays.

    A name or address that overlaps an earlier span of another type keeps the rest of its text.
    """
    kept: list[PiiSpan] = []
    for span in spans:
        rivals = [other for other in kept if span.start < other.end and other.start < span.end]
        if all(other.type == span.type for other in rivals):
            kept = [other for other in kept if other not in rivals]
            kept.append(_hull([span, *rivals]))
        elif span.type in _PARTLY:
            kept += _rest(span, rivals)
    return sorted(kept, key=lambda span: span.start)


_PARTLY = ("person", "address")


def _hull(spans: Sequence[PiiSpan]) -> PiiSpan:
    return PiiSpan(
        type=spans[0].type,
        start=min(span.start for span in spans),
        end=max(span.end for span in spans),
        confidence=max(span.confidence for span in spans),
    )


def _rest(span: PiiSpan, rivals: Sequence[PiiSpan]) -> list[PiiSpan]:
    """The parts of a span that no rival covers."""
    edges = [span.start, *(edge for r in sorted(rivals, key=lambda r: r.start) for edge in (r.start, r.end)), span.end]
    parts = zip(edges[::2], edges[1::2], strict=True)
    return [span.model_copy(update={"start": start, "end": end}) for start, end in parts if end - start > 2]
