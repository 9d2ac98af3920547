"""A language model of any vendor that answers check questions from an image. It never sees the description."""

from collections.abc import Sequence

from schemas.generated_results import Looked
from tasks.images.decode import ImageRejected, decode_stored
from tasks.prompts import load_prompt, untrusted
from tasks.providers.capabilities import Failed
from tasks.providers.production.language_model import LanguageModel, Question
from tasks.providers.production.upload import SIDE_MAX, for_upload


class ModelViewer:
    """One question, one call."""

    def __init__(self, model: LanguageModel) -> None:
        self.model = model
        self.service = model.version
        self.calls_at_once = model.calls_at_once
        self._prompt = load_prompt("bench/look")
        self.version = f"{model.version}-max{SIDE_MAX}+{self._prompt.version.removeprefix('bench/')}"

    def look(self, image: tuple[str, bytes], question: str, choices: Sequence[str]) -> str | Failed:
        """The model's answer."""
        kind, content = image
        try:
            upload = for_upload(decode_stored(content, kind, ""))
        except ImageRejected:
            return Failed("image_unreadable")
        listed = f"\nChoices: {'; '.join(choices)}" if choices else ""
        answer = self.model.ask(Question(self._prompt.text, untrusted(question + listed), (upload,)), Looked)
        return answer if isinstance(answer, Failed) else answer.answer
