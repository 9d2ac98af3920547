"""Words with the model's probabilities, and the runs of words that are one name or one address."""

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from schemas.signals import PiiSpan

Stretch = tuple[int, int]
SURE, MAYBE = 0.5, 0.25
"""Least probability of one word of an entity, and of every other word."""
MODEL_NAME = re.compile(
    r"(?:llama|mistral|mixtral|qwen|gemma|gemini|claude|gpt|phi|falcon|vicuna|alpaca|deepseek|yi|olmo|grok)"
    r"[ -]?(?:v?\d|opus|sonnet|haiku|pro\b|ultra|flash|nano|large|medium|small)",
    re.I,
)
"""Names of language models, whose sizes and versions look like house numbers."""


class Word(NamedTuple):
    """A word and its probabilities of being part of a person's name, of an address, and of a street name."""

    start: int
    end: int
    person: float
    address: float
    street: float


def runs(text: str, chances: Sequence[tuple[Word, float]], gap: re.Pattern[str]) -> Iterator[list[Word]]:
    """Runs of adjacent words with at least MAYBE each, of which at least one has SURE."""
    run: list[Word] = []
    sure = False
    for word, chance in chances:
        if chance < MAYBE:
            continue
        reach = max((other.end for other in run), default=0)
        if run and word.start > reach and not gap.fullmatch(text, reach, word.start):
            if sure:
                yield run
            run, sure = [], False
        run.append(word)
        sure = sure or chance >= SURE
    if sure:
        yield run


def span(kind: str, start: int, end: int, chances: Sequence[float]) -> PiiSpan:
    """A span with the mean of the probabilities as its confidence."""
    return PiiSpan(type=kind, start=start, end=end, confidence=max(SURE, sum(chances) / len(chances)))
