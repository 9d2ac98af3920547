"""Refusals by a language model: the model declines, the user is refused, both or neither (VisionArena, section 12)."""

from collections.abc import Sequence
from typing import Literal

from schemas.row import Row
from tasks.prompts import load_prompt, untrusted
from tasks.providers.capabilities import Failed
from tasks.providers.cost import Count, ExpectedUse, ItemSize
from tasks.providers.production.calls import CALLS_AT_ONCE
from tasks.providers.production.language_model import HostedModel, Question, expected_answers
from tasks.runtime.parallel import map_ordered

OPENING_CHARACTERS = 2_000
"""Length of the start that is sent: what declines says so soon."""


class Refusing(Row):
    """Who refuses; `tasks/prompts/refusal.md` defines it."""

    refusal: Literal["model", "user", "both", "neither"]
    """model: the assistant declines; user: a notice of a service turns the user away; both; neither."""


class ModelRefusals:
    """Asks about every answer. Blank ones are not sent, and refuse nothing."""

    def __init__(self, model: HostedModel) -> None:
        self._model = model
        self.service = model.version
        prompt = load_prompt("refusal")
        self._instructions = prompt.text
        self.version = f"{model.version}+{prompt.version}-first{OPENING_CHARACTERS}"

    def refuses(self, texts: Sequence[str]) -> list[bool | Failed]:
        """Whether each answer refuses, in order."""
        return list(map_ordered(self._ask, texts, CALLS_AT_ONCE))

    def expected_use(self, items: Sequence[ItemSize], count: Count) -> ExpectedUse:
        """One question an answer."""
        sent = [item.text[:OPENING_CHARACTERS] for item in items if item.text.strip()]
        return expected_answers(count, self._instructions, Refusing, sent)

    def _ask(self, text: str) -> bool | Failed:
        if not text.strip():
            return False
        said = self._model.ask(Question(self._instructions, untrusted(text[:OPENING_CHARACTERS])), Refusing)
        return said if isinstance(said, Failed) else said.refusal != "neither"
