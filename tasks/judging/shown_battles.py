"""Battles as judges and experts are shown them: released text and images, without models and without the vote."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from tasks.judging.questions import BETWEEN, image_places
from tasks.storage.content_id import combined_id

_COLUMNS = ["question_id", "model_a", "model_b", "winner", "anony", "conversation_a", "conversation_b", "image_ids"]


@dataclass(frozen=True)
class ShownBattle:
    """One battle. `left` and `right` are the battle's own sides."""

    battle_id: str
    """The battle."""
    prompt: str
    """The user's messages, numbered by turn when there are several."""
    left: str
    """The left model's answers, numbered likewise."""
    right: str
    """The right model's answers, numbered likewise."""
    image_ids: tuple[str, ...]
    """Images, in order."""
    places: tuple[int, ...] = ()
    """Characters of `prompt` before each image; empty where all stand before it, or a place is unknown."""

    @property
    def content_id(self) -> str:
        """Content id of all that is shown."""
        return combined_id("shown battle", [self.prompt, self.left, self.right, *self.image_ids])


def anonymous_battles(released: Iterable[pl.DataFrame]) -> pl.DataFrame:
    """The anonymous battles between two models among rows of a release's battle table, with a random, fixed `order`.

    The order depends on the battle's id alone, so the first battles of a larger draw are those of a smaller one.
    """
    frames = [rows.select(_COLUMNS).filter("anony", pl.col("model_a") != pl.col("model_b")) for rows in released]
    battles = pl.concat(frames)
    order = pl.Series("order", [combined_id("drawn", [name]) for name in battles["question_id"]], pl.String)
    return battles.with_columns(order).sort("order")


def shown(battles: pl.DataFrame) -> list[ShownBattle]:
    """Rows of `anonymous_battles` as they are shown."""
    return [
        ShownBattle(
            row["question_id"],
            _said(row["conversation_a"], "user"),
            _said(row["conversation_a"], "assistant"),
            _said(row["conversation_b"], "assistant"),
            tuple(row["image_ids"]),
            image_places(row["conversation_a"], len(row["image_ids"]), numbered=True),
        )
        for row in battles.iter_rows(named=True)
    ]


def _said(turns: Sequence[dict[str, Any]], role: str) -> str:
    texts = [turn["content"] for turn in turns if turn["role"] == role]
    return texts[0] if len(texts) == 1 else BETWEEN.join(f"({n}) {text}" for n, text in enumerate(texts, 1))
