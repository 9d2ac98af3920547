"""Compares tags of two taggers, or of a tagger and human labels, on the same documents.

Missing tags of stored documents are measured and stored; tags of documents from files are measured and not stored.
"""

import hashlib
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt

from schemas.tables import SIGNALS
from schemas.tags import SeenBefore, Share, TagAgreement, TagDisagreement, TagFigures
from tasks.providers import Providers
from tasks.providers.capabilities import Document
from tasks.runtime.progress import Measured, progress
from tasks.runtime.shares import NO_SHARE, clopper_pearson
from tasks.runtime.untrusted import one_line
from tasks.signals.paid import Asked, measure_paid
from tasks.signals.registry import signal_of
from tasks.signals.run import Load, measure_items, measured, missing
from tasks.storage.queries.signals import signal_values
from tasks.storage.tables import Store

TagValue = bool | str | None
TagLabels = Mapping[str, Mapping[str, TagValue]]
"""Item id -> label -> value; null and missing mean undecided."""
Spoken = dict[str, dict[str, TagValue]]
SHOWN_CHARACTERS = 100


def labels_of_signal(signal: str) -> tuple[str, ...]:
    """The labels of a document signal."""
    return tuple(SIGNALS[signal].model_fields)


def drawn(document_ids: Iterable[str], size: int, seed: int) -> list[str]:
    """A sample of at most `size` documents, drawn by hash of seed and id."""
    keyed = sorted(
        {(hashlib.sha256(f"{seed}:{document_id}".encode()).digest(), document_id) for document_id in document_ids}
    )
    return [document_id for _, document_id in keyed[:size]]


def spoken_in_store(
    store: Store, load: Load[Document], signal: str, providers: Providers, document_ids: Sequence[str],
    *, workers: int, now: datetime,
) -> tuple[Spoken, Measured]:  # fmt: skip
    """The chosen provider's tags of documents, which `load` gives by id. Missing ones are measured and stored.

    A paid service's answers are stored as they arrive, so a killed call pays for none of them again.
    """
    tagger_signal = signal_of(signal, providers)
    missing_ids = missing(store, tagger_signal, document_ids)
    if tagger_signal.model is not None:
        done = measure_paid(store, [Asked(tagger_signal, tagger_signal.model, missing_ids, load)], None, now)
    else:
        with progress(f"{signal} by {tagger_signal.provider}", len(missing_ids)) as advance:
            done = measure_items(store, tagger_signal, missing_ids, load, workers=workers, now=now, advance=advance)
    stored_tags = signal_values(store, signal, tagger_signal.version, labels_of_signal(signal), document_ids)
    return {row.pop("content_id"): row for row in stored_tags.iter_rows(named=True)}, done


def spoken_of(documents: Sequence[Document], signal: str, providers: Providers) -> tuple[Spoken, Measured]:
    """The chosen provider's tags of documents from files; nothing is stored."""
    ids = [document.document_id for document in documents]
    rows, done = measured([signal_of(signal, providers)], ids, documents, datetime.now(UTC))
    labels = labels_of_signal(signal)
    return {row["content_id"]: {label: row[label] for label in labels} for row in rows.get(signal, [])}, done


def agreements(
    tagger: TagLabels, reference: TagLabels, tags: Sequence[str], *, bootstraps: int = 1000, seed: int = 0
) -> list[TagAgreement]:
    """One row per label, over the items that both have."""
    return [_agreement(tag, *_decided(tagger, reference, tag), bootstraps, seed) for tag in tags]


def tag_figures(
    tagger: TagLabels, reference: TagLabels, tags: Sequence[str], made_with: Container[str]
) -> Iterator[TagFigures]:
    """Figures of a tagger on each tag, of items that the embedded rules were made with and of others.

    Items that the tagger gave no answer of, and labels that are null, are not counted.
    """
    for tag, material in product(tags, SeenBefore):
        pairs = [
            (tagger[item].get(tag), labels[tag])
            for item, labels in reference.items()
            if item in tagger and labels.get(tag) is not None and (item in made_with) is (material is SeenBefore.SEEN)
        ]
        hits, true = pairs.count((True, True)), sum(label is True for _, label in pairs)
        yield TagFigures(
            tag=tag,
            material=material,
            items=len(pairs),
            true=true,
            precision=clopper_pearson(hits, sum(ours is True for ours, _ in pairs)),
            recall=clopper_pearson(hits, true),
            not_known=sum(ours is None for ours, _ in pairs) / len(pairs) if pairs else None,
        )


