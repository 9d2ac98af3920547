"""Some documents are fitted, all others assigned to the topics that were found."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from schemas.settings import Settings
from tasks.sample.clusters import check_vectors, members_min
from tasks.sample.engines import Clustering, Labels, Vectors
from tasks.sample.fit_set import fit_day_rows
from tasks.sample.fitted import Fitted, fitted_topics, rows_after_takedowns
from tasks.tables import Store

Rows = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Topics:
    """Topics of all n documents, and the fit behind them."""

    found: Clustering
    fitted: Fitted
    rows: Rows
    """The rows that were fitted; all others were assigned."""
    tried: list[Fitted]
    """Every fit that was looked at."""
    drifted: float
    """Share of the documents after the fit day that lie far from all fitted ones."""


def find(store: Store, days: pl.Series, ids: pl.Series, vectors: Vectors, settings: Settings) -> Topics:
    """Fit on the documents up to the fit day, assign the others; fit on all when these have drifted away.

    `ids` are sorted. They are hashes, so the first `fit_max` are a random sample that only changes with its members.
    """
    chosen = settings.topics
    check_vectors(vectors)
    until = fit_day_rows(days, chosen.refit_growth)
    first = _fit(store, until[: chosen.fit_max], ids, vectors, settings)
    late = np.setdiff1d(np.arange(len(vectors)), until)
    far = first.far[late].sum()
    drifted = far / max(1, len(late))
    if drifted <= chosen.drift_max or far < members_min(len(vectors), chosen):
        return Topics(first.found, first.fitted, first.rows, [first.fitted], drifted)
    again = _fit(store, np.arange(len(vectors))[: chosen.fit_max], ids, vectors, settings)
    return Topics(again.found, again.fitted, again.rows, [first.fitted, again.fitted], drifted)


@dataclass(frozen=True)
class _Fit:
    found: Clustering
    fitted: Fitted
    rows: Rows
    far: npt.NDArray[np.bool_]


def _fit(store: Store, rows: Rows, ids: pl.Series, vectors: Vectors, settings: Settings) -> _Fit:
    rows = rows_after_takedowns(store, rows, ids, vectors, settings.topics, settings.seed)
    fitted = fitted_topics(store, ids[rows], vectors[rows], settings.topics, settings.seed, settings.workers)
    others = np.setdiff1d(np.arange(len(vectors)), rows)
    far = np.zeros(len(vectors), bool)
    model = fitted.clustering
    if not len(others):
        return _Fit(model, fitted, rows, far)
    assigned = fitted.assign(vectors[others], settings.workers)
    far[others] = assigned.far
    columns = []
    for ours, theirs in zip(_columns(model), _columns(assigned.found), strict=True):
        column = np.empty((len(vectors), *ours.shape[1:]), ours.dtype)
        column[rows], column[others] = ours, theirs
        columns.append(column)
    return _Fit(Clustering(*columns), fitted, rows, far)


def _columns(found: Clustering) -> tuple[Labels, Vectors, Vectors]:
    return found.labels, found.probabilities, found.positions
