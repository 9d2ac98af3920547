"""Personal data in texts: patterns with checksums first, then a model for names and addresses."""

from collections.abc import Iterable, Sequence
from functools import cached_property

from schemas.signals import PiiSpan
from tasks.providers.embedded.pii_names import NameFinder
from tasks.providers.embedded.pii_patterns import find_patterns


class PatternsAndNames:
    """Spans of the whole text, however long it is."""

    version = f"patterns-3+{NameFinder.version}"

    @cached_property
    def _names(self) -> NameFinder:
        return NameFinder()

    def find_pii(self, texts: Sequence[str]) -> list[list[PiiSpan]]:
        """Spans of every text, in order, without overlaps."""
        return [without_overlaps([*find_patterns(text), *self._names.find_names(text)]) for text in texts]


def without_overlaps(spans: Iterable[PiiSpan]) -> list[PiiSpan]:
    """Spans in order of position; of overlapping ones the first given stays, widened over its own kind."""
    kept: list[PiiSpan] = []
    for span in spans:
        rivals = [other for other in kept if span.start < other.end and other.start < span.end]
        if not rivals:
            kept.append(span)
        elif all(other.type == span.type for other in rivals):
            start, end = min(s.start for s in (span, *rivals)), max(s.end for s in (span, *rivals))
            confidence = max(s.confidence for s in (span, *rivals))
            kept = [other for other in kept if other not in rivals]
            kept.append(PiiSpan(type=span.type, start=start, end=end, confidence=confidence))
    return sorted(kept, key=lambda span: span.start)
