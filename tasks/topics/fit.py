"""Stability over nights: which documents are fitted, the fit that the store keeps, and when topics have drifted.

In: days, ids and vectors of all documents. Out: `Topics`. Which documents are fitted is a function of the documents and
their days alone, never of earlier runs. The table `topic_model` is a cache: its rows are found by what they depend on,
and without them the same topics are fitted again. But for takedowns: they remove rows of a fit, and what is left stays
the fit of the other documents, so that forgetting somebody does not change the topics of everybody.
"""

import hashlib
import json
import math
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import polars as pl

from schemas.settings import Settings
from tasks.storage.tables import Store
from tasks.topics.cluster import assign, check_vectors, cluster, members_min, reach_of, too_few
from tasks.topics.engines import Clustering, Rows, Vectors, engine

TABLE = "topic_model"


@dataclass(frozen=True)
class Topics:
    """Topics of all n documents, and the fit behind them."""

    found: Clustering
    rows: Rows
    """The rows that were fitted; all others were assigned."""
    fit: pl.DataFrame
    """The fitted documents, as the `topic_model` table keeps them."""
    new: bool
    """Whether they were fitted now, and not read from the store."""
    far: npt.NDArray[np.bool_]
    """(n,) whether a document was assigned and lies far from all fitted ones."""
    drifted: float = 0.0
    """Share of the documents after the fit day that lie far from all documents fitted up to it."""
    tried: tuple[pl.DataFrame, ...] = ()
    """Every fit that was looked at: what the table `topic_model` has to hold."""


def fit_and_assign(store: Store, days: pl.Series, ids: pl.Series, vectors: Vectors, settings: Settings) -> Topics:
    """Fit on the documents up to the fit day, assign the others; fit on all when these have drifted away.

    `ids` are sorted. They are hashes, so the first `fit_max` are a random sample that only changes with its members.
    Raises BadInput when a vector is not finite or has no length.
    """
    check_vectors(vectors)
    chosen, everything = settings.topics, np.arange(len(vectors))
    until = fit_day_rows(days, chosen.refit_growth)
    first = _topics(store, until[: chosen.fit_max], ids, vectors, settings)
    late = np.setdiff1d(everything, until)
    far = int(first.far[late].sum())
    drifted = far / max(1, len(late))
    if drifted <= chosen.drift_max or far < members_min(len(vectors), chosen):
        return replace(first, drifted=drifted, tried=(first.fit,))
    again = _topics(store, everything[: chosen.fit_max], ids, vectors, settings)
    return replace(again, drifted=drifted, tried=(first.fit, again.fit))


def fit_day_rows(days: pl.Series, growth: float) -> Rows:
    """The rows up to the fit day, int64; `days` is the day of each document.

    The fit day is the first on which there were as many documents as the largest step, of a ladder that grows by
    `growth`, that today's count has reached. So nights that add little are fitted on the same documents.
    """
    if days.is_empty():
        return np.empty(0, np.int64)
    last = days.sort()[largest_step(len(days), growth) - 1]
    return np.flatnonzero((days <= last).to_numpy())


def largest_step(count: int, growth: float) -> int:
    """The largest number not above `count` of the ladder 1, …, n, max(n + 1, ceil(growth n)), …."""
    step = 1
    while (following := max(step + 1, math.ceil(growth * step))) <= count:
        step = following
    return step


def _topics(store: Store, rows: Rows, ids: pl.Series, vectors: Vectors, settings: Settings) -> Topics:
    recipe = _recipe(vectors, settings)
    documents = pl.DataFrame({"document_id": ids, "vector": [_digest(v.tobytes(), 8) for v in vectors]}, _KEY)
    fits = store.read(TABLE).filter(pl.col("model").str.starts_with(f"{recipe}-")).sort("document_id")
    kept = fits.partition_by("model", maintain_order=True)
    if store.parts("takedowns"):
        rows = _rows_after_takedowns(kept, documents, rows)
    wanted = documents[rows]
    fit = next((each for each in kept if each.select(*_KEY).equals(wanted)), None)
    new = fit is None
    if fit is None:
        fit = _fit(recipe, wanted, vectors[rows], settings)
    found, far = _with_the_others(fit, rows, vectors, settings.workers)
    return Topics(found, rows, fit, new, far)


_KEY = {"document_id": pl.String, "vector": pl.String}


def _fit(recipe: str, documents: pl.DataFrame, vectors: Vectors, settings: Settings) -> pl.DataFrame:
    found = cluster(vectors, settings.topics, settings.seed, settings.workers)
    reach = math.inf if too_few(vectors, settings.topics) else reach_of(vectors, settings.workers)
    content = "\n".join(cell for row in documents.iter_rows() for cell in row)
    model = f"{recipe}-{_digest(content.encode(), 16)}"
    return pl.DataFrame(
        {
            "model": pl.repeat(model, documents.height, dtype=pl.String, eager=True),
            "document_id": documents["document_id"],
            "topic": found.labels,
            "probability": found.probabilities,
            "x": found.positions[:, 0].copy(),
            "y": found.positions[:, 1].copy(),
            "reach": np.full(documents.height, reach, np.float32),
            "vector": documents["vector"],
        }
    )


def _with_the_others(
    fit: pl.DataFrame, rows: Rows, vectors: Vectors, workers: int
) -> tuple[Clustering, npt.NDArray[np.bool_]]:
    """Topics of the fitted documents and of all others, which are assigned; and which of these are far."""
    model = Clustering(fit["topic"].to_numpy(), fit["probability"].to_numpy(), fit.select("x", "y").to_numpy())
    others = np.setdiff1d(np.arange(len(vectors)), rows)
    far = np.zeros(len(vectors), bool)
    if not len(others):
        return model, far
    assigned = assign(vectors[rows], model, fit["reach"][0], vectors[others], workers)
    far[others] = assigned.far
    order = np.argsort(np.concatenate([rows, others]))
    columns = ("labels", "probabilities", "positions")
    both = ([getattr(part, name) for part in (model, assigned.found)] for name in columns)
    return Clustering(*(np.concatenate(parts)[order] for parts in both)), far


def _rows_after_takedowns(kept: list[pl.DataFrame], documents: pl.DataFrame, rows: Rows) -> Rows:
    """`rows`, those to fit; in a store with takedowns those of a kept fit that holds all of them, and all still there.

    A takedown may have moved the first day of a document that others asked as well, and so what is to be fitted.
    """
    there = documents.with_row_index()
    for fit in kept:
        known = fit.join(there, on=list(_KEY), maintain_order="left")["index"].to_numpy()
        if len(known) == fit.height and np.isin(rows, known).all():
            return known.astype(np.int64)
    return rows


def _recipe(vectors: Vectors, settings: Settings) -> str:
    """A hash of everything that topics depend on, but for the documents."""
    chosen = settings.topics.model_dump(include={"members_min", "neighbours", "dimensions"})
    version = engine(settings.topics.engine).version
    return _digest(json.dumps([version, chosen, settings.seed, vectors.shape[1]]).encode(), 8)


def _digest(content: bytes, size_bytes: int) -> str:
    return hashlib.blake2b(content, digest_size=size_bytes).hexdigest()
