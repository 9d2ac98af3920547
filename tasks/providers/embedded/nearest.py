"""How near a prompt is to example prompts of several classes, which are data: a YAML file of lists."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tasks.providers.capabilities import Vectors
from tasks.providers.embedded.text_embedding import SentenceEncoder, sentence_encoder
from tasks.running.blas_threads import one_blas_thread
from tasks.yaml_files import read_yaml

PROMPT_CHARACTERS = 600
"""How much of a prompt is compared: examples are short, and a prompt says first what it wants."""


class NearestExamples:
    """Cosines of a prompt to the nearest example of each class."""

    def __init__(self, file: Path) -> None:
        """`file` holds `version` and, by class, the examples."""
        content: dict[str, Any] = read_yaml(file)
        self.version = f"examples-{content.pop('version')}+{SentenceEncoder.version}"
        self._examples: Mapping[str, list[str]] = content
        self._vectors: dict[str, Vectors] = {}

    def cosines(self, prompt: str) -> dict[str, float]:
        """Class -> cosine, -1 to 1, of the opening of the prompt to the nearest example."""
        if not self._vectors:
            self._vectors = {name: sentence_encoder().embed_texts(texts) for name, texts in self._examples.items()}
        vector = sentence_encoder().embed_texts([prompt[:PROMPT_CHARACTERS]])[0]
        with one_blas_thread():
            return {name: float(np.max(vectors @ vector)) for name, vectors in self._vectors.items()}
