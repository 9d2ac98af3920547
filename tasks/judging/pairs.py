"""The pairs that a judge is asked about: answers against a baseline, answers to written items, battles of the arena."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from typing import Any, NamedTuple

import polars as pl

from schemas.errors import BadInput, known_values
from tasks.judging.answers import AnswersByModel
from tasks.judging.items import Items, reference_answers
from tasks.judging.protocols import VISIT_PROTOCOLS, AnswerPair, Protocol
from tasks.judging.questions import MESSAGE_SEPARATOR, Bench, Images, image_places
from tasks.judging.visit_battles import REFERENCE, shown_id
from tasks.storage.content_id import combined_id
from tasks.storage.queries.signals import StoredImages
from tasks.storage.tables import Store

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
            row["question_id"], _said(row["conversation_a"], "user"), _said(row["conversation_a"], "assistant"),
            _said(row["conversation_b"], "assistant"), tuple(row["image_ids"]),
            image_places(row["conversation_a"], len(row["image_ids"]), numbered=True),
        )
        for row in battles.iter_rows(named=True)
    ]  # fmt: skip


def _said(turns: Sequence[dict[str, Any]], role: str) -> str:
    texts = [turn["content"] for turn in turns if turn["role"] == role]
    return texts[0] if len(texts) == 1 else MESSAGE_SEPARATOR.join(f"({n}) {text}" for n, text in enumerate(texts, 1))


AnswerRow = Mapping[str, Any]
"""A row of `answers`."""


def pairs_with_baseline(
    bench: Bench, answers: AnswersByModel, protocol: Protocol, baseline: str
) -> Iterator[AnswerPair]:
    """All comparisons with the baseline, both orders of a pair in a row. Raises BadInput for an unknown baseline."""
    if baseline not in answers:
        raise BadInput(
            f"--baseline: no answers of {known_values(baseline, answers)} Ask it with `curate judge answer`, or "
            "take in its answer files"
        )
    if len(answers) < 2:
        raise BadInput(f"only {baseline!r} has answers to this benchmark; ask another model with `curate judge answer`")
    for model in sorted(answers.keys() - {baseline}):
        for question in bench.questions:
            name = question.question_id
            if name in answers[baseline] and name in answers[model]:
                about = {"question_id": name, "document_id": question.document_id, "draw": bench.draw}
                about |= {"protocol": protocol.name, "baseline": baseline}
                for first, second in _orders(protocol, answers[baseline][name], answers[model][name]):
                    yield AnswerPair(
                        _row(about, first, second), question.prompt, first["text"], second["text"],
                        question.image_ids, partial(bench.images, question), question.places,
                    )  # fmt: skip


def _orders(protocol: Protocol, one: AnswerRow, other: AnswerRow) -> list[tuple[AnswerRow, AnswerRow]]:
    return [(one, other), (other, one)][: 1 + protocol.both_orders]


def _row(about: Mapping[str, str], first: AnswerRow, second: AnswerRow) -> dict[str, str]:
    models = {"model_a": first["model"], "model_b": second["model"]}
    return {**about, **models, "answer_a": first["version"], "answer_b": second["version"]}


class ItemBattle(NamedTuple):
    """Two players on one written item."""

    item_id: str
    one: str
    other: str


def players(items: Items, answers: AnswersByModel) -> AnswersByModel:
    """The models' answers that have words, and the references as those of one more player.

    Raises BadInput for a model with the reference's name.
    """
    if REFERENCE in answers:
        raise BadInput(f"a model is named {REFERENCE!r}, which is the verified reference; give it another name")
    worded_answers = {
        model: {name: row for name, row in rows.items() if row["text"].strip() and name in items.judged}
        for model, rows in answers.items()
    }
    return {model: rows for model, rows in (worded_answers | {REFERENCE: reference_answers(items)}).items() if rows}


def battles_between(playing: AnswersByModel, baseline: str | None) -> Iterator[ItemBattle]:
    """Every two players on every item that both have, or with a baseline each one against it. Raises BadInput."""
    if baseline is not None and baseline not in playing:
        raise BadInput(f"--baseline: no answers of {known_values(baseline, playing)}")
    if len(playing) < 2:
        raise BadInput("a comparison needs the answers of two models, or those of one and references")
    for one, other in combinations(sorted(playing), 2):
        if baseline in (None, one, other):
            for item_id in sorted(playing[one].keys() & playing[other].keys()):
                yield ItemBattle(item_id, one, other)


def pairs_of_items(
    items: Items, playing: AnswersByModel, battles: Iterable[ItemBattle], protocol: Protocol
) -> Iterator[AnswerPair]:
    """Both orders of every battle, one after the other, with captions instead of images."""
    with_reference = protocol.name == VISIT_PROTOCOLS[1]
    for item_id, one, other in battles:
        item = items.judged[item_id]
        about = {"question_id": item_id, "document_id": item.document_id, "shown": shown_id(item, with_reference)}
        about |= {"protocol": protocol.name, "baseline": "", "draw": items.draw}
        for first, second in _orders(protocol, playing[one][item_id], playing[other][item_id]):
            yield AnswerPair(
                _row(about, first, second), item.instruction, first["text"], second["text"], captions=item.captions,
                reference=item.reference or "" if with_reference else "",
            )  # fmt: skip


def pairs_of_battles(store: Store, battles: Sequence[ShownBattle]) -> list[AnswerPair]:
    """Battles that people voted on. Raises BadInput when an image is lost: a vote without it would be a guess."""
    stored = StoredImages(store, "images", "redacted_images")
    lost = next((i for battle in battles for i in battle.image_ids if i not in stored.part_of), None)
    if lost is not None:
        raise BadInput(f"image {lost!r} of a drawn battle is lost; put the store's copy back, or decide again")
    columns = ["battle_id", "conversation_a", "conversation_b"]
    sides = {row["battle_id"]: row for row in store.read("battles", columns).iter_rows(named=True)}

    def images(image_ids: Sequence[str]) -> Images:
        return tuple((image.format, image.bytes) for image in map(stored.__getitem__, image_ids))

    return [
        AnswerPair(
            {**sides[battle.battle_id], "shown": battle.content_id}, battle.prompt, battle.left, battle.right,
            battle.image_ids, partial(images, battle.image_ids), battle.places,
        )
        for battle in battles
    ]  # fmt: skip
