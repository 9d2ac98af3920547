"""Two benchmarks of one capability by different authors, side by side: does it matter who writes the items?"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from statistics import mean

from scipy.stats import kendalltau, spearmanr

from schemas.benches.generated import GeneratedItem
from schemas.benches.generated_results import AccuracyRow, ExaminerRow, ExaminersRow
from schemas.errors import BadInput
from tasks.generated_bench.accuracy import Marked, accuracy_rows, wrote

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
    first, second = (_counted(each, slices) for each in (one, other))
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


def _counted(each: Examined, slices: Collection[str]) -> dict[tuple[str, str], AccuracyRow]:
    """(slice, model) -> accuracy of models that answered enough."""
    rows = accuracy_rows(each.items, each.answers, slices, each.author)
    return {(row.slice, row.model): row for row in rows if row.rank is not None}


def _rows(one: Examined, other: Examined, pairs: Mapping[str, tuple[AccuracyRow, AccuracyRow]]) -> list[ExaminerRow]:
    """The models of one slice; their ranks are among these alone."""
    differences = {model: _share(a) - _share(b) for model, (a, b) in pairs.items()}
    authors = {
        model: [each.bench for each in (one, other) if wrote(each.answers[model].version, each.author)]
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
            rank=_rank(_share(a), [_share(each) for each, _ in pairs.values()]),
            against=_share(b), against_low=b.ci95_low, against_high=b.ci95_high,
            against_rank=_rank(_share(b), [_share(each) for _, each in pairs.values()]),
            difference=differences[model], own_favour=favour, flags=flags,
        )  # fmt: skip
        rows.append(row)
    return sorted(rows, key=lambda row: (row.rank, row.model))


def _agreement(name: str, pairs: Mapping[str, tuple[AccuracyRow, AccuracyRow]]) -> ExaminersRow:
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
    return 1 + sum(each > share for each in among)
