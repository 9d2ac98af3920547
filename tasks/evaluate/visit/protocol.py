"""What a judge under `visit` is told: captions instead of images, the instruction, two answers, a reference."""

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tasks.evaluate.visit.verdict_texts import SHAPE
from tasks.prompts import load_prompt, untrusted
from tasks.providers.capabilities import ChatMessage

NAMES = ("visit", "visit-reference")
"""Without and with the reference, as in `verdicts`."""
_MARK = re.compile(r"\[\[\s*(?:A|B|none)\s*\]\]|\"better\"\s*:", re.IGNORECASE)
"""A verdict as the judge states it; in an answer it is spaced out, so that a judge who quotes it gives none."""


class JudgePrompt(NamedTuple):
    """The chat that a judge is sent."""

    messages: list[ChatMessage]
    fenced_marks: int
    """Verdicts that the two answers imitate."""


@dataclass(frozen=True)
class VisitProtocol:
    """The judge without the image."""

    with_reference: bool
    """Whether the judge sees the reference."""

    @property
    def name(self) -> str:
        """As in `verdicts`."""
        return NAMES[self.with_reference]

    @property
    def system(self) -> str:
        """The judge's instructions."""
        parts = ("system", "reference", "stated") if self.with_reference else ("system", "stated")
        return "\n".join(_text(part) for part in parts)

    @property
    def version(self) -> str:
        """The name and 8 hex digits of the SHA-256 of all that the judge is told."""
        texts = "\0".join((self.system, _text("extract"), str(SHAPE.schema), _material([], "", "", "", "")))
        return f"{self.name}-{hashlib.sha256(texts.encode()).hexdigest()[:8]}"

    def told(self, captions: Sequence[str], instruction: str, reference: str, answers: Sequence[str]) -> JudgePrompt:
        """The chat for two answers in the order in which they are shown."""
        defused = [_defused(answer) for answer in answers]
        first, second = (text for text, _ in defused)
        user = _material(captions, instruction, reference if self.with_reference else "", first, second)
        marks = sum(count for _, count in defused)
        return JudgePrompt([ChatMessage("system", self.system), ChatMessage("user", user)], marks)

    def extraction(self, said: str) -> list[ChatMessage]:
        """The chat that asks which verdict a judge's text holds."""
        return [ChatMessage("user", f"{_text('extract')}\n{untrusted(said)}")]


def _material(captions: Sequence[str], instruction: str, reference: str, first: str, second: str) -> str:
    """Captions are numbered if there are several; a reference that is not shown has no heading."""
    named = (
        ["Caption of the image"] if len(captions) == 1 else [f"Caption of image {n + 1}" for n in range(len(captions))]
    )
    parts = [*zip(named, captions, strict=True), ("Instruction", instruction)]
    parts += [("Reference", reference)] if reference else []
    parts += [("Response A", first), ("Response B", second)]
    return "\n\n".join(f"{name}:\n{untrusted(text)}" for name, text in parts)


def _defused(answer: str) -> tuple[str, int]:
    return _MARK.subn(lambda mark: " ".join(mark[0]), answer)


def _text(name: str) -> str:
    return load_prompt(f"judges/visit_{name}").text
