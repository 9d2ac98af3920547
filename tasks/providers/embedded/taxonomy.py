"""Taxonomy without a language model: category of the nearest example prompt, or by words if none is near.

Of lower assurance. It does not use images: the image domain is null unless the prompt names what is shown.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from schemas.tags import Taxonomy
from tasks.prompts.taxonomy import placed, taxonomy_file
from tasks.providers.capabilities import Document
from tasks.providers.embedded.text_embedding import PROMPT_CHARACTERS, NearestExamples
from tasks.runtime.yaml_files import read_yaml

COSINE_MIN = 0.5
"""Least cosine of an example that is used."""
_HERE = Path(__file__).parent

Words = list[tuple[str, re.Pattern[str]]]


class NearestPlace:
    """Question category by nearest example question; image domain by nearest example question about an image."""

    looks_at_images = False

    def __init__(self) -> None:
        self._question = NearestExamples(_HERE / "taxonomy_question.yaml")
        self._image = NearestExamples(_HERE / "taxonomy_image.yaml")
        words: dict[str, Any] = read_yaml(_HERE / "taxonomy_words.yaml")
        self._words = {tree: _compiled(words[tree]) for tree in ("question", "image")}
        examples = f"{self._question.version}+{self._image.version}"
        self.version = f"taxonomy{taxonomy_file().version}+words-{words['version']}+{examples}"

    def tag(self, documents: Sequence[Document]) -> list[Taxonomy]:
        """Taxonomy of every document."""
        return [self._tag(document) for document in documents]

    def _tag(self, document: Document) -> Taxonomy:
        prompt = document.prompt[:PROMPT_CHARACTERS]
        if not prompt.strip():
            return placed(None, None)
        question = _nearest(self._question.cosines(prompt)) or _named(self._words["question"], prompt)
        if not document.picture_count:
            return placed(question, None)
        return placed(question, _nearest(self._image.cosines(prompt)) or _named(self._words["image"], prompt))


def _compiled(pairs: Sequence[tuple[str, str]]) -> Words:
    return [(value, re.compile(form, re.I | re.S)) for value, form in pairs]


def _nearest(cosines: Mapping[str, float]) -> str | None:
    name, cosine = max(cosines.items(), key=lambda item: item[1])
    return name if cosine >= COSINE_MIN else None


def _named(words: Words, prompt: str) -> str | None:
    return next((value for value, form in words if form.search(prompt)), None)
