"""Asks a judge without the image for the verdicts that are missing, each battle in both orders; none is paid twice."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, NamedTuple

import polars as pl

from schemas.asked_model import AskedModel
from schemas.errors import BadInput, known_values
from schemas.judging import Label, Verdict
from tasks.evaluate.answers import Called
from tasks.evaluate.compare import ByModel, judge_version, keep_verdicts
from tasks.evaluate.visit.items import Items, reference_answers
from tasks.evaluate.visit.protocol import JudgePrompt, VisitProtocol
from tasks.evaluate.visit.verdict_texts import SHAPE, extracted, verdict_in
from tasks.providers.capabilities import ChatModel, Failed
from tasks.providers.chat import chat_model
from tasks.storage.queries.benches.visit_battles import REFERENCE, shown_id, visit_battles
from tasks.storage.queries.benches.written_items import ItemForJudging
from tasks.storage.tables import Store

_KEY = ("question_id", "shown", "model_a", "model_b", "answer_a", "answer_b", "judge_version")


class Battle(NamedTuple):
    """Two players on one item."""

    item_id: str
    one: str
    other: str


@dataclass(frozen=True)
class OrderedPair:
    """Two answers to one item in the order in which the judge sees them."""

    item: ItemForJudging
    shown: str
    """`shown_id` of the item."""
    first: Mapping[str, Any]
    """Row of `answers`, or the reference as one."""
    second: Mapping[str, Any]
    """Row of `answers`, or the reference as one."""

    def key(self, version: str) -> tuple[str, ...]:
        """The values of `_KEY`."""
        sides = (self.first["model"], self.second["model"], self.first["version"], self.second["version"])
        return (self.item.item_id, self.shown, *sides, version)


def players(items: Items, answers: ByModel) -> ByModel:
    """The models' answers that have words, and the references as those of one more player.

    Raises BadInput for a model with the reference's name.
    """
    if REFERENCE in answers:
        raise BadInput(f"a model is named {REFERENCE!r}, which is the verified reference; give it another name")
    said = {
        model: {name: row for name, row in rows.items() if row["text"].strip() and name in items.judged}
        for model, rows in answers.items()
    }
    return {model: rows for model, rows in (said | {REFERENCE: reference_answers(items)}).items() if rows}


def battles_of(playing: ByModel, baseline: str | None) -> Iterator[Battle]:
    """Every two players on every item that both have, or with a baseline each one against it. Raises BadInput."""
    if baseline is not None and baseline not in playing:
        raise BadInput(f"--baseline: no answers of {known_values(baseline, playing)}")
    if len(playing) < 2:
        raise BadInput("a comparison needs the answers of two models, or those of one and references")
    for one, other in combinations(sorted(playing), 2):
        if baseline in (None, one, other):
            for item_id in sorted(playing[one].keys() & playing[other].keys()):
                yield Battle(item_id, one, other)


def ordered_pairs(items: Items, playing: ByModel, battles: Iterable[Battle], with_reference: bool) -> list[OrderedPair]:
    """Both orders of every battle, one after the other."""
    found = []
    for item_id, *sides in battles:
        item = items.judged[item_id]
        shown = shown_id(item, with_reference)
        one, other = (playing[side][item_id] for side in sides)
        found += [OrderedPair(item, shown, one, other), OrderedPair(item, shown, other, one)]
    return found


def without_verdict(store: Store, wanted: Sequence[OrderedPair], version: str) -> list[OrderedPair]:
    """Those that this judge has not judged."""
    known = set(store.read("verdicts", list(_KEY)).iter_rows())
    return [each for each in wanted if each.key(version) not in known]


def order_counts(store: Store, wanted: Sequence[OrderedPair], version: str) -> dict[str, int]:
    """Of the wanted battles: how many have both orders, tie, or flip with the order."""
    keys = pl.DataFrame([each.key(version) for each in wanted], schema=dict.fromkeys(_KEY, pl.String), orient="row")
    judged = store.read("verdicts", [*_KEY, "label"]).join(keys, on=_KEY, how="semi")
    battles = visit_battles(judged)
    ties = battles.filter(winner="tie").height
    return {"battles": battles.height, "ties": ties, "flipped": int(battles["flipped"].sum())}


def compare_without_images(
    store: Store,
    items: Items,
    wanted: Sequence[OrderedPair],
    judge: AskedModel,
    protocol: VisitProtocol,
    batch_hours: float | None = None,
) -> Called:
    """Ask for every wanted verdict. A failed call stores nothing, so the next run makes it again.

    `batch_hours`: use the vendor's batch API, and wait for so long.
    """
    model, version, done = chat_model(judge), judge_version(judge.version, protocol.version), Called()

    def work(pair: OrderedPair) -> Verdict | Failed:
        told = judge_prompt(protocol, pair)
        judge_reply = _judge_reply(model, protocol, told, " ".join(pair.key("")))
        if isinstance(judge_reply, Failed):
            return judge_reply
        return verdict_row(pair, items.draw, protocol, judge.name, version, judge_reply, told.fenced_marks)

    return keep_verdicts(store, model, judge, wanted, (), work, batch_hours, done)


class JudgeReply(NamedTuple):
    """A judge's reply: its verdict, all that it wrote, and whether it was asked for the verdict again."""

    label: Label | None
    text: str
    asked_again: bool


def judge_prompt(protocol: VisitProtocol, pair: OrderedPair) -> JudgePrompt:
    """The chat about two answers."""
    item, answers = pair.item, (pair.first["text"], pair.second["text"])
    return protocol.told(item.captions, item.instruction, item.reference or "", answers)


def _judge_reply(model: ChatModel, protocol: VisitProtocol, told: JudgePrompt, about: str) -> JudgeReply | Failed:
    """Its verdict; where its text states none, one more call asks which it holds. Both must succeed, or neither counts.

    A reply without a word is no verdict but a failure, and asked for again in the next run.
    """
    reply = model.chat(told.messages, about, SHAPE)
    if isinstance(reply, Failed):
        return reply
    if reply.state == "empty":
        return Failed("empty_verdict")
    stated, label = verdict_in(reply.text)
    if stated or reply.state == "refused":
        return JudgeReply(label, reply.text, False)
    more = model.chat(protocol.extraction(reply.text), f"{about} extracted")
    if isinstance(more, Failed):
        return more
    return JudgeReply(extracted(more.text), f"{reply.text}\n{more.text}", True)


def verdict_row(
    pair: OrderedPair,
    draw: str,
    protocol: VisitProtocol,
    judge: str,
    version: str,
    judge_reply: JudgeReply,
    fenced_marks: int,
) -> Verdict:
    """The row of `verdicts`."""
    return Verdict(
        question_id=pair.item.item_id,
        protocol=protocol.name,
        model_a=pair.first["model"],
        model_b=pair.second["model"],
        baseline="",
        answer_a=pair.first["version"],
        answer_b=pair.second["version"],
        label=judge_reply.label,
        judge=judge,
        judge_version=version,
        draw=draw,
        text=judge_reply.text,
        asked_again=judge_reply.asked_again,
        fenced_marks=fenced_marks,
        document_id=pair.item.document_id,
        shown=pair.shown,
    )
