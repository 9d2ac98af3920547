"""A model's answers that somebody hands in: whom they meet, which battles a judge is asked about, what is told of them.

A draw depends on nothing but content: the same answers give the same battles, and one more model on the board changes
only the items where it is drawn. The items with a battle against the reference are the same for every model.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from schemas.errors import BadInput
from schemas.settings import EvaluateSettings
from tasks.judging.answers import AnswersByModel, take_in_answers
from tasks.judging.files.answer_files import AnswersRead
from tasks.judging.files.submission_files import AnswerableItem, Submission, read_submission
from tasks.judging.items import Items
from tasks.judging.pairs import ItemBattle, pairs_of_items, players
from tasks.judging.protocols import AnswerPair
from tasks.judging.sources import answers_on, items_chosen, protocol_of
from tasks.judging.visit_battles import REFERENCE
from tasks.product import KeyedItems
from tasks.storage.content_id import combined_id
from tasks.storage.tables import Store
from tasks.written_bench.written_items import items_for_judging

_RESULT = {True: "win", False: "loss", None: "no_verdict"}


@dataclass(frozen=True)
class Plan:
    """Work that one submission gives to the judge."""

    submission: Submission
    items: Items
    """The items that the judge may see."""
    wanted: list[AnswerPair]
    """Battles in both orders, also those that are judged already."""


def plan_of(store: Store, chosen: EvaluateSettings) -> Plan:
    """Raises BadInput: for settings or answers that cannot be used, or when the name has other answers already."""
    items, model = items_chosen(store, chosen), chosen.submitted_as or ""
    bench_items = items_for_judging(store, items.bench, not_given=True)
    able = [
        AnswerableItem(item.item_id, item.family, item.instruction, item.document_id, item.image_names)
        for item in bench_items
    ]
    submission = read_submission(Path(chosen.submission or ""), model, able, items.bench)
    rows: dict[str, dict[str, Any]] = {answer.question_id: answer.model_dump() for answer in submission.answers}
    others = answers_on(store, items, chosen, but=model)
    if _versions(store, model, items) - {submission.version}:
        raise BadInput(f"--model {model!r} has other answers on this board; give the new ones another name")
    playing = players(items, {**others, model: rows})
    if model not in playing:
        raise BadInput("no answer is on an item that the judge may see; hidden items need --hidden")
    battles = _drawn_battles(items, playing, model, chosen.reference_battles)
    if not battles:
        raise BadInput("there is nobody to meet: no other model has answers, and no item a reference")
    return Plan(submission, items, list(pairs_of_items(items, playing, battles, protocol_of(chosen))))


def _versions(store: Store, model: str, items: Items) -> set[str]:
    """Versions of the answers that a model has on these items as they are now."""
    rows = store.read("answers", ["question_id", "document_id", "model", "version"]).filter(model=model)
    documents = {item.item_id: item.document_id for item in items.judged.values()}
    return {
        row["version"] for row in rows.iter_rows(named=True) if documents.get(row["question_id"]) == row["document_id"]
    }


def _drawn_battles(items: Items, playing: AnswersByModel, model: str, reference_battles: int) -> list[ItemBattle]:
    """One opponent on every item, and the reference on some items, all drawn by content hash; sides by name."""
    others, battles = sorted(playing.keys() - {model, REFERENCE}), list[ItemBattle]()
    for item_id, row in sorted(playing[model].items()):
        content = items.judged[item_id].document_id, row["version"]
        if opponents := [other for other in others if item_id in playing[other]]:
            drawn = min(opponents, key=lambda other: combined_id("opponent", [content[0], other, content[1]]))
            battles.append(_battle(item_id, model, drawn))
    both = playing[model].keys() & playing.get(REFERENCE, {}).keys()
    order = sorted(both, key=lambda item_id: combined_id("reference battle", [items.judged[item_id].document_id]))
    return battles + [_battle(item_id, model, REFERENCE) for item_id in order[:reference_battles]]


def _battle(item_id: str, one: str, other: str) -> ItemBattle:
    return ItemBattle(item_id, min(one, other), max(one, other))


def keep_answers(store: Store, submission: Submission) -> int:
    """Store the answers that are new; returns how many there are."""
    return take_in_answers(store, AnswersRead(submission.answers)).counts.total()


def battle_lines(battles: pl.DataFrame, items: Items, model: str) -> Iterator[dict[str, Any]]:
    """Lines about the battles of a model, from rows of `visit_battles`, by item, for its submitter.

    Without the judge's reasons, which quote captions that may be hidden; battles with the reference would tell what it
    says.
    """
    model_battles = battles.filter(
        pl.col("question_id").is_in(list(items.judged)),
        (pl.col("model_a") == model) | (pl.col("model_b") == model),
        (pl.col("model_a") != REFERENCE) & (pl.col("model_b") != REFERENCE),
    )
    for row in model_battles.sort("question_id", "model_a", "model_b").iter_rows(named=True):
        item = items.judged[row["question_id"]]
        side, other = ("model_a", "model_b") if row["model_a"] == model else ("model_b", "model_a")
        orders = ("in_order", "turned") if side == "model_a" else ("turned", "in_order")
        results = [_RESULT[None if row[order] is None else row[order] == side] for order in orders]
        yield {
            "item_id": item.item_id, "family": item.family, "instruction": item.instruction, "model": model,
            "opponent": row[other], "result": "tie" if row["winner"] == "tie" else _RESULT[row["winner"] == side],
            "shown_first": results[0], "shown_second": results[1],
        }  # fmt: skip


def read_keyed(kept: KeyedItems, path: Path, model: str) -> Submission:
    """Answers of a file to a benchmark's kept items. Raises BadInput as `read_submission` does."""
    documents = dict(kept.conversations.select("conversation_id", "document_id").iter_rows())
    items = [AnswerableItem(item.item_id, item.kind, item.question, documents[item.item_id]) for item in kept.items]
    return read_submission(path, model, items)
