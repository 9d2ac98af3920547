"""Pornography by Google Cloud Vision's SafeSearch."""

from collections.abc import Sequence

from google.cloud.vision_v1 import Likelihood

from tasks.pixels.pictures import Picture
from tasks.providers.capabilities import Failed
from tasks.providers.production.vision import SAFE_SEARCH, SERVICE, VERSION, VisionClient, shared_client

PROBABILITY = {
    Likelihood.VERY_UNLIKELY: 0.05,
    Likelihood.UNLIKELY: 0.2,
    Likelihood.POSSIBLE: 0.5,
    Likelihood.LIKELY: 0.8,
    Likelihood.VERY_LIKELY: 0.95,
}
"""SafeSearch says a word, not a number. Ours are in its order; a threshold of 0.8 is "likely" or more."""
_PROBABILITY_OF = {int(likelihood): probability for likelihood, probability in PROBABILITY.items()}


class VisionSafeSearch:
    """What SafeSearch says of `adult` content; its other kinds (spoof, medical, violence, racy) are not asked about."""

    service = SERVICE
    version = f"{VERSION}-safe-search"

    def __init__(self, client: VisionClient | None = None) -> None:
        self._client = client or shared_client()
        self._client.want(SAFE_SEARCH)

    def nsfw_probabilities(self, pictures: Sequence[Picture]) -> list[float | Failed]:
        """Probability, 0 to 1, of every picture; a picture that SafeSearch has no verdict on is not measured."""
        answers = self._client.annotate(pictures, SAFE_SEARCH)
        unknown = Failed("no_verdict")
        return [a if isinstance(a, Failed) else _PROBABILITY_OF.get(a.adult, unknown) for a in answers]
