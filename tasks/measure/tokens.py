"""Length of a message in tokens."""

from collections.abc import Sequence

from schemas.signals import Tokens
from tasks.measure.signal import Signal
from tasks.providers import Providers
from tasks.providers.capabilities import TokenCounter


def tokens(providers: Providers) -> Signal[str]:
    """Signal `tokens`."""
    counter: TokenCounter = providers["tokens"]

    def measure(texts: Sequence[str]) -> list[Tokens]:
        return [Tokens(tokens=count) for count in counter.count_tokens(texts)]

    return Signal("tokens", f"1+{counter.version}", providers.names["tokens"], measure)
