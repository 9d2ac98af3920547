"""The conversation that another one repeats, and what the two have in common."""

from typing import Any

import numpy as np
import polars as pl

from tasks.storage.queries.signals import table_name
from tasks.storage.tables import Store

Account = dict[str, Any]

RELATIONS = {"perceptual": "near_pictures", "semantic": "semantic_pictures"}
"""How two different images can be alike -> the table of such pairs, the closest relation first."""


def duplicate_match(store: Store, item: Account, match_id: str | None) -> Account | None:
    """The conversation `match_id` that the row `item` of `conversations` repeats; None when it is not in the store."""
    rows = store.read("conversations").filter(conversation_id=match_id) if match_id else None
    if rows is None or rows.is_empty():
        return None
    match = rows.row(0, named=True)
    shown = zip(item["image_ids"], match["image_ids"], strict=False)
    return {
        "conversation": match_id,
        "source": f"{match['source']}:{match['line']}",
        "pictures": [_alike(store, one, other) for one, other in shown],
        "same_prompt": item["prompt_id"] == match["prompt_id"],
        "prompt_cosine": _cosine(store, item["prompt_id"], match["prompt_id"]),
    }


def _alike(store: Store, one: str, other: str) -> Account:
    """The relation of two images: equal, paired, or both paired with a third that represents them."""
    ends = {"picture": one, "twin": other}
    if one == other:
        return ends | {"relation": "exact"}
    between: dict[str, set[str]] = {one: set(), other: set()}
    for relation, table in RELATIONS.items():
        pairs = store.read(table)
        direct = pairs.filter(image_a=min(one, other), image_b=max(one, other))
        if direct.height:
            return ends | {"relation": relation} | direct.drop("image_a", "image_b").row(0, named=True)
        for end, others in between.items():
            touching = pairs.filter((pl.col("image_a") == end) | (pl.col("image_b") == end))
            others |= {*touching["image_a"], *touching["image_b"]} - {end}
    return ends | {"relation": "through", "both_like": sorted(between[one] & between[other])}


def _cosine(store: Store, one: str, other: str) -> float | None:
    """Cosine of the prompts' embeddings by the latest model that embedded both; null when none did."""
    if one == other:
        return 1.0
    rows = store.read(table_name("text_embedding")).filter(pl.col("content_id").is_in([one, other]))
    both = rows.unique(["content_id", "version"]).group_by("version").agg("vector", pl.col("measured_at").max())
    known = both.filter(pl.col("vector").list.len() == 2).sort("measured_at")
    if known.is_empty():
        return None
    a, b = known["vector"].to_list()[-1]
    return round(float(np.dot(a, b)), 4)
