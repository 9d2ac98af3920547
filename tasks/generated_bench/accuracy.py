"""Accuracy of models on a benchmark made on demand, on the items that all of them answered, with coverage beside it."""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import polars as pl

from schemas.benches.generated import GeneratedItem
from schemas.benches.generated_results import AccuracyRow
from schemas.benches.judging import AnswerState
from schemas.errors import BadInput
from tasks.generated_bench.items import CHOICE_LETTERS
from tasks.storage.queries.bench import place_on_board

ANSWERED_SHARE_MIN, ITEMS_MIN = 0.95, 30
"""A model that answered less does not decide what all answered; a slice of fewer items is flagged."""

_BRACKETED = re.compile(r"\[\s{0,3}([A-Z])\s{0,3}\]")
_ANSWER = r"(?i:\banswer(?: is)?:?) {0,3}\*{0,2}"
_NO_OTHER = r"(?!,? {1,3}(?:or|and) {1,3}[(\[*]{0,3}[A-Z]\b)"
"""Not one of several letters, as in A or B."""
_SAID_BRACKETED = re.compile(_ANSWER + r"\[\s{0,3}([A-Z])\s{0,3}\]" + _NO_OTHER)
_NO_ARTICLE = r"(?!(?<=A) {1,3}(?!(?:because|since|as)\b)[a-z])"
"""Not the article, as in A cat."""
_SAID = re.compile(_ANSWER + r"\(?\*{0,2}([A-Z])\b(?!')" + _NO_OTHER + _NO_ARTICLE)
_ALONE = re.compile(r"\s*[(\[*]{0,3}([A-Z])[)\].*:]{0,4}\s*")


@dataclass(frozen=True)
class Marked:
    """One model's answers, marked."""

    version: str
    right: Mapping[str, bool]
    """Item -> whether it was answered right; items without an answer are not in it."""
    unreadable: Collection[str]
    """Items whose answer names no clear letter; they are wrong."""


def mark(items: Sequence[GeneratedItem], answers: pl.DataFrame, versions: Collection[str] = ()) -> dict[str, Marked]:
    """Model -> its marked answers. `answers`: rows of that table to the items as they are now.

    Raises BadInput when a model has answers of several versions and `versions` does not name one of them.
    """
    by_id = {item.item_id: item for item in items}
    marked: dict[str, Marked] = {}
    counted = answers.filter(pl.col("state") != AnswerState.FAILED.value, pl.col("question_id").is_in(list(by_id)))
    for (model,), rows in counted.sort("model").partition_by("model", as_dict=True, maintain_order=True).items():
        chosen = counted_version(str(model), rows["version"], versions)
        letters = {
            row["question_id"]: letter_of(row["text"], len(by_id[row["question_id"]].options))
            for row in rows.filter(version=chosen).iter_rows(named=True)
        }
        right = {item_id: letter == by_id[item_id].key for item_id, letter in letters.items()}
        marked[str(model)] = Marked(chosen, right, {i for i, letter in letters.items() if letter is None})
    return marked


def letter_of(text: str, options: int) -> str | None:
    """The letter in brackets; without any, the letter alone or after the word answer. None for several, or another.

    Of several letters in brackets the one after the word answer counts. Only capital letters are read: a is an article.
    """
    letters = set(_BRACKETED.findall(text))
    if len(letters) > 1:
        letters = set(_SAID_BRACKETED.findall(text))
    elif not letters:
        alone = _ALONE.fullmatch(text[:40]) if len(text) <= 40 else None
        letters = {alone[1]} if alone else set(_SAID.findall(text))
    return next(iter(letters)) if len(letters) == 1 and letters <= set(CHOICE_LETTERS[:options]) else None


def counted_version(model: str, answer_versions: Iterable[str], versions: Collection[str]) -> str:
    """The version of a model's answers that counts. Raises BadInput for several of which `versions` names not one."""
    all_versions = sorted(set(answer_versions))
    chosen = [version for version in all_versions if version in versions] if len(all_versions) > 1 else all_versions
    if len(chosen) != 1:
        raise BadInput(
            f"model {model!r} has answers of {len(all_versions)} versions ({', '.join(all_versions)}); give one as "
            "--answer-version"
        )
    return chosen[0]


