"""Users with an address and a language, verdicts from model strengths, and the texts of prompts and answers."""

from collections import Counter
from collections.abc import Mapping
from random import Random
from typing import NamedTuple

from tasks.demo.images import PoolImage
from tasks.demo.records import Model, models
from tasks.demo.words import speeches, topics

CONVERSATIONS_A_PERSON = 4
TIE_PROBABILITY, BOTH_BAD_PROBABILITY = 0.14, 0.07
CONTEXT_PROBABILITY, STYLE_PROBABILITY, REFUSAL_PROBABILITY = 0.35, 0.35, 0.015
_RANGES, _HOSTS = ("192.0.2", "198.51.100", "203.0.113"), 254
"""Addresses that are reserved for documentation."""
_UNSPACED = {"zh", "ja"}


class Person(NamedTuple):
    """One user."""

    address: str
    language: str


class Crowd:
    """All users of the arena; a few are frequent, most come once or twice."""

    def __init__(self, conversations: int) -> None:
        self._size = max(5, conversations // CONVERSATIONS_A_PERSON)
        self._languages = [code for code, speech in speeches().items() for _ in range(round(speech.share))]

    def anybody(self, rng: Random) -> Person:
        """A random user; frequent users are more likely."""
        index = int(self._size * rng.random() ** 1.5)
        language = self._languages[index * 37 % len(self._languages)]
        if index < len(_RANGES) * _HOSTS:
            return Person(f"{_RANGES[index % len(_RANGES)]}.{1 + index // len(_RANGES)}", language)
        return Person(f"2001:db8::{index:x}", language)


def quality(model: Model) -> float:
    """0 for the weakest model to 1 for the strongest."""
    strengths = [other.strength for other in models()]
    return (model.strength - min(strengths)) / (max(strengths) - min(strengths))


def verdict(rng: Random, left: Model, right: Model) -> str:
    """The type of a random vote. Ties do not depend on the models, so they do not change the models' order."""
    luck = rng.random()
    if luck < TIE_PROBABILITY:
        return "tievote"
    if luck < TIE_PROBABILITY + BOTH_BAD_PROBABILITY:
        return "bothbad_vote"
    left_wins = 1 / (1 + 10 ** ((right.strength - left.strength) / 400))
    return "leftvote" if rng.random() < left_wins else "rightvote"


class Phrasebook:
    """Makes prompts and answers; prompts about an image repeat only after all were used."""

    def __init__(self) -> None:
        self._asked: Counter[tuple[str, str]] = Counter()

    def prompt(self, rng: Random, image: PoolImage, language: str) -> str:
        """An opening prompt about an image."""
        prompts, speech = topics()[image.topic].prompts[language], speeches()[language]
        key = (image.name, language)
        question = prompts[(int(image.name[:6], 16) + self._asked[key]) % len(prompts)].format_map(image.facts)
        self._asked[key] += 1
        before = rng.choice(speech.contexts) if rng.random() < CONTEXT_PROBABILITY else ""
        after = rng.choice(speech.styles) if rng.random() < STYLE_PROBABILITY else ""
        return _joined([before, question, after], language)

    def follow_up(self, rng: Random, language: str) -> str:
        """A later user message."""
        return rng.choice(speeches()[language].follow_ups)

    def answer(self, rng: Random, topic: str, facts: Mapping[str, str], language: str, quality: float) -> str:
        """An answer; better models write more and use more Markdown."""
        speech = speeches()[language]
        if rng.random() < REFUSAL_PROBABILITY:
            return rng.choice(speech.refusals)
        if language == "en":
            opening = rng.choice(topics()[topic].openings).format_map(facts)
            details = [detail.format_map(facts) for detail in topics()[topic].details]
        else:
            opening = rng.choice(speech.openings).format(noun=topics()[topic].nouns[language])
            details = list(speech.details)
        rng.shuffle(details)
        kept = details[: rng.randint(0, 2) + round(quality * 3)]
        closing = [rng.choice(speech.closings)] if rng.random() < 0.2 else []
        if len(kept) > 1 and rng.random() < 0.2 + 0.4 * quality:
            items = "\n".join(f"- {detail}" for detail in kept)
            return "\n\n".join([f"**{opening}**" if rng.random() < 0.5 else opening, items, *closing])
        return _joined([opening, *kept, *closing], language)


def _joined(parts: list[str], language: str) -> str:
    return ("" if language in _UNSPACED else " ").join(part for part in parts if part)
