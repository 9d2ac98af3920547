"""Models to try a benchmark made on demand with: one that reads drawings, one that guesses, one that never looks.

They answer the prompts of such a benchmark and nothing else; none is ranked in public.
"""

import hashlib
import re
from collections.abc import Sequence
from contextlib import AbstractContextManager

from schemas.asked_model import AskedModel
from schemas.errors import BadInput, known_values
from tasks.drawing.scene import scene_in
from tasks.providers.capabilities import BatchQueue, ChatMessage, Failed, Reply
from tasks.providers.embedded.scenes.scene_questions import solved
from tasks.providers.embedded.scenes.viewer import SceneViewer
from tasks.storage.tables import Store

MODELS = ("scene-viewer", "random", "blind")
_OPTION = re.compile(r"^([A-D])\. (.+)$", re.MULTILINE)
_QUESTION = re.compile(r"^[^\n]+\?$", re.MULTILINE)


class SceneModel:
    """One of MODELS, as an entry of a models file names it."""

    service = ""
    calls_at_once = 2

    def __init__(self, asked: AskedModel) -> None:
        if asked.model not in MODELS:
            raise BadInput(f"model {asked.name!r}: vendor embedded: unknown model {known_values(asked.model, MODELS)}")
        self._model = asked.model
        self.version = asked.version

    def chat(self, messages: Sequence[ChatMessage], about: str = "") -> Reply | Failed:
        """A letter in brackets."""
        text, options = messages[-1].text, dict(_OPTION.findall(messages[-1].text))
        if not options:
            return Reply("I only answer questions with options.", "complete", 0)
        answer = None if self._model == "random" else self._answer(text, messages[-1])
        chosen = next((letter for letter, option in options.items() if option == answer), None)
        if chosen is None and self._model == "scene-viewer":
            return Reply("I cannot tell.", "complete", 0)
        return Reply(f"[{chosen or self._guess(text, options)}]", "complete", 0)

    def together(self, store: Store, hours: float) -> AbstractContextManager[BatchQueue]:
        """There are no batches."""
        raise BadInput("--batch: a model of vendor embedded has no batches; leave the option out")

    def _answer(self, text: str, message: ChatMessage) -> str | None:
        """By a description in the text, or by the image; null when neither says it."""
        question = (_QUESTION.findall(text) or [""])[-1]
        if scene := scene_in(text):
            return solved(scene, question)
        if self._model == "blind" or not message.images:
            return None
        seen = SceneViewer().look(message.images[0], question, ())
        return None if isinstance(seen, Failed) else seen

    def _guess(self, text: str, options: dict[str, str]) -> str:
        """The longest option, or any by a hash of the text."""
        if self._model == "blind":
            return max(options, key=lambda letter: len(options[letter]))
        return sorted(options)[hashlib.blake2b(text.encode()).digest()[0] % len(options)]
