"""Kept items of a benchmark with the models' answers, marked; and the rows that a release says of them."""

from collections.abc import Collection
from dataclasses import dataclass

import polars as pl

from schemas.benches.generated_results import AuditAnswer
from schemas.benches.item_boards import GeneratedAccuracy, GeneratedAlignment, GeneratedAudit
from schemas.row import Row
from tasks.generated_bench.accuracy import accuracy_rows, mark
from tasks.generated_bench.audit import audit_rows
from tasks.generated_bench.bench_state import read_bench
from tasks.generated_bench.examiners import Examined
from tasks.generated_bench.kept_items import found_blind, kept_items
from tasks.generated_bench.results.figures import alignment_rows
from tasks.storage.tables import Store

SLICES = ("overall", "level", "aspect", "type")


@dataclass(frozen=True)
class MarkedBench:
    """A benchmark's kept items and the models' answers to them."""

    examined: Examined
    dropped: dict[str, int]
    """Reason -> items that are left out."""
    embedded: list[str]
    """Makers of the benchmark that were embedded stand-ins."""


def marked_bench(store: Store, bench: str, versions: Collection[str]) -> MarkedBench:
    """Raises BadInput as `kept_items` and `mark` do."""
    kept, made = kept_items(store, bench), read_bench(store, bench)
    answers = answers_to(store, kept.conversations)
    embedded = [each.partition("=")[0] for each in made.bench.providers if each.endswith("=embedded")]
    author = made.progress[0].description.version if made.progress else ""
    marked = mark(kept.items, answers, versions)
    return MarkedBench(Examined(bench, made.bench.capability, author, kept.items, marked), kept.dropped, embedded)


def answers_to(store: Store, conversations: pl.DataFrame) -> pl.DataFrame:
    """Answers to items as they are now."""
    now = conversations.select("document_id", question_id="conversation_id")
    return store.read("answers").join(now, on=["question_id", "document_id"], how="semi")


def audited_rows(store: Store, marked: MarkedBench, versions: Collection[str]) -> list[GeneratedAudit]:
    """Every figure of the audit; none where nothing was asked again. Raises BadInput as `audit_rows` does."""
    answers = [AuditAnswer.model_validate(row) for row in store.read("audit_answers").to_dicts()]
    of, blind = marked.examined, found_blind(store, 1)
    if not {each.item_id for each in answers} & {item.item_id for item in of.items}:
        return []
    rows = audit_rows(of.items, answers, of.answers, blind, versions, of.author)
    return [GeneratedAudit(**row.model_dump(), bench=of.bench) for row in rows]


def rows_for_release(store: Store, bench: str) -> dict[str, list[Row]]:
    """Table -> rows: accuracy in every slice, alignment and audit. Raises BadInput as `kept_items` does.

    Of several versions of a model's answers the one with most answers counts, then the newest.
    """
    own = answers_to(store, kept_items(store, bench).conversations).with_row_index("place")
    sizes = own.group_by("model", "version").agg(pl.len(), pl.col("place").max())
    versions = sizes.sort("len", "place").unique("model", keep="last", maintain_order=True)["version"].to_list()
    marked = marked_bench(store, bench, versions)
    accuracy = accuracy_rows(marked.examined.items, marked.examined.answers, SLICES, marked.examined.author)
    return {
        "generated_accuracy": [GeneratedAccuracy(**row.model_dump(), bench=bench) for row in accuracy],
        "generated_alignment": [
            GeneratedAlignment(**row.model_dump(), bench=bench) for row in alignment_rows(read_bench(store, bench))
        ],
        "generated_audit": [*audited_rows(store, marked, versions)],
    }
