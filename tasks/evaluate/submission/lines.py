"""What a submitter gets: a line for each battle with another model, without the judge's reasons.

Reasons quote captions, which may be hidden; battles with the reference would tell what it says.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import polars as pl

from tasks.evaluate.visit.items import Items
from tasks.storage.queries.benches.visit_battles import REFERENCE

_RESULT = {True: "win", False: "loss", None: "no_verdict"}


def battle_lines(battles: pl.DataFrame, items: Items, model: str) -> Iterator[dict[str, Any]]:
    """Lines about the battles of a model, from rows of `visit_battles`, by item."""
    own = battles.filter(
        pl.col("question_id").is_in(list(items.judged)),
        (pl.col("model_a") == model) | (pl.col("model_b") == model),
        (pl.col("model_a") != REFERENCE) & (pl.col("model_b") != REFERENCE),
    )
    for row in own.sort("question_id", "model_a", "model_b").iter_rows(named=True):
        item = items.judged[row["question_id"]]
        side, other = ("model_a", "model_b") if row["model_a"] == model else ("model_b", "model_a")
        orders = ("in_order", "turned") if side == "model_a" else ("turned", "in_order")
        yield {
            "item_id": item.item_id,
            "family": item.family,
            "instruction": item.instruction,
            "model": model,
            "opponent": row[other],
            "result": "tie" if row["winner"] == "tie" else _RESULT[row["winner"] == side],
            "shown_first": _said(row, orders[0], side),
            "shown_second": _said(row, orders[1], side),
        }


def _said(row: Mapping[str, Any], order: str, side: str) -> str:
    return _RESULT[None if row[order] is None else row[order] == side]
