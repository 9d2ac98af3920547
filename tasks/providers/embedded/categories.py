"""Categories without a language model: nearest example prompts, a few words, and how the picture is laid out.

A stand-in of known quality for machines without keys (benchmarks/categories.py), labelled as such in every manifest.
"""

import re
from collections.abc import Sequence
from pathlib import Path

from schemas.tags import Categories
from tasks.providers.capabilities import Document
from tasks.providers.embedded.nearest import PROMPT_CHARACTERS, NearestExamples

COSINE_MIN = 0.55
FLAT_FRACTION_MIN, COLOUR_COUNT_MAX = 0.45, 130
"""What separates drawings and documents from photographs on the labelled pictures (benchmarks/categories.py)."""
DENSE_TEXT_CHARACTERS = 160

_CHOICES = re.compile(r"\(A\).*\(B\)|\bA[.)]\s.*\bB[.)]\s", re.S)
_CALCULATES = re.compile(r"\b(?:solve|calculate|compute|prove|homework|exercise|equation|derivative|integral)\b", re.I)
_WORDS = {
    "ocr": re.compile(
        r"\b(?:ocr|transcribe|read (?:the|this|all)|written|text in|sign\b.*\bsay|receipt|invoice|label)\b",
        re.I,
    ),
    "humor": re.compile(r"\b(?:meme|funny|joke|humou?r(?:ous)?|hilarious)\b", re.I),
    "creative_writing": re.compile(r"\b(?:poem|haiku|short story|song|lyrics|fairy tale|limerick)\b", re.I),
    "captioning": re.compile(r"^\W*(?:please\s+)?(?:describe|caption)\b", re.I),
}


class WordsAndLayout:
    """Categories of documents; never null, because everything it looks at is at hand."""

    looks_at_pictures = False

    def __init__(self) -> None:
        self._examples = NearestExamples(Path(__file__).with_suffix(".yaml"))
        self.version = self._examples.version

    def tag(self, documents: Sequence[Document]) -> list[Categories]:
        """Categories of every document."""
        return [self._tag(document) for document in documents]

    def _tag(self, document: Document) -> Categories:
        asked = self._asked(document.prompt[:PROMPT_CHARACTERS])
        drawn = document.flat_fraction >= FLAT_FRACTION_MIN and 0 < document.colour_count <= COLOUR_COUNT_MAX
        dense = len(document.picture_text) >= DENSE_TEXT_CHARACTERS
        exercise = bool(_CHOICES.search(document.prompt) or _CALCULATES.search(document.prompt))
        return Categories(
            captioning="captioning" in asked,
            creative_writing="creative_writing" in asked,
            diagram=drawn and not dense,
            entity_recognition="entity_recognition" in asked,
            homework=exercise or ("homework" in asked and (drawn or not document.picture_count)),
            humor="humor" in asked,
            ocr="ocr" in asked or dense,
        )

    def _asked(self, prompt: str) -> set[str]:
        """Categories whose nearest example is near enough and nearer than every example of `other`."""
        nearest = self._examples.cosines(prompt)
        floor = max(COSINE_MIN, nearest.pop("other"))
        near = {name for name, cosine in nearest.items() if cosine >= floor}
        return near | {name for name, form in _WORDS.items() if form.search(prompt)}
