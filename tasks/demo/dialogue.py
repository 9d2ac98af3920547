"""What users ask about a picture and what models answer, put together from words of the demo's own."""

from collections import Counter
from collections.abc import Mapping
from random import Random

from tasks.demo.picture_pool import PoolPicture
from tasks.demo.words import Topic, speeches, topics

CONTEXT_PROBABILITY, STYLE_PROBABILITY, REFUSAL_PROBABILITY = 0.35, 0.35, 0.015
_UNSPACED = {"zh", "ja"}


class Phrasebook:
    """Makes prompts and answers. Asks different things about a picture before it repeats itself."""

    def __init__(self) -> None:
        self._asked: Counter[tuple[str, str]] = Counter()

    def prompt(self, rng: Random, picture: PoolPicture, language: str) -> str:
        """An opening prompt about a picture."""
        prompts = topics()[picture.topic].prompts[language]
        key = (picture.name, language)
        start = int(picture.name[:6], 16)
        question = prompts[(start + self._asked[key]) % len(prompts)].format_map(picture.facts)
        self._asked[key] += 1
        speech = speeches()[language]
        before = rng.choice(speech.contexts) if rng.random() < CONTEXT_PROBABILITY else ""
        after = rng.choice(speech.styles) if rng.random() < STYLE_PROBABILITY else ""
        return _joined([before, question, after], language)

    def follow_up(self, rng: Random, language: str) -> str:
        """A later user message."""
        return rng.choice(speeches()[language].follow_ups)

    def answer(self, rng: Random, topic: str, facts: Mapping[str, str], language: str, quality: float) -> str:
        """An answer; the better the model, the longer and the more marked up."""
        speech = speeches()[language]
        if rng.random() < REFUSAL_PROBABILITY:
            return rng.choice(speech.refusals)
        opening, details = _sentences(rng, topics()[topic], facts, language)
        kept = details[: rng.randint(0, 2) + round(quality * 3)]
        closing = [rng.choice(speech.closings)] if rng.random() < 0.2 else []
        if len(kept) > 1 and rng.random() < 0.2 + 0.4 * quality:
            items = "\n".join(f"- {detail}" for detail in kept)
            return "\n\n".join([f"**{opening}**" if rng.random() < 0.5 else opening, items, *closing])
        return _joined([opening, *kept, *closing], language)


def _sentences(rng: Random, topic: Topic, facts: Mapping[str, str], language: str) -> tuple[str, list[str]]:
    """An opening and all details in random order, with their slots filled."""
    if language == "en":
        opening = rng.choice(topic.openings).format_map(facts)
        details = [detail.format_map(facts) for detail in topic.details]
    else:
        opening = rng.choice(speeches()[language].openings).format(noun=topic.nouns[language])
        details = list(speeches()[language].details)
    rng.shuffle(details)
    return opening, details


def _joined(parts: list[str], language: str) -> str:
    return ("" if language in _UNSPACED else " ").join(part for part in parts if part)
