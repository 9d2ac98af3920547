"""Kept items with the models' answers, marked, what a release says of them, and two benchmarks by different authors."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import mean

import polars as pl

from schemas.benches.generated import GeneratedItem
from schemas.benches.generated_results import AccuracyRow, AuditAnswer, ExaminerRow, ExaminersRow
from schemas.benches.judge_release import GeneratedAccuracy, GeneratedAlignment, GeneratedAudit
from schemas.errors import BadInput
from schemas.row import Row
from tasks.generated_bench.accuracy import Marked, accuracy_rows, mark, wrote
from tasks.generated_bench.audit import audit_rows
from tasks.generated_bench.bench_state import read_bench
from tasks.generated_bench.items import found_blind, kept_items
from tasks.generated_bench.results.figures import alignment_rows
from tasks.storage.tables import Store

MODELS_MIN = 3
"""Fewer models have no rank correlation worth the name."""


@dataclass(frozen=True)
class Examined:
    """One benchmark's kept items with the models' answers to them."""

    bench: str
    capability: str
    """The capability, as JSON."""
    author: str
    """Version of the model that wrote it."""
    items: Sequence[GeneratedItem]
    answers: Mapping[str, Marked]
    dropped: dict[str, int] = field(default_factory=dict)
    """Reason -> items that are left out."""
    embedded: Sequence[str] = ()
    """Makers of the benchmark that were embedded stand-ins."""


def side_by_side(
    one: Examined, other: Examined, slices: Collection[str]
) -> tuple[list[ExaminerRow], list[ExaminersRow]]:
    """(one row for each slice and model, one row for each slice); slices and models that both benchmarks have.

    Raises BadInput when they are one benchmark, test different capabilities, or no model answered enough of both.
    """
    if one.bench == other.bench:
        raise BadInput(f"--bench {other.bench!r} is given twice; name another one of the same capability")
    if one.capability != other.capability:
        raise BadInput(f"--bench {other.bench!r}: it tests another capability than {one.bench!r}")
    first, second = (_counted(examined, slices) for examined in (one, other))
    shared = [key for key in first if key in second]
    if not shared:
        raise BadInput(f"--bench {other.bench!r}: no model has answered enough of both benchmarks")
    rows, over = [], []
    for name in dict.fromkeys(slice_ for slice_, _ in shared):
        models = [model for slice_, model in shared if slice_ == name]
        pairs = {model: (first[name, model], second[name, model]) for model in models}
        rows += _rows(one, other, pairs)
        over.append(_agreement(name, pairs))
    return rows, over


def _counted(examined: Examined, slices: Collection[str]) -> dict[tuple[str, str], AccuracyRow]:
    """(slice, model) -> accuracy of models that answered enough."""
    rows = accuracy_rows(examined.items, examined.answers, slices, examined.author)
    return {(row.slice, row.model): row for row in rows if row.rank is not None}


def _rows(one: Examined, other: Examined, pairs: Mapping[str, tuple[AccuracyRow, AccuracyRow]]) -> list[ExaminerRow]:
    """The models of one slice; their ranks are among these alone."""
    differences = {model: _share(a) - _share(b) for model, (a, b) in pairs.items()}
    authors = {
        model: [examined.bench for examined in (one, other) if wrote(examined.answers[model].version, examined.author)]
        for model in pairs
    }
    usual = [differences[model] for model in pairs if not authors[model]]
    rows = []
    for model, (a, b) in pairs.items():
        favour = None
        if len(authors[model]) == 1 and usual:
            more = differences[model] - mean(usual)
            favour = more if authors[model] == [one.bench] else -more
        flags = [flag for flag in a.flags if flag in b.flags]
        flags += [f"{flag}:{one.bench}" for flag in a.flags if flag not in b.flags]
        flags += [f"{flag}:{other.bench}" for flag in b.flags if flag not in a.flags]
        if one.answers[model].version != other.answers[model].version:
            flags.append("versions_differ")
        row = ExaminerRow(
            slice=a.slice, model=model, accuracy=_share(a), ci95_low=a.ci95_low, ci95_high=a.ci95_high,
            rank=_rank(_share(a), [_share(accuracy_row) for accuracy_row, _ in pairs.values()]),
            against=_share(b), against_low=b.ci95_low, against_high=b.ci95_high,
            against_rank=_rank(_share(b), [_share(accuracy_row) for _, accuracy_row in pairs.values()]),
            difference=differences[model], own_favour=favour, flags=flags,
        )  # fmt: skip
        rows.append(row)
    return sorted(rows, key=lambda row: (row.rank, row.model))


def _agreement(name: str, pairs: Mapping[str, tuple[AccuracyRow, AccuracyRow]]) -> ExaminersRow:
    from scipy.stats import kendalltau, spearmanr  # slow to import

    first, second = ([_share(pair[side]) for pair in pairs.values()] for side in (0, 1))
    varies = len(pairs) >= MODELS_MIN and len(set(first)) > 1 and len(set(second)) > 1
    return ExaminersRow(
        slice=name,
        models=len(pairs),
        spearman=float(spearmanr(first, second).statistic) if varies else None,
        kendall=float(kendalltau(first, second).statistic) if varies else None,
        mean_difference=mean(a - b for a, b in zip(first, second, strict=True)),
    )


def _share(row: AccuracyRow) -> float:
    assert row.accuracy is not None, "a ranked model has an accuracy"
    return row.accuracy


def _rank(share: float, among: Sequence[float]) -> int:
    return 1 + sum(other_share > share for other_share in among)


SLICES = ("overall", "level", "aspect", "type")


def marked_bench(store: Store, bench: str, versions: Collection[str]) -> Examined:
    """Raises BadInput as `kept_items` and `mark` do."""
    kept, state = kept_items(store, bench), read_bench(store, bench)
    answers = answers_to(store, kept.conversations)
    author = state.progress[0].description.version if state.progress else ""
    marked = mark(kept.items, answers, versions)
    return Examined(bench, state.bench.capability, author, kept.items, marked, kept.dropped, state.embedded)


def answers_to(store: Store, conversations: pl.DataFrame) -> pl.DataFrame:
    """Answers to items as they are now."""
    now = conversations.select("document_id", question_id="conversation_id")
    return store.read("answers").join(now, on=["question_id", "document_id"], how="semi")


def audited_rows(store: Store, examined: Examined, versions: Collection[str]) -> list[GeneratedAudit]:
    """Every figure of the audit; none where nothing was asked again. Raises BadInput as `audit_rows` does."""
    answers = [AuditAnswer.model_validate(row) for row in store.read("audit_answers").to_dicts()]
    if not {answer.item_id for answer in answers} & {item.item_id for item in examined.items}:
        return []
    rows = audit_rows(examined.items, answers, examined.answers, found_blind(store, 1), versions, examined.author)
    return [GeneratedAudit(**row.model_dump(), bench=examined.bench) for row in rows]


def rows_for_release(store: Store, bench: str) -> dict[str, list[Row]]:
    """Table -> rows: accuracy in every slice, alignment and audit. Raises BadInput as `kept_items` does.

    Of several versions of a model's answers the one with most answers counts, then the newest.
    """
    answers = answers_to(store, kept_items(store, bench).conversations).with_row_index("place")
    # a row is one version of a model's answers: how many there are, and where the newest stands
    sizes = answers.group_by("model", "version").agg(pl.len(), pl.col("place").max())
    versions = sizes.sort("len", "place").unique("model", keep="last", maintain_order=True)["version"].to_list()
    marked = marked_bench(store, bench, versions)
    accuracy = accuracy_rows(marked.items, marked.answers, SLICES, marked.author)
    return {
        "generated_accuracy": [GeneratedAccuracy(**row.model_dump(), bench=bench) for row in accuracy],
        "generated_alignment": [
            GeneratedAlignment(**row.model_dump(), bench=bench) for row in alignment_rows(read_bench(store, bench))
        ],
        "generated_audit": [*audited_rows(store, marked, versions)],
    }
