"""Battles for experts: drawn evenly over pairs of models, blinded, and the experts' verdicts as labels.

A sheet has no model, no vote and no id of the logs: its items are hashes of battle ids. Each hash says which side is
shown first, so a filled-in sheet needs nothing but the store to be read.
"""

from collections.abc import Callable, Collection, Mapping, Sequence

import polars as pl

from schemas.items.review import CANNOT_TELL, Choice, QueueName, Waiting
from tasks.judging.agreement.choices import is_swapped
from tasks.judging.agreement.label_files import VOTE_NAMES, Labels, labels_of
from tasks.judging.pairs import ShownBattle, shown
from tasks.review_queue import Listed, ReviewQueue, plain
from tasks.storage.content_id import combined_id
from tasks.storage.reviews import reviews_of
from tasks.storage.tables import Store

_KEYS = ("l", "r", "t", "b")
_OTHER_SIDE = {"left": "right", "right": "left"}


def drawn_evenly(battles: pl.DataFrame, per_pair: int) -> pl.DataFrame:
    """At most so many battles of every pair of models, from rows of `anonymous_battles`."""
    pair = pl.concat_list("model_a", "model_b").list.sort()
    return battles.filter(pl.int_range(pl.len()).over(pair) < per_pair)


def item_of(battle_id: str) -> str:
    """The item of a battle on a sheet."""
    return combined_id("sheet", [battle_id])[:16]


class BattlesQueue(ReviewQueue):
    """Kept anonymous battles, drawn evenly over pairs of models; models and votes are not shown.

    `battles` gives rows of `anonymous_battles`. A battle's verdict is about the sides as they were shown.
    """

    name, title, named_by_file = QueueName.SHEET.value, "Experts", True
    about = (
        "Which answer is better? Models and votes are not shown. `curate review results battles` says how far experts "
        "and people agree."
    )
    choices = (
        *(Choice(key, vote, vote.capitalize()) for key, vote in zip(_KEYS, VOTE_NAMES.values(), strict=True)),
        Choice("x", CANNOT_TELL, "Cannot tell"),
    )
    tables = ("decisions", "conversations", "battles")

    def __init__(self, battles: Callable[[], pl.DataFrame], per_pair: int) -> None:
        self._battles, self._per_pair = battles, per_pair
        self._shown: list[ShownBattle] = []

    def waiting(self, store: Store, among: Collection[str] | None = None) -> list[Waiting]:
        """The drawn battles, in the order of their items, which says nothing of the models; `among`: every battle."""
        conversation_of = dict(store.read("battles", ["battle_id", "conversation_a"]).iter_rows())
        battles = self._battles()
        self._shown = shown(battles if among is not None else drawn_evenly(battles, self._per_pair))
        return [
            Waiting(
                name, battle.content_id, conversation_of[name], "Which answer is better?",
                battle_id=name, blinded=True, swapped=is_swapped(item_of(name)),
            )
            for name, battle in sorted(
                ((shown_battle.battle_id, shown_battle) for shown_battle in self._shown), key=lambda b: item_of(b[0])
            )
        ]  # fmt: skip

    def listed(self, store: Store, items: Sequence[Waiting]) -> Mapping[str, Listed]:
        """Prompts, both answers and images of the battles that `waiting` gave last."""
        swapped, listed_of_battle = {item.item_id: item.swapped for item in items}, dict[str, Listed]()
        for battle in self._shown:
            sides = (battle.right, battle.left) if swapped[battle.battle_id] else (battle.left, battle.right)
            texts = zip(("Prompt", "Left", "Right"), (battle.prompt, *sides), strict=True)
            listed_of_battle[battle.battle_id] = Listed([plain(*text) for text in texts], battle.image_ids)
        return listed_of_battle

    def sheet_name(self, item: Waiting) -> str:
        """A hash."""
        return item_of(item.item_id)


def people_of(battles: pl.DataFrame) -> Labels:
    """The people's votes on rows of `anonymous_battles`."""
    rows = battles.select(item="question_id", rater=pl.lit("people"), label="winner")
    return labels_of("people", rows, "the battles")


def experts_of(store: Store, battle_ids: Sequence[str]) -> list[Labels]:
    """The verdicts of each expert on battles, about the battles' own sides; without experts who could never tell."""
    reviews = reviews_of(store).filter(pl.col("item_id").is_in(list(battle_ids)), queue=QueueName.SHEET.value)
    last = reviews.sort("reviewed_at", maintain_order=True).unique(["item_id", "reviewer"], keep="last")
    labels_of_experts = []
    for (reviewer,), rows in sorted(last.sort("item_id").partition_by("reviewer", as_dict=True).items()):
        label_rows = [
            (item, reviewer, _OTHER_SIDE.get(label, label) if is_swapped(item_of(item)) else label)
            for item, label in rows.select("item_id", "verdict").iter_rows()
            if label != CANNOT_TELL
        ]
        frame = pl.DataFrame(label_rows, dict.fromkeys(("item", "rater", "label"), pl.String), orient="row")
        labels_of_experts += [Labels(str(reviewer), frame, rows.height - frame.height)] * bool(label_rows)
    return labels_of_experts
