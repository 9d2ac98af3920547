"""Preferences of people between two answers to an item: drawn uniformly, sides by hash, a forced choice, then battles.

A sheet has no model. Its items are hashes of an item with two answers, and each hash says which is on the left, so that
a filled-in sheet needs nothing but the store to be read.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import combinations
from typing import NamedTuple

import polars as pl

from schemas.benches.written import Split
from schemas.errors import BadInput
from schemas.items.review import Choice, QueueName, ShownText, Waiting
from tasks.judging.agreement.stored import Stored
from tasks.judging.visit_battles import REFERENCE
from tasks.review.battles import is_swapped
from tasks.review.review_queue import Listed, ReviewQueue, plain
from tasks.storage.content_id import combined_id
from tasks.storage.keyed_ids import Pseudonyms
from tasks.storage.reviews import reviews_of
from tasks.storage.tables import Store
from tasks.written_bench.written_items import ItemForJudging

BATTLES = dict.fromkeys(("question_id", "model_a", "model_b", "winner", "judge"), pl.String)
"""A battle table, as `curate rate` reads it; `judge` is the rater's keyed hash, or null."""
SIDES = {"left": "model_a", "right": "model_b"}
"""Verdict -> winner of the battle."""


class ItemAnswers(NamedTuple):
    """Two answers to one item."""

    name: str
    """Hash of the item with both answers."""
    item: ItemForJudging
    left: str
    """Model on the left."""
    right: str
    """Model on the right."""


def answer_pairs(items: Sequence[ItemForJudging], known: Stored, hidden: bool) -> list[ItemAnswers]:
    """Every two players with different words on an item; hidden items only where they may leave the store."""
    found = []
    for item in items:
        if item.split is Split.HIDDEN and not hidden:
            continue
        said = {model: text for (name, model), text in known.answers.items() if name == item.item_id and text.strip()}
        said |= {REFERENCE: known.references[item.item_id]} if item.item_id in known.references else {}
        for one, other in combinations(sorted(said), 2):
            if said[one].split() == said[other].split():
                continue  # nobody can prefer one of them
            name = combined_id("preference", [item.item_id, one, said[one], other, said[other]])[:16]
            sides = (other, one) if is_swapped(name) else (one, other)
            found.append(ItemAnswers(name, item, *sides))
    return found


def drawn_uniformly(every: Sequence[ItemAnswers], count: int, seed: int) -> list[ItemAnswers]:
    """So many of them, without replacement and in the order of the draw: by a hash, never by a name."""
    return sorted(every, key=lambda each: combined_id("drawn preference", [str(seed), each.name]))[:count]


class PreferencesQueue(ReviewQueue):
    """Drawn pairs of answers, whose models are not shown. `every` gives all pairs, and the texts."""

    name, title, named_by_file = QueueName.PREFERENCES.value, "Preferences", True
    about = (
        "Which answer is better? Models are not shown, and one must be chosen. "
        "`curate review results preferences --bench NAME --out FILE` makes battles of the choices."
    )
    choices = tuple(Choice(side[0], side, side.capitalize()) for side in SIDES)
    tables = ("bench_items", "bench", "answers", "captions", "references", "decisions", "conversations")

    def __init__(self, every: Callable[[Store], tuple[Sequence[ItemAnswers], Stored]], count: int, seed: int) -> None:
        self._every, self._count, self._seed = every, count, seed

    def waiting(self, store: Store, among: Collection[str] | None = None) -> list[Waiting]:
        """The drawn pairs, in the order of the draw; `among`: all pairs."""
        every, known = self._every(store)
        return [
            Waiting(
                each.name, each.name, each.item.item_id, "Which answer is better?",
                texts=(_answer("Left", each.left, each, known), _answer("Right", each.right, each, known)),
                beside=True, blinded=True,
            )
            for each in drawn_uniformly(every, self._count if among is None else len(every), self._seed)
        ]  # fmt: skip

    def listed(self, store: Store, items: Sequence[Waiting]) -> Mapping[str, Listed]:
        """Prompts and images."""
        return {
            each.name: Listed([plain("Prompt", each.item.instruction)], each.item.image_ids)
            for each in self._every(store)[0]
        }


def _answer(heading: str, model: str, pair: ItemAnswers, known: Stored) -> ShownText:
    item_id = pair.item.item_id
    text = known.references[item_id] if model == REFERENCE else known.answers[item_id, model]
    return plain(heading, text)


def preferred(store: Store, every: Sequence[ItemAnswers], people: Pseudonyms) -> tuple[pl.DataFrame, int]:
    """The last choice of each rater on each pair of answers, as `BATTLES`, and how many are on other answers.

    Raises BadInput where there is none.
    """
    given = reviews_of(store).filter(queue=QueueName.PREFERENCES.value).sort("reviewed_at", maintain_order=True)
    last = given.unique(["item_id", "reviewer"], keep="last").sort("item_id", "reviewer")
    known, rows = {each.name: each for each in every}, list[tuple[str | None, ...]]()
    for name, rater, verdict in last.select("item_id", "reviewer", "verdict").iter_rows():
        if name in known:
            each = known[name]
            rows.append((each.item.item_id, each.left, each.right, SIDES[verdict], people.user_id(rater)))
    unknown = last.height - len(rows)
    if not rows:
        raise BadInput(f"nobody has chosen between answers of this store ({unknown:,} choices are on others)")
    return pl.DataFrame(rows, schema=BATTLES, orient="row"), unknown


def majority_counts(battles: pl.DataFrame) -> Mapping[int, int]:
    """Number of votes on two answers -> how many pairs of answers have it."""
    counted = battles.group_by("question_id", "model_a", "model_b").len()["len"]
    return {int(votes): int(count) for votes, count in counted.value_counts().sort("len").iter_rows()}
