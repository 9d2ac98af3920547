"""A submission's plan: its answers, the items a judge may see, and its battles in both orders."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from schemas.errors import BadInput
from schemas.settings import EvaluateSettings
from tasks.evaluate.submission.answers import Submission, read_submission
from tasks.evaluate.submission.draw import drawn_battles
from tasks.evaluate.visit.compare import OrderedPair, ordered_pairs, players
from tasks.evaluate.visit.items import Items
from tasks.evaluate.visit.sources import answers_on, items_chosen
from tasks.storage.parts import append_incrementally
from tasks.storage.queries.benches.written_items import items_for_judging
from tasks.storage.tables import Store


@dataclass(frozen=True)
class Plan:
    """What one submission asks of the judge."""

    submission: Submission
    items: Items
    """The items that the judge may see."""
    wanted: list[OrderedPair]
    """Its battles in both orders, also those that are judged already."""


def plan_of(store: Store, chosen: EvaluateSettings) -> Plan:
    """Raises BadInput: for settings or answers that cannot be used, or when the name has other answers already."""
    items, model = items_chosen(store, chosen), chosen.submitted_as or ""
    submission = read_submission(Path(chosen.submission or ""), model, items_for_judging(store, items.bench))
    rows: dict[str, dict[str, Any]] = {each.question_id: each.model_dump() for each in submission.answers}
    others = answers_on(store, items, chosen, but=model)
    if any(row["version"] != submission.version for row in _stored(store, model, items)):
        raise BadInput(f"--model {model!r} has other answers on this board; give the new ones another name")
    playing = players(items, {**others, model: rows})
    if model not in playing:
        raise BadInput("no answer is on an item that the judge may see; hidden items need --hidden")
    battles = drawn_battles(items, playing, model, chosen.reference_battles)
    if not battles:
        raise BadInput("there is nobody to meet: no other model has answers, and no item a reference")
    return Plan(submission, items, ordered_pairs(items, playing, battles, chosen.with_reference))


def keep_answers(store: Store, plan: Plan) -> int:
    """Store the answers that are new; returns how many there are."""
    key = ("question_id", "document_id", "model", "version")
    known = set(store.read("answers", list(key)).iter_rows())
    new = [each.model_dump() for each in plan.submission.answers]
    new = [row for row in new if tuple(row[name] for name in key) not in known]
    with append_incrementally(store, "answers") as keep:
        keep(new)
    return len(new)


def _stored(store: Store, model: str, items: Items) -> list[dict[str, Any]]:
    rows = store.read("answers", ["question_id", "document_id", "model", "version"]).filter(model=model)
    documents = {item.item_id: item.document_id for item in items.judged.values()}
    return [row for row in rows.iter_rows(named=True) if documents.get(row["question_id"]) == row["document_id"]]
