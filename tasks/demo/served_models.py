"""Invented models that answer in the demo of the arena, and the example images that they know.

In: a folder and a seed. Out: example images with their index, and models that stream answers of planted strengths.
"""

import asyncio
import io
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import PIL.Image

from tasks.demo.drawings import FAMILIES
from tasks.demo.images import PresetFolder
from tasks.demo.records import Model, models
from tasks.demo.traffic import quality, synthetic_answer
from tasks.demo.words import chance, topics
from tasks.images.served import as_served, served_name
from tasks.providers.capabilities import ChatMessage

EXAMPLES = 24
_WORDS_A_SECOND = 40.0
_UNKNOWN = (
    "I was drawn for a demo and know its example images only. Choose one of them and ask me about it.",
    "This demo's models know only the example images. Start a new round with one of those.",
)


class Example(NamedTuple):
    """Content of an example image."""

    topic: str
    facts: dict[str, str]


def draw_examples(folder: Path, seed: int) -> dict[str, Example]:
    """Logged name -> what is in it. The images and their index are written unless they are there."""
    rng = chance(seed, "examples")
    drawn = [name for name, topic in topics().items() if any(family in FAMILIES for family in topic.families)]
    new = not (folder / "presets.json").is_file()
    presets = PresetFolder(folder) if new else None
    found = {}
    for number in range(EXAMPLES):
        topic = drawn[number % len(drawn)]
        family = rng.choice([family for family in topics()[topic].families if family in FAMILIES])
        drawing = FAMILIES[family](chance(seed, family, number))
        if presets:
            presets.add(drawing.image, topic.capitalize())
        with PIL.Image.open(folder / f"{topic}_{number}.jpg") as image:
            found[served_name(as_served(image))] = Example(topic, dict(drawing.facts))
    if presets:
        presets.close()
    return found


def demo_models() -> list[Model]:
    """The strongest, the middle and the weakest of the invented models."""
    every = models()
    return [every[0], every[len(every) // 2], every[-1]]


class DrawnModel:
    """Streams answers about example images; the stronger the model, the more of them is said."""

    def __init__(self, model: Model, examples: Mapping[str, Example], seed: int) -> None:
        self._model, self._examples, self._rng = model, examples, chance(seed, "served", model.name)

    async def stream(self, messages: Sequence[ChatMessage]) -> AsyncIterator[str]:
        """The words of the next message, at the pace of a small server."""
        for number, word in enumerate(self._answer(messages).split(" ")):
            yield f" {word}" if number else word
            await asyncio.sleep(self._rng.uniform(0.5, 1.5) / _WORDS_A_SECOND)

    def _answer(self, messages: Sequence[ChatMessage]) -> str:
        images = [content for message in messages for _, content in message.images]
        known = [found for content in images if (found := self._examples.get(_name(content)))]
        if not known:
            return self._rng.choice(_UNKNOWN)
        return synthetic_answer(self._rng, known[-1].topic, known[-1].facts, "en", quality(self._model))


def _name(png: bytes) -> str:
    with PIL.Image.open(io.BytesIO(png)) as image:
        return served_name(image.convert("RGBA"))
