"""Agreement of two files of labels, and of the raters of one file, in every form that the labels have."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from schemas.benches.agreement import Agreed, AgreedByRaters, Form, LabelAgreement, RaterAgreement
from schemas.errors import BadInput
from tasks.judging.agreement.label_files import VOTE_NAMES, Labels, same_kind
from tasks.leaderboard.agreement import alpha
from tasks.leaderboard.intervals import quantiles95
from tasks.leaderboard.votes import Matrix, Numbers, Vector
from tasks.runtime.untrusted import one_line

VoteTables = npt.NDArray[np.float64]
FigureValues = dict[str, float | None]
"""NAME, NAME_ci95_low and NAME_ci95_high of every figure; null where undefined."""
_VOTES = tuple(VOTE_NAMES.values())
_SHOWN = {Form.FOUR: _VOTES, Form.THREE: _VOTES[:3], Form.BINARY: _VOTES[:2]}
"""Form of votes -> its labels, the finest form first."""
_MERGED = {"both bad": "tie"}


def label_agreement(a: Labels, b: Labels, rounds: int, seed: int) -> LabelAgreement:
    """How far `b` agrees with `a`, on the items that both label.

    95 % intervals resample whole items. Raises BadInput when no item is shared, or when only one file holds votes.
    """
    same_kind((a, b))
    items = [set(file.rows["item"]) for file in (a, b)]
    if not (shared := items[0] & items[1]):
        examples = [", ".join(repr(one_line(item, 40)) for item in sorted(item_names)[:2]) for item_names in items]
        raise BadInput(
            f"{a.name} and {b.name} label no item in common (one has {examples[0]} …, the other {examples[1]} …); give "
            "labels of the same items"
        )
    first, second = (file.rows.filter(pl.col("item").is_in(list(shared))) for file in (a, b))
    forms = [_agreed(first, second, form, labels, rounds, seed) for form, labels in _forms(first, second)]
    return LabelAgreement(
        **dict(forms[0]), a=a.name, b=b.name, only_a=len(items[0] - shared), only_b=len(items[1] - shared),
        no_verdict_a=a.no_verdict, no_verdict_b=b.no_verdict, forms=forms[1:],
        raters=[rater_agreement(file, rounds, seed) for file in (a, b) if has_several(file)],
    )  # fmt: skip


def has_several(file: Labels) -> bool:
    """Whether any item has labels of several raters."""
    return bool(file.rows["item"].is_duplicated().any())


def rater_agreement(file: Labels, rounds: int, seed: int) -> RaterAgreement:
    """How far the raters of a file agree. Raises BadInput when no item has two."""
    if not has_several(file):
        raise BadInput(f"{file.name} has one label an item; give a second file, or one with a column rater")
    forms = [_by_raters(file, form, labels, rounds, seed) for form, labels in _forms(file.rows)]
    return RaterAgreement(**dict(forms[0]), file=file.name, no_verdict=file.no_verdict, forms=forms[1:])


def _forms(*files: pl.DataFrame) -> list[tuple[Form, tuple[str, ...]]]:
    """(form, labels) of every form that these labels have, the finest first."""
    used = {label for rows in files for label in rows["label"].unique()}
    if not used <= set(_VOTES):
        codes = _codes(sorted(used), Form.LABELS)
        order = np.argsort(codes, kind="stable") if codes is not None else range(len(used))
        return [(Form.LABELS, tuple(np.array(sorted(used), object)[list(order)]))]
    finest = Form.FOUR if "both bad" in used else Form.THREE if "tie" in used else Form.BINARY
    return list(_SHOWN.items())[[*_SHOWN].index(finest) :]


def _codes(labels: Sequence[str], form: Form) -> Vector | None:
    """Numbers of the labels for Pearson's correlation: their own, or places; None for three and more plain names."""
    if form is not Form.LABELS:
        return np.arange(len(labels), dtype=np.float64)
    try:
        return np.array([float(label) for label in labels])
    except ValueError:
        return np.arange(2, dtype=np.float64) if len(labels) == 2 else None


def _agreed(a: pl.DataFrame, b: pl.DataFrame, form: Form, labels: Sequence[str], rounds: int, seed: int) -> Agreed:
    first, second = (_counts(rows, form, labels) for rows in (a, b))
    joined = first.join(second, on="item", suffix=" b").drop("item").to_numpy()
    patterns, items = _patterns(joined)
    of_a, of_b = patterns[:, : len(labels)], patterns[:, len(labels) :]
    cells = of_a[:, :, None] * of_b[:, None, :]
    samples: dict[str, Vector] = dict.fromkeys(_FIGURES, np.full(2, np.nan))
    if len(patterns):
        drawn = list(resamples(items, rounds, seed))
        confusion = np.stack([np.tensordot(times, cells, 1) for times in drawn])
        alphas = np.concatenate([alpha(of_a + of_b, times[None]) for times in drawn])
        samples = figures(confusion, _codes(labels, form)) | {"alpha": alphas}
    facts: dict[str, Any] = {
        "form": form,
        "items": int(items.sum()),
        "labels": list(labels),
        "confusion": np.tensordot(items, cells, 1).astype(int).tolist(),
        "pairs": int(np.tensordot(items, cells, 1).sum()),
    }
    return Agreed(**facts, **with_intervals(samples))


