"""Answers of the invented models to the benchmark's prompts, and a judge's board beside their planted strengths.

An answer is made of sentences that were logged about the same image. A weaker model says more that was logged about
other images, so a judge can find the order in the texts alone.
"""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from typing import NamedTuple

import polars as pl
from scipy.stats import kendalltau, spearmanr

from tasks.demo.planted_evidence import read_facts
from tasks.demo.records import models
from tasks.demo.traffic import quality
from tasks.demo.words import chance
from tasks.storage.queries.kept import kept_conversations
from tasks.storage.tables import Store

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
    said = kept.select(
        "conversation_id", image=pl.col("image_ids").list.first(), texts=pl.col("turns").list.eval(_ASSISTANT)
    )
    about: dict[str, list[str]] = {}
    for image, texts in said.select("image", "texts").iter_rows():
        about.setdefault(image, []).extend(sentence for text in texts for sentence in _sentences(text))
    drawn = store.read("bench", ["conversation_id"])["conversation_id"]
    shown = dict(
        said.filter(pl.col("conversation_id").is_in(drawn.implode())).select("conversation_id", "image").rows()
    )
    return {
        model.name: {
            asked: _answer(chance(seed, "answer", model.name, asked), about, image, quality(model))
            for asked, image in sorted(shown.items())
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
        rows = ({"question_id": asked, "model": model, "text": text} for asked, text in of_model.items())
        lines = (json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        (folder / f"{model}.jsonl").write_text("".join(lines), encoding="utf-8")


class JudgedBoard(NamedTuple):
    """A judge's board beside the planted strengths."""

    models: list[tuple[str, float, float]]
    """(model, score, planted strength), best score first."""
    spearman: float
    kendall: float


def board_beside_strengths(expected: Path, store: Store) -> JudgedBoard | None:
    """The judge's overall board of the last release; None when there is none."""
    strengths: dict[str, float] = next((fact["models"] for fact in read_facts(expected).get("model_strengths", [])), {})
    board = store.read("judge_ratings", ["slice", "model", "score"]).filter(slice="overall").drop_nulls("score")
    ranked = board.sort("score", "model", descending=[True, False]).select("model", "score").rows()
    rows = [(model, score, float(strengths[model])) for model, score in ranked if model in strengths]
    if len(rows) < 2:
        return None
    _, scores, planted = zip(*rows, strict=True)
    return JudgedBoard(rows, float(spearmanr(scores, planted).statistic), float(kendalltau(scores, planted).statistic))
