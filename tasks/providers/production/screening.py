"""Moderation and refusals of texts by a language model, such as a self-hosted one with chat completions."""

from collections.abc import Sequence
from typing import Literal

from schemas.row import Row
from schemas.signals import CategoryScore, Moderation
from tasks.prompts import load_prompt, untrusted
from tasks.providers.capabilities import Failed
from tasks.providers.cost import Count, ExpectedUse, ItemSize
from tasks.providers.embedded.texts import pieces_of
from tasks.providers.production.calls import CALLS_AT_ONCE
from tasks.providers.production.language_model import HostedModel, Question, expected_answers
from tasks.runtime.parallel import map_ordered

WINDOW_CHARACTERS, OVERLAP = 8_000, 400
"""Pieces of a long text fit a small model's context."""
NOTHING = Moderation(flagged_probability=0.0, flagged_categories=[], category_scores=[])
"""The value of blank texts, which are not sent."""


class Harms(Row):
    """The kinds of harm that a text contains; `tasks/prompts/moderation.md` defines them."""

    harassment: bool
    """Insults, threats, bullying."""
    hate: bool
    """Attacks on people for what they are."""
    illicit: bool
    """Help with crimes."""
    self_harm: bool
    """Suicide and self-injury."""
    sexual: bool
    """Sexual acts."""
    sexual_minors: bool
    """Sexual content about minors."""
    violence: bool
    """Incitement, threats, gore."""


class ModelModeration:
    """Asks about every text, and about a long one piece by piece; it has the harms of all its pieces."""

    def __init__(self, model: HostedModel) -> None:
        self._model = model
        self.service = model.version
        prompt = load_prompt("moderation")
        self._instructions = prompt.text
        self.version = f"{model.version}+{prompt.version}-window{WINDOW_CHARACTERS}"

    def moderate(self, texts: Sequence[str]) -> list[Moderation | Failed]:
        """Moderation of every text, in order; scores are 0 or 1. A text fails when a piece of it fails."""
        pieces = [pieces_of(text, WINDOW_CHARACTERS, OVERLAP) for text in texts]
        questions = [Question(self._instructions, untrusted(piece)) for text_pieces in pieces for piece in text_pieces]
        answers = iter(list(map_ordered(lambda question: self._model.ask(question, Harms), questions, CALLS_AT_ONCE)))
        return [_together([next(answers) for _ in text_pieces]) for text_pieces in pieces]

    def expected_use(self, items: Sequence[ItemSize], count: Count) -> ExpectedUse:
        """One question a piece."""
        pieces = [piece for item in items for piece in pieces_of(item.text, WINDOW_CHARACTERS, OVERLAP)]
        return expected_answers(count, self._instructions, Harms, pieces)


def _together(answers: Sequence[Harms | Failed]) -> Moderation | Failed:
    harms = [answer for answer in answers if isinstance(answer, Harms)]
    if len(harms) < len(answers):
        return next(answer for answer in answers if isinstance(answer, Failed))
    if not harms:
        return NOTHING
    flags = {name: any(getattr(piece_harms, name) for piece_harms in harms) for name in Harms.model_fields}
    return Moderation(
        flagged_probability=float(any(flags.values())),
        flagged_categories=sorted(name for name, flag in flags.items() if flag),
        category_scores=[CategoryScore(category=name, score=float(flag)) for name, flag in sorted(flags.items())],
    )


SCREENED_CHARACTERS = 2_000
"""Length of the start that is sent: what declines says so soon."""


class Refusing(Row):
    """Who refuses; `tasks/prompts/refusal.md` defines it."""

    refusal: Literal["model", "user", "both", "neither"]
    """model: the assistant declines; user: a notice of a service turns the user away; both; neither."""


class ModelRefusals:
    """Asks who refuses in every answer (VisionArena, section 12). Blank ones are not sent, and refuse nothing."""

    def __init__(self, model: HostedModel) -> None:
        self._model = model
        self.service = model.version
        prompt = load_prompt("refusal")
        self._instructions = prompt.text
        self.version = f"{model.version}+{prompt.version}-first{SCREENED_CHARACTERS}"

    def refuses(self, texts: Sequence[str]) -> list[bool | Failed]:
        """Whether each answer refuses, in order."""
        return list(map_ordered(self._ask, texts, CALLS_AT_ONCE))

    def expected_use(self, items: Sequence[ItemSize], count: Count) -> ExpectedUse:
        """One question an answer."""
        sent = [item.text[:SCREENED_CHARACTERS] for item in items if item.text.strip()]
        return expected_answers(count, self._instructions, Refusing, sent)

    def _ask(self, text: str) -> bool | Failed:
        if not text.strip():
            return False
        answer = self._model.ask(Question(self._instructions, untrusted(text[:SCREENED_CHARACTERS])), Refusing)
        return answer if isinstance(answer, Failed) else answer.refusal != "neither"