_FIGURES = ("accuracy", "f1_macro", "f1_micro", "f1_weighted", "kappa", "pearson", "alpha")


def _by_raters(file: Labels, form: Form, labels: Sequence[str], rounds: int, seed: int) -> AgreedByRaters:
    counted = _counts(file.rows, form, labels).drop("item").to_numpy()
    patterns, items = _patterns(counted[counted.sum(axis=1) > 1])
    label_counts = patterns.sum(axis=1)
    same, pairs = (patterns * (patterns - 1) / 2).sum(axis=1), label_counts * (label_counts - 1) / 2
    agreeing, pair_count = float(items @ same), float(items @ pairs)
    samples: dict[str, Vector] = dict.fromkeys(("agreement", "alpha"), np.full(2, np.nan))
    if len(patterns):
        drawn = list(resamples(items, rounds, seed))
        shares = np.array([times @ same / (times @ pairs) for times in drawn])
        samples = {"agreement": shares, "alpha": np.concatenate([alpha(patterns, times[None]) for times in drawn])}
    counts: dict[str, Any] = {"items": int(items.sum()), "pairs": int(pair_count), "agreeing": int(agreeing)}
    return AgreedByRaters(form=form, raters=file.raters, **counts, **with_intervals(samples))


def _counts(rows: pl.DataFrame, form: Form, labels: Sequence[str]) -> pl.DataFrame:
    """item, and how often it has each of the labels; without items that have none of them."""
    label = pl.col("label") if form in (Form.FOUR, Form.LABELS) else pl.col("label").replace(_MERGED)
    labelled_rows = rows.select("item", label).filter(pl.col("label").is_in(list(labels)))
    counted = [(pl.col("label") == name).sum().cast(pl.Float64).alias(f"n {name}") for name in labels]
    return labelled_rows.group_by("item").agg(counted)


def _patterns(counts: Matrix) -> tuple[Matrix, Numbers]:
    """The different rows, and how many items have each."""
    patterns, items = np.unique(counts, axis=0, return_counts=True)
    counted_patterns: tuple[Matrix, npt.NDArray[np.int64]] = (patterns, items.astype(np.int64))
    return counted_patterns


def figures(confusion: VoteTables, codes: Vector | None) -> dict[str, Vector]:
    """accuracy, three F1, kappa and pearson, each (tables,), from confusion (tables, labels, labels); NaN if undefined.

    `codes` numbers the labels for the correlation; None when they have no order.
    """
    pairs = confusion.sum(axis=(1, 2))
    right = np.diagonal(confusion, axis1=1, axis2=2)
    first, second = confusion.sum(axis=2), confusion.sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        accuracy = right.sum(axis=1) / pairs
        f1 = 2 * right / (first + second)
        occurs = (first + second) > 0
        chance = (first * second).sum(axis=1) / pairs**2
        return {
            "accuracy": accuracy,
            "f1_macro": np.where(occurs, f1, 0).sum(axis=1) / occurs.sum(axis=1),
            "f1_micro": accuracy,
            "f1_weighted": np.where(occurs, first * f1, 0).sum(axis=1) / pairs,
            "kappa": np.where(chance < 1, (accuracy - chance) / (1 - chance), np.nan),
            "pearson": _pearson(confusion, codes),
        }


def _pearson(confusion: VoteTables, codes: Vector | None) -> Vector:
    if codes is None:
        return np.full(len(confusion), np.nan)
    weight = confusion / confusion.sum(axis=(1, 2), keepdims=True)
    first, second = weight.sum(axis=2), weight.sum(axis=1)
    mean_first, mean_second = first @ codes, second @ codes
    spread = (first @ codes**2 - mean_first**2) * (second @ codes**2 - mean_second**2)
    together = np.einsum("tij,i,j->t", weight, codes, codes) - mean_first * mean_second
    return np.asarray(np.where(spread > 1e-12, together / np.sqrt(spread.clip(1e-300)), np.nan))


def resamples(items: Numbers, rounds: int, seed: int) -> Iterator[Vector]:
    """First `items` (patterns,), how many items have each pattern; then `rounds` resamples of the items."""
    yield items.astype(np.float64)
    generator, total = np.random.default_rng(seed), int(items.sum())
    for _ in range(rounds):
        yield generator.multinomial(total, items / total).astype(np.float64)


def with_intervals(samples: dict[str, Vector]) -> FigureValues:
    """Each figure, whose first sample is its value, with the 95 % interval of the others."""
    figure_values: FigureValues = {}
    for name, values in samples.items():
        keys, point = (name, f"{name}_ci95_low", f"{name}_ci95_high"), values[0]
        if np.isnan(point):
            figure_values |= dict.fromkeys(keys)
        else:
            ends = quantiles95(values[1:], np.asarray(point))
            figure_values |= zip(keys, map(float, (point, *ends)), strict=True)
    return figure_values
