"""The language of a prompt."""

from collections.abc import Sequence

from schemas.signals import Language
from tasks.measure.signal import Signal
from tasks.providers import Providers
from tasks.providers.capabilities import Failed, LanguageIdentifier


def language(providers: Providers) -> Signal[str]:
    """Signal `language`."""
    identifier: LanguageIdentifier = providers["language"]

    def measure(texts: Sequence[str]) -> list[Language | Failed]:
        return list(identifier.identify(texts))

    return Signal("language", f"1+{identifier.version}", providers.names["language"], measure)
