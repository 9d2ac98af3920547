"""Personal data in texts: patterns with checksums first, then a model for names and addresses."""

import re
from collections.abc import Iterable, Sequence
from functools import cached_property

from schemas.signals import PiiSpan
from tasks.providers.embedded.pii_names import NameFinder
from tasks.providers.embedded.pii_numbers import SHAPED
from tasks.providers.embedded.pii_patterns import find_patterns, introduced, titled

_SURROGATE = re.compile("[\ud800-\udfff]")
"""Half a character, which UTF-8 cannot say; to every pattern it is what U+FFFD is."""


class PatternsAndNames:
    """Spans of the whole text, however long it is."""

    version = f"patterns-8+{NameFinder.version}"

    @cached_property
    def _names(self) -> NameFinder:
        return NameFinder()

    def find_pii(self, texts: Sequence[str]) -> list[list[PiiSpan]]:
        """Spans of every text, in order, without overlaps."""
        return [self._find(_SURROGATE.sub("\ufffd", text)) for text in texts]

    def _find(self, text: str) -> list[PiiSpan]:
        """What is sure of its form first; digits of an address are no telephone number."""
        formed = list(find_patterns(text))
        sure = [span for span in formed if span.confidence > SHAPED]
        names = [*introduced(text), *self._names.find_names(text), *titled(text)]
        return without_overlaps([*sure, *names, *(span for span in formed if span.confidence <= SHAPED)])


def without_overlaps(spans: Iterable[PiiSpan]) -> list[PiiSpan]:
    """Spans in order of position; of overlapping ones the first given stays, widened over its own kind.

    A name or an address keeps what an earlier span of another kind leaves of it.
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
