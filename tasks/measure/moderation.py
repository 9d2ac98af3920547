"""How likely a text is harmful, and in which way. States scores; whether they matter is the policy's business."""

from collections.abc import Sequence

from schemas.signals import Moderation
from tasks.measure.signal import Signal
from tasks.providers import Providers
from tasks.providers.capabilities import Failed, Moderator


def moderation(providers: Providers) -> Signal[str]:
    """Signal `moderation`."""
    moderator: Moderator = providers["moderation"]

    def measure(texts: Sequence[str]) -> list[Moderation | Failed]:
        return list(moderator.moderate(texts))

    return Signal("moderation", f"1+{moderator.version}", providers.names["moderation"], measure)
