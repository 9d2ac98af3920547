"""What a prompt with its pictures asks for. Null stays null: a tagger that cannot tell has not said no."""

from collections.abc import Sequence

from schemas.signals import Categories
from tasks.measure.signal import Signal
from tasks.providers import Providers
from tasks.providers.capabilities import Document, Failed, Tagger


def categories(providers: Providers) -> Signal[Document]:
    """Signal `categories`."""
    tagger: Tagger = providers["categories"]

    def measure(documents: Sequence[Document]) -> list[Categories | Failed]:
        return list(tagger.tag(documents))

    return Signal("categories", f"1+{tagger.version}", providers.names["categories"], measure)
