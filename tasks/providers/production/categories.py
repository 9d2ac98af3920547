"""Categories by a language model that looks at the pictures (definitions: `tasks/prompts/categories.md`)."""

from collections.abc import Sequence

from schemas.signals import Categories
from tasks.parallel import map_ordered
from tasks.pictures import PictureRejected, decode_stored
from tasks.prompts import load_prompt, untrusted
from tasks.providers.capabilities import Document, Failed
from tasks.providers.production.gemini_api import GeminiApi
from tasks.providers.production.language_model import CALLS_AT_ONCE, LanguageModel, Question
from tasks.providers.production.openai_api import OpenAiApi
from tasks.providers.production.upload import SIDE_MAX, Upload, for_upload

PROMPT_CHARACTERS = 12_500
"""How much of a prompt is shown, as in FastChat's labelling."""
PICTURES_MAX = 8
"""Pictures shown of one document; the first ones."""


class _Tagger:
    """Asks for all seven categories of a document in one question."""

    looks_at_pictures = True

    def __init__(self, model: LanguageModel) -> None:
        self._model = model
        self.service = model.version
        self._prompt = load_prompt("categories")
        self.instructions = self._prompt.text
        self.version = f"{model.version}-max{SIDE_MAX}+{self._prompt.version}"

    def tag(self, documents: Sequence[Document]) -> list[Categories | Failed]:
        """Categories of every document, in order; several are asked for at a time."""
        return list(map_ordered(self._tag, documents, CALLS_AT_ONCE))

    def _tag(self, document: Document) -> Categories | Failed:
        if len(document.pictures) != document.picture_count:
            return Failed("pictures_missing")  # judged from the prompt alone, the answer would be a guess
        try:
            pictures = _uploads(document)
        except PictureRejected:
            return Failed("picture_unreadable")
        material = untrusted(document.prompt[:PROMPT_CHARACTERS])
        return self._model.ask(Question(self._prompt.text, material, pictures), Categories)


def _uploads(document: Document) -> tuple[Upload, ...]:
    shown = document.pictures[:PICTURES_MAX]
    return tuple(for_upload(decode_stored(encoded, format_, "")) for format_, encoded in shown)


class OpenAiTagger(_Tagger):
    """Categories by an OpenAI model."""

    def __init__(self, model: OpenAiApi | None = None) -> None:
        super().__init__(model or OpenAiApi())


class GeminiTagger(_Tagger):
    """Categories by a Gemini model."""

    def __init__(self, model: GeminiApi | None = None) -> None:
        super().__init__(model or GeminiApi())
