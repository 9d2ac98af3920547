"""Choices of people between two answers to a written item, as battles.

A choice is on a hash of the item with two answers, and each hash says which is on the left, so that a filled-in sheet
needs nothing but the store to be read.
"""

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import NamedTuple

import polars as pl

from schemas.benches.written import Split
from schemas.errors import BadInput
from schemas.items.review import QueueName
from tasks.judging.agreement.stored import Stored, stored
from tasks.judging.visit_battles import REFERENCE
from tasks.storage.content_id import combined_id
from tasks.storage.keyed_ids import Pseudonyms, store_key
from tasks.storage.reviews import reviews_of
from tasks.storage.tables import Store
from tasks.written_bench.written_items import ItemForJudging, items_for_judging

BATTLES = dict.fromkeys(("question_id", "model_a", "model_b", "winner", "judge"), pl.String)
"""A battle table, as `curate rate` reads it; `judge` is the rater's keyed hash, or null."""
SIDE_WINNERS = {"left": "model_a", "right": "model_b"}
"""Verdict -> winner of the battle."""


def is_swapped(item: str) -> bool:
    """Whether the right side is shown on the left."""
    return int(item[-1], 16) % 2 == 1


class ItemAnswers(NamedTuple):
    """Two answers to one item."""

    name: str
    """Hash of the item with both answers."""
    item: ItemForJudging
    left: str
    """Model on the left."""
    right: str
    """Model on the right."""


def answer_pairs(items: Sequence[ItemForJudging], answers: Stored, hidden: bool) -> list[ItemAnswers]:
    """Every two players with different words on an item; hidden items only where they may leave the store."""
    pairs = []
    for item in items:
        if item.split is Split.HIDDEN and not hidden:
            continue
        texts = {
            model: text for (name, model), text in answers.answers.items() if name == item.item_id and text.strip()
        }
        texts |= {REFERENCE: answers.references[item.item_id]} if item.item_id in answers.references else {}
        for one, other in combinations(sorted(texts), 2):
            if texts[one].split() == texts[other].split():
                continue  # nobody can prefer one of them
            name = combined_id("preference", [item.item_id, one, texts[one], other, texts[other]])[:16]
            sides = (other, one) if is_swapped(name) else (one, other)
            pairs.append(ItemAnswers(name, item, *sides))
    return pairs


def preferred(store: Store, every: Sequence[ItemAnswers], people: Pseudonyms) -> tuple[pl.DataFrame, int]:
    """The last choice of each rater on each pair of answers, as `BATTLES`, and how many are on other answers.

    Raises BadInput where there is none.
    """
    reviews = reviews_of(store).filter(queue=QueueName.PREFERENCES.value).sort("reviewed_at", maintain_order=True)
    last = reviews.unique(["item_id", "reviewer"], keep="last").sort("item_id", "reviewer")
    pair_of_name, rows = {pair.name: pair for pair in every}, list[tuple[str | None, ...]]()
    for name, rater, verdict in last.select("item_id", "reviewer", "verdict").iter_rows():
        if name in pair_of_name:
            pair = pair_of_name[name]
            rows.append((pair.item.item_id, pair.left, pair.right, SIDE_WINNERS[verdict], people.user_id(rater)))
    unknown = last.height - len(rows)
    if not rows:
        raise BadInput(f"nobody has chosen between answers of this store ({unknown:,} choices are on others)")
    return pl.DataFrame(rows, schema=BATTLES, orient="row"), unknown


def majority_counts(battles: pl.DataFrame) -> Mapping[int, int]:
    """Number of votes on two answers -> how many pairs of answers have it."""
    counted = battles.group_by("question_id", "model_a", "model_b").len()["len"]
    return {int(votes): int(count) for votes, count in counted.value_counts().sort("len").iter_rows()}


def choices_on(store: Store, bench: str) -> pl.DataFrame:
    """Single choices of people between two answers to a written benchmark, as `BATTLES`; no rows without any."""
    if reviews_of(store).filter(queue=QueueName.PREFERENCES.value).is_empty():
        return pl.DataFrame(schema=BATTLES)
    pairs = answer_pairs(items_for_judging(store, bench), stored(store, bench, True), True)
    return preferred(store, pairs, Pseudonyms(store_key(store)))[0]
