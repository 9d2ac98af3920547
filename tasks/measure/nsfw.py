"""How likely a picture is pornographic. States a probability; whether that matters is the policy's business."""

from collections.abc import Sequence

from schemas.signals import Nsfw
from tasks.measure.signal import Signal
from tasks.pixels.pictures import Picture
from tasks.providers import Providers
from tasks.providers.capabilities import Failed, NsfwClassifier


def nsfw(providers: Providers) -> Signal[Picture]:
    """Signal `nsfw`."""
    classifier: NsfwClassifier = providers["nsfw"]

    def measure(pictures: Sequence[Picture]) -> list[Nsfw | Failed]:
        scores = classifier.nsfw_probabilities(pictures)
        return [score if isinstance(score, Failed) else Nsfw(nsfw_probability=score) for score in scores]

    return Signal("nsfw", f"1+{classifier.version}", providers.names["nsfw"], measure)
