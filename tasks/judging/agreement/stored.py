"""Knowledge of a store about a benchmark's comparisons: answers, references, and the winners that judges named."""

from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple

import polars as pl

from schemas.errors import BadInput, known_values
from tasks.judging.agreement.label_files import in_our_columns
from tasks.judging.agreement.metrics import text_metrics
from tasks.judging.agreement.reproduced import Winners, judged, scored
from tasks.judging.visit_battles import ITEMS_DRAW, visit_battles, visit_verdicts
from tasks.leaderboard.votes import Vector
from tasks.providers.capabilities import TextEmbedder
from tasks.storage.tables import Store
from tasks.written_bench.written_items import ItemForJudging, items_for_judging


class Stored(NamedTuple):
    """Everything that a metric or a judge needs."""

    answers: dict[tuple[str, str], str]
    """(item, model) -> text."""
    references: dict[str, str]
    """Item -> reference."""
    judges: dict[str, Winners]
    """Name of judge and form -> winners."""


def stored(store: Store, bench: str, with_answers: bool) -> Stored:
    """Raises BadInput for an unknown benchmark and, with answers, for a model that has them in two versions."""
    items = {item.item_id: item for item in items_for_judging(store, bench, not_given=True)}
    if not items:
        benches = {*store.read("bench_items", ["bench"])["bench"]}
        raise BadInput(f"--bench {known_values(bench, benches)} It has no kept item")
    references = {name: item.reference for name, item in items.items() if item.reference}
    versions = store.read("verdicts", ["judge_version", "draw"]).filter(draw=f"{ITEMS_DRAW}{bench}")["judge_version"]
    winners_of_judge: dict[str, Winners] = {}
    for version in sorted(versions.unique()):
        try:
            verdicts = visit_verdicts(store, bench, version)
        except BadInput:  # all on captions that have changed since
            continue
        name = f"judge:{verdicts['judge'][0]} {verdicts['protocol'][0]}"
        columns = visit_battles(verdicts).select("question_id", "model_a", "model_b", "winner").iter_rows()
        winners_of_judge[name if name not in winners_of_judge else f"judge:{version}"] = {
            (a, b, c): winner for a, b, c, winner in columns
        }
    return Stored(_answers(store, items) if with_answers else {}, references, winners_of_judge)


def said_of(
    rows: pl.DataFrame, known: Stored, embedder: TextEmbedder, seed: int, chosen: Collection[str] = ()
) -> Iterator[tuple[str, Vector]]:
    """(judge or metric, its winner of each comparison); `chosen`: of these alone. Raises BadInput for an unknown one.

    `rows` are those of `Comparisons`.
    """
    measured = text_metrics(known.references.values(), embedder, seed)
    names = {*measured, *known.judges}
    if unknown := [name for name in chosen if name not in names]:
        raise BadInput(f"metric {known_values(unknown[0], names)}")
    for name, winners in known.judges.items():
        if not chosen or name in chosen:
            yield name, judged(winners, rows)
    for name, metric in measured.items():
        if not chosen or name in chosen:
            yield name, scored(metric, rows, known.answers, known.references)


def _answers(store: Store, items: Mapping[str, ItemForJudging]) -> dict[tuple[str, str], str]:
    rows = store.read("answers", ["question_id", "model", "version", "text", "document_id"])
    item_keys = {(item.item_id, item.document_id) for item in items.values()}
    versions, answers = dict[str, str](), dict[tuple[str, str], str]()
    for name, model, version, text, document in rows.iter_rows():
        if (name, document) not in item_keys:
            continue
        if versions.setdefault(model, version) != version:
            raise BadInput(f"model {model!r} has answers of two versions; give the compared ones with --answers")
        answers[name, model] = text
    return answers


REFERENCE_COLUMNS = {"item": ("question_id", "item_id", "item", "prompt"), "reference": ("reference", "text", "output")}


def read_references(rows: pl.DataFrame, where: str) -> dict[str, str]:
    """Item -> reference, of a table with an item and a reference. Raises BadInput for an item with two."""
    reference_rows = in_our_columns(rows, REFERENCE_COLUMNS, where).drop_nulls()
    if reference_rows["item"].is_duplicated().any():
        raise BadInput(
            f"{where} has two references of item "
            f"{reference_rows.filter(reference_rows['item'].is_duplicated())['item'][0]!r}"
        )
    return dict(reference_rows.iter_rows())
