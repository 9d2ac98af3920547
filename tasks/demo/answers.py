"""Answers of the invented models to the benchmark's prompts and in the arena, and a judge's board of them.

An answer is made of sentences that were logged about the same image. A weaker model says more that was logged about
other images, so a judge can find the order in the texts alone.
"""

import asyncio
import io
import json
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import NamedTuple

import PIL.Image
import polars as pl

from tasks.demo.drawings import FAMILIES
from tasks.demo.images import PresetFolder
from tasks.demo.planted_evidence import read_facts
from tasks.demo.records import Model, models
from tasks.demo.traffic import quality, synthetic_answer
from tasks.demo.words import chance, topics
from tasks.images.served import as_served, served_name
from tasks.providers.capabilities import ChatMessage
from tasks.storage.queries.released import kept_conversations
from tasks.storage.tables import Store

EXAMPLE_IMAGES = 24
_WORDS_A_SECOND = 40.0
_UNKNOWN = (
    "I was drawn for a demo and know its example images only. Choose one of them and ask me about it.",
    "This demo's models know only the example images. Start a new round with one of those.",
)
BASELINE = models()[len(models()) // 2].name
"""The model of middle strength."""
SENTENCES = 4
"""Sentences of every answer, so that length says nothing."""
RIGHT_LEAST, RIGHT_MOST = 0.3, 0.95
"""Share of sentences about the prompt's own image: of the weakest model and of the strongest."""
_ENDS = re.compile(r"(?<=[.!?]) ")
_ASSISTANT = pl.element().filter(pl.element().struct.field("role") == "assistant").struct.field("content")


def demo_answers(store: Store, seed: int) -> dict[str, dict[str, str]]:
    """Model -> question_id -> answer, for the store's benchmark; the same tables and seed give the same answers."""
    kept = kept_conversations(store).filter(pl.col("image_ids").list.len() > 0)
    answers = kept.select(
        "conversation_id", image=pl.col("image_ids").list.first(), texts=pl.col("turns").list.eval(_ASSISTANT)
    )
    about: dict[str, list[str]] = {}
    for image, texts in answers.select("image", "texts").iter_rows():
        about.setdefault(image, []).extend(sentence for text in texts for sentence in _sentences(text))
    drawn = store.read("bench", ["conversation_id"])["conversation_id"]
    image_of = dict(
        answers.filter(pl.col("conversation_id").is_in(drawn.implode())).select("conversation_id", "image").rows()
    )
    return {
        model.name: {
            question_id: _answer(chance(seed, "answer", model.name, question_id), about, image, quality(model))
            for question_id, image in sorted(image_of.items())
        }
        for model in models()
    }


def _sentences(text: str) -> list[str]:
    lines = (line.strip("-* ") for line in text.splitlines())
    every = (sentence for line in lines for sentence in _ENDS.split(line))
    return [sentence for sentence in every if sentence and sentence.isascii()]  # the benchmark is English


def _answer(rng: Random, about: Mapping[str, Sequence[str]], image: str, quality: float) -> str:
    right = list(dict.fromkeys(about[image]))
    rng.shuffle(right)
    others = sorted(name for name, sentences in about.items() if sentences and name != image)
    chosen = []
    for _ in range(SENTENCES):
        if right and rng.random() < RIGHT_LEAST + (RIGHT_MOST - RIGHT_LEAST) * quality:
            chosen.append(right.pop())
        elif others:
            chosen.append(rng.choice(about[rng.choice(others)]))
    return " ".join(chosen)


def write_answers(answers: Mapping[str, Mapping[str, str]], folder: Path) -> None:
    """Write `<model>.jsonl`, as `curate judge answer --models` reads it."""
    folder.mkdir(parents=True, exist_ok=True)
    for model, of_model in answers.items():
        rows = ({"question_id": question_id, "model": model, "text": text} for question_id, text in of_model.items())
        lines = (json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        (folder / f"{model}.jsonl").write_text("".join(lines), encoding="utf-8")


def board_beside_strengths(expected: Path, store: Store) -> tuple[list[tuple[str, float, float]], float, float] | None:
    """The judge's overall board of the last release with the planted strengths; None when there is none.

    (model, score, planted strength), best score first; then Spearman's and Kendall's correlation of both.
    """
    strengths: dict[str, float] = next((fact["models"] for fact in read_facts(expected).get("model_strengths", [])), {})
    board = store.read("judge_ratings", ["slice", "model", "score"]).filter(slice="overall").drop_nulls("score")
    ranked = board.sort("score", "model", descending=[True, False]).select("model", "score").rows()
    rows = [(model, score, float(strengths[model])) for model, score in ranked if model in strengths]
    if len(rows) < 2:
        return None
    from scipy.stats import kendalltau, spearmanr  # slow to load

    _, scores, planted = zip(*rows, strict=True)
    return rows, float(spearmanr(scores, planted).statistic), float(kendalltau(scores, planted).statistic)


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
    examples = {}
    for number in range(EXAMPLE_IMAGES):
        topic = drawn[number % len(drawn)]
        family = rng.choice([family for family in topics()[topic].families if family in FAMILIES])
        drawing = FAMILIES[family](chance(seed, family, number))
        if presets:
            presets.add(drawing.image, topic.capitalize())
        with PIL.Image.open(folder / f"{topic}_{number}.jpg") as image:
            examples[served_name(as_served(image))] = Example(topic, dict(drawing.facts))
    if presets:
        presets.close()
    return examples


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
        examples = [example for content in images if (example := self._examples.get(_name(content)))]
        if not examples:
            return self._rng.choice(_UNKNOWN)
        return synthetic_answer(self._rng, examples[-1].topic, examples[-1].facts, "en", quality(self._model))


def _name(png: bytes) -> str:
    with PIL.Image.open(io.BytesIO(png)) as image:
        return served_name(image.convert("RGBA"))
