"""How a judge compares two answers: published prompts, in which orders, and answers that imitate the prompt fenced."""

import hashlib
import re
from dataclasses import dataclass
from typing import NamedTuple

from schemas.errors import BadInput, known_values
from tasks.evaluate.labels import without_labels
from tasks.prompts import load_prompt, untrusted

_MARK = re.compile(r"<\|[^|<>\n]{1,60}\|>")
"""A mark such as <|User Prompt|>."""


class Messages(NamedTuple):
    """What one judge is sent, but for the prompt's images: they stand in the question, or follow the user's text."""

    system: str
    user: str
    fenced_marks: int
    """Labels and marks of the prompt that the two answers hold; an answer with one is fenced."""
    question_start: int | None
    """Characters of the user's text before the question; None when the question is fenced."""


@dataclass(frozen=True)
class Protocol:
    """A published way to compare two answers."""

    name: str
    system: str
    """The system text, as published."""
    user: str
    """The user's text, as published, with {question_1}, {answer_1} and {answer_2}."""
    follow_up: str
    """What is asked, once, when the first reply has no label."""
    both_orders: bool
    """Whether each pair is shown in both orders; otherwise the baseline is first, once."""

    @property
    def version(self) -> str:
        """The name and 8 hex digits of the SHA-256 of its texts and orders."""
        texts = "\0".join((self.system, self.user, self.follow_up, str(self.both_orders)))
        return f"{self.name}-{hashlib.sha256(texts.encode()).hexdigest()[:8]}"

    def orders(self, baseline: str, model: str) -> list[tuple[str, str]]:
        """(first, second) model of every verdict on one prompt."""
        return [(baseline, model), (model, baseline)][: 1 + self.both_orders]

    def messages(self, question: str, answer_first: str, answer_second: str) -> Messages:
        """The texts of one comparison. Answers, and the question, with marks of the prompt are fenced."""
        parts = [_fenced(text) for text in (question, answer_first, answer_second)]
        texts = dict(zip(("question_1", "answer_1", "answer_2"), (text for text, _ in parts), strict=True))
        user = re.sub(r"\{(\w+)\}", lambda name: texts[name[1]], self.user)
        start = None if parts[0][1] else self.user.index("{question_1}")  # it stands before the answers
        return Messages(self.system, user, parts[1][1] + parts[2][1], start)


def protocol(name: str) -> Protocol:
    """The protocol `name`. Raises BadInput for an unknown one."""
    if name not in PROTOCOLS:
        raise BadInput(f"--protocol {known_values(name, PROTOCOLS)}")
    system, user, follow_up = (_published(text) for text in ("system", "user", f"follow_up_{name}"))
    return Protocol(name, system, user, follow_up, PROTOCOLS[name])


PROTOCOLS = {"visionarena": True, "wildvision": False}
"""Protocol -> whether it shows each pair in both orders."""


def _published(name: str) -> str:
    return load_prompt(f"judges/{name}").text.removesuffix("\n")


def _fenced(text: str) -> tuple[str, int]:
    """The text and how many marks and labels it holds; with any, they are broken up and it stands between two lines.

    Broken up, a mark does not end the answer early, and a label does not count when the judge quotes it.
    """
    fenced, marks = _MARK.subn(lambda mark: f"< {mark[0][1:-1]} >", text)
    fenced, labels = without_labels(fenced)
    return (untrusted(fenced), marks + labels) if marks + labels else (text, 0)
