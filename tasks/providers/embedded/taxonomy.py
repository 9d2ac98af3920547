"""Taxonomy without a language model: question category of the nearest example prompt, or by words if none is near.

Of lower assurance. The image domain is what the image's own vector says, else what the prompt's words name, else null.
"""

import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from schemas.tags import Taxonomy
from tasks.prompts.taxonomy import placed, taxonomy_file
from tasks.providers.capabilities import Document, Vectors
from tasks.providers.embedded.image_embedding import CLASSES, FEATURES, class_probabilities
from tasks.providers.embedded.text_embedding import PROMPT_CHARACTERS, NearestExamples
from tasks.runtime.yaml_files import read_yaml

COSINE_MIN = 0.5
"""Least cosine of an example that is used."""
DOMAIN_PROBABILITY_MIN = 0.6
"""Least probability of a subdomain's ImageNet classes together."""
_HERE = Path(__file__).parent

Words = list[tuple[str, re.Pattern[str]]]


class NearestPlace:
    """Question category by nearest example question; image domain by ImageNet classes or words."""

    looks_at_images = False
    looks_at_vectors = True

    def __init__(self) -> None:
        self._question = NearestExamples(_HERE / "taxonomy_question.yaml")
        self._classes: dict[str, Any] = read_yaml(_HERE / "taxonomy_classes.yaml")
        words: dict[str, Any] = read_yaml(_HERE / "taxonomy_words.yaml")
        self._words = {tree: _compiled(words[tree]) for tree in ("question", "image")}
        domains = f"classes-{self._classes.pop('version')}-min{DOMAIN_PROBABILITY_MIN}"
        self.version = f"taxonomy{taxonomy_file().version}+words-{words['version']}+{domains}+{self._question.version}"

    @cached_property
    def _members(self) -> Vectors:
        """float32 (subdomains, 1000): 1 where an ImageNet class is of the subdomain."""
        members = np.zeros((len(self._classes), CLASSES), np.float32)
        for row, ranges in zip(members, self._classes.values(), strict=True):
            for first, _, last in (str(each).partition("-") for each in ranges):
                row[int(first) : int(last or first) + 1] = 1
        return members

    def tag(self, documents: Sequence[Document]) -> list[Taxonomy]:
        """Taxonomy of every document."""
        return [self._tag(document) for document in documents]

    def _tag(self, document: Document) -> Taxonomy:
        prompt = document.prompt[:PROMPT_CHARACTERS]
        shown = self._shown(document.image_vectors) if document.picture_count else None
        if not prompt.strip():
            return placed(None, shown)
        question = _nearest(self._question.cosines(prompt), COSINE_MIN) or _named(self._words["question"], prompt)
        named = _named(self._words["image"], prompt) if document.picture_count else None
        return placed(question, shown or named)

    def _shown(self, vectors: Sequence[Vectors]) -> str | None:
        """The first subdomain that an image is probably of; None if no image is, or they are of another embedder."""
        fitting = [self._members @ class_probabilities(vector) for vector in vectors if vector.shape == (FEATURES,)]
        told = (_nearest(dict(zip(self._classes, each, strict=True)), DOMAIN_PROBABILITY_MIN) for each in fitting)
        return next((place for place in told if place), None)


def _compiled(pairs: Sequence[tuple[str, str]]) -> Words:
    return [(value, re.compile(form, re.I | re.S)) for value, form in pairs]


def _nearest(scores: Mapping[str, float], least: float) -> str | None:
    name, score = max(scores.items(), key=lambda item: item[1])
    return name if score >= least else None


def _named(words: Words, prompt: str) -> str | None:
    return next((value for value, form in words if form.search(prompt)), None)
