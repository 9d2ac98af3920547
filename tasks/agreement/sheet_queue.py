"""Battles for experts on the review pages, blinded as a sheet is, and the experts' verdicts as labels."""

from collections.abc import Callable, Sequence

import polars as pl

from schemas.review import Choice, QueueName, Waiting
from tasks.agreement.label_files import VOTES, Labels
from tasks.agreement.sheets import drawn_evenly, is_swapped, item_of
from tasks.evaluate.shown_battles import shown
from tasks.storage.reviews import reviews_of
from tasks.storage.tables import Store

NO_VERDICT = "NA"
_KEYS = ("l", "r", "t", "b")
_OTHER_SIDE = {"left": "right", "right": "left"}


class SheetQueue:
    """Kept anonymous battles, drawn evenly over pairs of models; models and votes are not shown.

    `battles` gives rows of `anonymous_battles`. A battle's verdict is about the sides as they were shown.
    """

    name, title, many = QueueName.SHEET.value, "Experts", False
    about = (
        "Which answer is better? Models and votes are not shown. `curate judge sheet --reviews --store STORE` says how "
        "far experts and people agree."
    )
    choices = (
        *(Choice(key, vote, vote.capitalize()) for key, vote in zip(_KEYS, VOTES.values(), strict=True)),
        Choice("x", NO_VERDICT, "Cannot tell"),
    )
    tables = ("decisions", "conversations", "battles")

    def __init__(self, battles: Callable[[], pl.DataFrame], per_pair: int) -> None:
        self._battles, self._per_pair = battles, per_pair

    def waiting(self, store: Store) -> list[Waiting]:
        """The drawn battles, in the order of their items, which says nothing of the models."""
        conversation_of = dict(store.read("battles", ["battle_id", "conversation_a"]).iter_rows())
        drawn = shown(drawn_evenly(self._battles(), self._per_pair))
        return [
            Waiting(
                item_id=battle.battle_id,
                content_id=battle.content_id,
                conversation_id=conversation_of[battle.battle_id],
                question="Which answer is better?",
                battle_id=battle.battle_id,
                blinded=True,
                swapped=is_swapped(item_of(battle.battle_id)),
            )
            for battle in sorted(drawn, key=lambda each: item_of(each.battle_id))
        ]


def reviewed_sheets(store: Store, battle_ids: Sequence[str]) -> list[Labels]:
    """The verdicts of each expert on battles, as `read_sheet` gives them: about the battles' own sides."""
    given = reviews_of(store).filter(pl.col("item_id").is_in(list(battle_ids)), queue=QueueName.SHEET.value)
    last = given.sort("reviewed_at", maintain_order=True).unique(["item_id", "reviewer"], keep="last")
    every = sorted(last.partition_by("reviewer", as_dict=True).items())
    sheets = (_labels(str(reviewer), rows.sort("item_id")) for (reviewer,), rows in every)
    return [sheet for sheet in sheets if sheet.rows.height]


def _labels(reviewer: str, rows: pl.DataFrame) -> Labels:
    told = [
        (item, reviewer, _OTHER_SIDE.get(label, label) if is_swapped(item_of(item)) else label)
        for item, label in rows.select("item_id", "verdict").iter_rows()
        if label != NO_VERDICT
    ]
    frame = pl.DataFrame(told, schema={"item": pl.String, "rater": pl.String, "label": pl.String}, orient="row")
    return Labels(reviewer, frame, rows.height - frame.height)
