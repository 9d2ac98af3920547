"""Personal data in a text: typed spans over the whole text."""

from collections.abc import Sequence

from schemas.signals import PiiSpan, TextPii
from tasks.measure.signal import Signal
from tasks.providers import Providers
from tasks.providers.capabilities import Failed, PiiFinder


def text_pii(providers: Providers) -> Signal[str]:
    """Signal `text_pii`."""
    finder: PiiFinder = providers["text_pii"]

    def measure(texts: Sequence[str]) -> list[TextPii | Failed]:
        return [spans if isinstance(spans, Failed) else _summary(spans) for spans in finder.find_pii(texts)]

    return Signal("text_pii", f"1+{finder.version}", providers.names["text_pii"], measure)


def _summary(spans: list[PiiSpan]) -> TextPii:
    return TextPii(spans=spans, types=sorted({span.type for span in spans}))