def disagreements(
    tagger: TagLabels, reference: TagLabels, tags: Sequence[str], prompts: Mapping[str, str]
) -> Iterator[TagDisagreement]:
    """Every item and label on which the two differ, sorted by label, then item."""
    for tag in tags:
        for item in sorted(tagger.keys() & reference.keys()):
            ours, theirs = tagger[item].get(tag), reference[item].get(tag)
            if ours is not None and theirs is not None and ours != theirs:
                prompt = one_line(prompts.get(item, ""), SHOWN_CHARACTERS)
                yield TagDisagreement(item=item, tag=tag, tagger=ours, reference=theirs, prompt=prompt)


def _decided(tagger: TagLabels, reference: TagLabels, tag: str) -> tuple[list[tuple[TagValue, TagValue]], int]:
    """Pairs of values on items that both decided, and the number of items that at least one left undecided."""
    pairs = [(tagger[item].get(tag), reference[item].get(tag)) for item in sorted(tagger.keys() & reference.keys())]
    decided = [pair for pair in pairs if None not in pair]
    return decided, len(pairs) - len(decided)


def _agreement(
    tag: str, pairs: Sequence[tuple[TagValue, TagValue]], undecided: int, bootstraps: int, seed: int
) -> TagAgreement:
    values = sorted(
        {str(tag_value) for pair in pairs for tag_value in pair} | ({"False", "True"} if _yes_or_no(pairs) else set())
    )
    place = {value: n for n, value in enumerate(values)}
    table = np.zeros((len(values), len(values)), np.int64)
    for ours, theirs in pairs:
        table[place[str(ours)], place[str(theirs)]] += 1
    draws = _resampled(table, bootstraps, seed)
    both = (int(table[1, 1]), int(table[1].sum()), int(table[:, 1].sum())) if _yes_or_no(pairs) and pairs else None
    hits, tagged, in_reference = both or (0, 0, 0)
    return TagAgreement(
        tag=tag,
        items=len(pairs),
        undecided=undecided,
        tagged=tagged,
        in_reference=in_reference,
        accuracy=clopper_pearson(int(np.trace(table)), len(pairs)),
        precision=clopper_pearson(hits, tagged),
        recall=clopper_pearson(hits, in_reference),
        f1=_with_interval(_f1(table[None]), _f1(draws)) if both else NO_SHARE,
        kappa=_with_interval(_kappa(table[None]), _kappa(draws)) if pairs else NO_SHARE,
    )


def _yes_or_no(pairs: Sequence[tuple[TagValue, TagValue]]) -> bool:
    return all(isinstance(tag_value, bool) for pair in pairs for tag_value in pair)


def _resampled(table: npt.NDArray[np.int64], bootstraps: int, seed: int) -> npt.NDArray[np.int64]:
    """int64 (bootstraps, values, values): tables of as many items drawn with replacement (Efron 1979)."""
    n = int(table.sum())
    if not n:
        return np.zeros((0, *table.shape), np.int64)
    drawn = np.random.default_rng(seed).multinomial(n, table.ravel() / n, size=bootstraps)
    return drawn.reshape(-1, *table.shape)


def _f1(tables: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """float64 (n,) of int64 (n, 2, 2); NaN where neither has a positive."""
    hits, positives = tables[:, 1, 1], tables[:, 1].sum(1) + tables[:, :, 1].sum(1)
    return _divided(2.0 * hits, positives)


def _kappa(tables: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """Cohen (1960): float64 (n,) of int64 (n, values, values); NaN where chance alone agrees on everything."""
    n = tables.sum((1, 2))
    agreed = _divided(np.trace(tables, axis1=1, axis2=2), n)
    by_chance = _divided((tables.sum(1) * tables.sum(2)).sum(1), n * n)
    return _divided(agreed - by_chance, 1 - by_chance)


def _divided(above: npt.NDArray[Any], below: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    quotient = np.full(len(below), np.nan)
    np.divide(above, below, out=quotient, where=np.abs(below) > 1e-12)
    return quotient


def _with_interval(value: npt.NDArray[np.float64], draws: npt.NDArray[np.float64]) -> Share:
    """The value, and the 2.5 and 97.5 % quantiles of the draws in which it is defined."""
    defined_draws = draws[np.isfinite(draws)]
    if not np.isfinite(value[0]) or not len(defined_draws):
        return NO_SHARE
    low, high = np.quantile(defined_draws, (0.025, 0.975))
    return Share(value=float(value[0]), ci95_low=float(low), ci95_high=float(high))