def accuracy_rows(
    items: Sequence[GeneratedItem], marked: Mapping[str, Marked], slices: Collection[str], author: str = ""
) -> list[AccuracyRow]:
    """One row for each slice and model. `slices`: overall, level, aspect, type. `author`: version of their author."""
    rows = []
    for name, of_slice in sliced(items, slices):
        ids = {item.item_id for item in of_slice}
        covering = [
            marks for marks in marked.values() if len(ids & marks.right.keys()) >= ANSWERED_SHARE_MIN * len(ids)
        ]
        common = ids.intersection(*(marks.right.keys() for marks in covering)) if covering else ids
        slice_rows = [_row(name, model, marks, ids, common, author) for model, marks in marked.items()]
        # ranks among the models that answered enough
        counted = [row for row in slice_rows if "low_coverage" not in row.flags and row.accuracy is not None]
        better = {row.model: sum((rival.accuracy or 0) > (row.accuracy or 0) for rival in counted) for row in counted}
        ranked = [r.model_copy(update={"rank": 1 + better[r.model]}) if r.model in better else r for r in slice_rows]
        rows += sorted(ranked, key=lambda row: place_on_board(row.flags, row.rank, row.accuracy, row.model))
    return rows


def sliced(items: Sequence[GeneratedItem], slices: Collection[str]) -> Iterable[tuple[str, list[GeneratedItem]]]:
    """(name, items) of every slice, in the order of the benchmark."""
    if "overall" in slices:
        yield "overall", list(items)
    keys = (("level", "level"), ("aspect", "aspect"), ("type", "kind"))
    for prefix, field in keys:
        if prefix not in slices:
            continue
        for value in dict.fromkeys(getattr(item, field) for item in items):
            yield f"{prefix}:{value}", [item for item in items if getattr(item, field) == value]


def interval(right: int, items: int) -> tuple[float | None, float | None, float | None]:
    """(share, low, high): Wilson's 95 % interval; nulls without items."""
    from scipy.stats import binomtest  # slow to import

    if not items:
        return None, None, None
    bounds = binomtest(right, items).proportion_ci(method="wilson")
    return right / items, float(bounds.low), float(bounds.high)


def _row(name: str, model: str, marks: Marked, ids: set[str], common: set[str], author: str) -> AccuracyRow:
    answered = ids & marks.right.keys()
    counted = common & answered
    right = sum(marks.right[item_id] for item_id in counted)
    share, low, high = interval(right, len(counted))
    coverage = len(answered) / len(ids)
    flags = [
        *["low_coverage"] * (coverage < ANSWERED_SHARE_MIN),
        *["few_items"] * (len(counted) < ITEMS_MIN),
        *["wrote_items"] * wrote(marks.version, author),
        *["stand_in"] * marks.version.startswith("embedded-"),
    ]
    return AccuracyRow(
        slice=name, model=model, items=len(counted), right=right, accuracy=share, ci95_low=low, ci95_high=high,
        rank=None, unreadable=len(counted & set(marks.unreadable)), answered=len(answered), of=len(ids),
        coverage=coverage, flags=flags,
    )  # fmt: skip


def wrote(version: str, author: str) -> bool:
    """Whether a model's version is of the same vendor's model as the author's."""
    writer, model = author.partition("+")[0], version.partition("+")[0]
    if model.startswith("gemini-"):  # vendor gemini of a models file is google in a provider's version
        model = f"google-{model.removeprefix('gemini-')}"
    return bool(writer) and model == writer


def levels_that_do_not_fall(rows: Iterable[AccuracyRow]) -> list[str]:
    """One line for each model and pair of neighbouring levels where the harder one is not answered worse."""
    by_model: dict[str, list[AccuracyRow]] = {}
    for row in rows:
        if row.slice.startswith("level:") and row.accuracy is not None:
            by_model.setdefault(row.model, []).append(row)
    lines = []
    for model, of_model in by_model.items():
        for easier, harder in pairwise(of_model):
            if (harder.accuracy or 0) >= (easier.accuracy or 0):
                steps = f"{easier.slice[6:]} {easier.accuracy:.3f}, {harder.slice[6:]} {harder.accuracy:.3f}"
                lines.append(f"{model}: accuracy does not fall: {steps}")
    return lines


def rank_table(rows: Iterable[AccuracyRow]) -> list[dict[str, object]]:
    """One row a slice: the rank of every model, for a heat map."""
    table: dict[str, dict[str, object]] = {}
    for row in rows:
        table.setdefault(row.slice, {"slice": row.slice})[row.model] = row.rank
    return list(table.values())
