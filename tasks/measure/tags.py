"""Signals of documents: categories, criteria, taxonomy. Null stays null: a tagger that cannot tell has not said no."""

from collections.abc import Callable, Sequence

from schemas.row import Row
from tasks.measure.signal import Signal
from tasks.providers import Providers
from tasks.providers.capabilities import Document, Failed, Tagger


def by_tagger(name: str, version: str) -> Callable[[Providers], Signal[Document]]:
    """The signal that the capability of the same name measures."""

    def make(providers: Providers) -> Signal[Document]:
        tagger: Tagger = providers[name]

        def measure(documents: Sequence[Document]) -> list[Row | Failed]:
            return list(tagger.tag(documents))

        model = getattr(tagger, "model", None)
        return Signal(name, f"{version}+{tagger.version}", providers.names[name], measure, model)

    return make
