"""Keeps topics stable from night to night: chooses which documents to fit, caches the fit, and refits after drift.

In: days, ids and vectors of all documents. Out: `Topics`, and `topic_changes` after another fit. Which documents are
fitted depends only on the documents and their days, never on earlier runs. The table `topic_model` caches fits by a
hash of their inputs; without it the same topics are fitted again. Takedowns are the exception: they delete rows of a
cached fit, and the remaining rows stay in use, so that removing one person does not change everybody's topics.
"""

import hashlib
import json
import math
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import numpy.typing as npt
import polars as pl
from scipy.optimize import linear_sum_assignment

from schemas.settings import Settings
from tasks.runtime.parallel import map_shards, shard_runner
from tasks.storage.queries.documents import PIECE
from tasks.storage.queries.signals import lent, table_name, unload
from tasks.storage.tables import Store
from tasks.topics.cluster import (
    LENT,
    REFERENCE_MAX,
    assign_shard,
    check_vectors,
    cluster,
    members_min,
    reach_of,
    too_few,
)
from tasks.topics.engines import Clustering, Rows, Vectors, block_rows, engine

TABLE = "topic_model"
DRIFT_STEPS = 4
"""After drift, topics are fitted at most so many times while the documents grow by `refit_growth`."""
SPLIT_SHARE_MIN = 0.2
"""A topic split when at least two new topics each hold this share of its documents."""
Chosen = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Topics:
    """Topics of all n documents, and the fit behind them."""

    found: Clustering
    rows: Rows
    """int64 (fitted,): the rows that were fitted; the others were assigned."""
    fit: pl.DataFrame
    """Rows of the `topic_model` table."""
    new: bool
    """Whether the fit was computed now, not read from the store."""
    far: Chosen
    """(n,) whether a document was assigned and lies beyond `reach` of the fitted ones."""
    drifted: float = 0.0
    """Share of documents after the fit day, up to the last step, that lie beyond `reach`."""
    tried: tuple[pl.DataFrame, ...] = ()
    """All fits used to decide; the table `topic_model` must keep each of them."""


def fit_and_assign(
    store: Store, days: pl.Series, ids: pl.Series, vectors: Vectors, fittable: Chosen, settings: Settings
) -> Topics:
    """Fit the documents up to the fit day and assign the others; when these have drifted, fit up to a later day.

    Both days move in steps of growth, so a night with few documents keeps the fit. Only documents of `fittable` bool
    (n,) are fitted; the others join the topic of their neighbours however far it is. `ids` are sorted hashes, so the
    first `fit_max` are a random sample that changes little from fit to fit.
    Raises BadInput when a vector is zero or not finite.
    """
    check_vectors(vectors)
    chosen, everything = settings.topics, np.flatnonzero(fittable)
    known, growth = days.filter(pl.Series(fittable)), chosen.refit_growth
    until, last = (everything[fit_day_rows(known, step)] for step in (growth, growth ** (1 / DRIFT_STEPS)))
    first = _topics(store, until[: chosen.fit_max], ids, vectors, fittable, settings)
    late = np.setdiff1d(last, until)
    far = int(first.far[late].sum())
    drifted = far / max(1, len(late))
    if drifted <= chosen.drift_max or far < members_min(len(vectors), chosen):
        return replace(first, drifted=drifted, tried=(first.fit,))
    again = _topics(store, last[: chosen.fit_max], ids, vectors, fittable, settings)
    return replace(again, drifted=drifted, tried=(first.fit, again.fit))


def fit_day_rows(days: pl.Series, growth: float) -> Rows:
    """int64 rows of the documents up to the fit day; `days` is the day of each document.

    The fit day is the first day on which the number of documents reached `largest_step(count today, growth)`. Nights
    that add few documents therefore fit the same documents.
    """
    if days.is_empty():
        return np.empty(0, np.int64)
    last = days.sort()[largest_step(len(days), growth) - 1]
    return np.flatnonzero((days <= last).to_numpy())


def largest_step(count: int, growth: float) -> int:
    """The largest term up to `count` of the sequence 1, …, n, max(n + 1, ceil(growth * n)), …."""
    step = 1
    while (following := max(step + 1, math.ceil(growth * step))) <= count:
        step = following
    return step


def _topics(store: Store, rows: Rows, ids: pl.Series, vectors: Vectors, fittable: Chosen, settings: Settings) -> Topics:
    chosen = settings.topics.model_dump(include={"members_min", "neighbours", "dimensions"})
    version = engine(settings.topics.engine).version
    # a hash of everything that topics depend on besides the documents
    recipe = _digest(json.dumps([version, chosen, settings.seed, vectors.shape[1]]).encode(), 8)
    pieces = (vectors[start : start + PIECE] for start in range(0, len(vectors), PIECE))
    digests = [pl.Series(dtype=pl.String)]
    for piece in pieces:
        digests.append(pl.Series([_digest(vector.tobytes(), 8) for vector in piece]))
        unload(vectors)
    documents = pl.DataFrame({"document_id": ids, "vector": pl.concat(digests)}, _KEY)
    fits = store.read(TABLE).filter(pl.col("model").str.starts_with(f"{recipe}-")).sort("document_id")
    kept = fits.partition_by("model", maintain_order=True)
    if store.parts("takedowns"):
        rows = _rows_after_takedowns(kept, documents, rows)
    wanted = documents[rows]
    fit = next((each for each in kept if each.select(*_KEY).equals(wanted)), None)
    new = fit is None
    if fit is None:
        fit = _fit(recipe, wanted, vectors[rows], settings)
    found, far = _fitted_and_assigned(store, fit, rows, vectors, fittable, settings)
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


def _fitted_and_assigned(
    store: Store, fit: pl.DataFrame, rows: Rows, vectors: Vectors, fittable: Chosen, settings: Settings
) -> tuple[Clustering, Chosen]:
    """Topics of all documents, fitted or assigned, and bool (n,): which assigned ones lie beyond `reach`.

    Documents are assigned in shards; workers of a task runner read the fitted vectors from the store.
    """
    model = Clustering(fit["topic"].to_numpy(), fit["probability"].to_numpy(), fit.select("x", "y").to_numpy())
    others = np.setdiff1d(np.arange(len(vectors)), rows)
    far = np.zeros(len(vectors), bool)
    if not len(others):
        return model, far
    reach = np.where(fittable[others], np.float32(fit["reach"][0]), np.float32(np.inf))
    fitted, assigned = vectors[rows[:REFERENCE_MAX]], [model]
    at_once = -(-PIECE // block_rows(fitted)) * block_rows(fitted)  # the same blocks as all at once: the same sums
    shards = [slice(start, start + at_once) for start in range(0, len(others), at_once)]
    lend = shard_runner(settings) is not None
    work = partial(assign_shard, store.root, lent(store, LENT, fitted) if lend else fitted, model)
    found = map_shards(work, ((reach[some], vectors[others[some]]) for some in shards), settings)
    for some, (part, beyond) in zip(shards, found, strict=True):
        far[others[some]] = beyond
        assigned.append(part)
        unload(vectors)
    if lend:
        store.purge(table_name(LENT))
    order = np.argsort(np.concatenate([rows, others]))
    both = ([getattr(part, name) for part in assigned] for name in ("labels", "probabilities", "positions"))
    return Clustering(*(np.concatenate(parts)[order] for parts in both)), far


def _rows_after_takedowns(kept: list[pl.DataFrame], documents: pl.DataFrame, rows: Rows) -> Rows:
    """Rows to fit in a store with takedowns: those of a cached fit that contains all of `rows`, if there is one.

    All documents of that fit must still exist. A takedown can move the first day of a document that others asked too,
    and with it the fit day.
    """
    present = documents.with_row_index()
    for fit in kept:
        known = fit.join(present, on=list(_KEY), maintain_order="left")["index"].to_numpy()
        if len(known) == fit.height and np.isin(rows, known).all():
            return known.astype(np.int64)
    return rows


def _digest(content: bytes, size_bytes: int) -> str:
    return hashlib.blake2b(content, digest_size=size_bytes).hexdigest()


def topic_changes(old: pl.DataFrame, new: pl.DataFrame) -> pl.DataFrame:
    """Rows of the `topic_changes` table, from (document_id, topic) before and after; counts documents that are in both.

    `successor` marks the one-to-one mapping of old to new topics that keeps the most documents together (Hungarian
    method). Outliers (-1) are never mapped.
    """
    after = new.select("document_id", new_topic="topic")
    pairs = (
        old.select("document_id", old_topic="topic")
        .join(after, on="document_id")
        .group_by("old_topic", "new_topic")
        .agg(documents=pl.len().cast(pl.Int64))
        .sort("old_topic", "new_topic")
    )
    mapped = pl.DataFrame(_mapping(pairs), {"old_topic": pl.Int32, "new_topic": pl.Int32}, orient="row")
    successors = mapped.with_columns(successor=True)
    return pairs.join(successors, on=["old_topic", "new_topic"], how="left").with_columns(
        pl.col("successor").fill_null(value=False)
    )


def _mapping(pairs: pl.DataFrame) -> list[tuple[int, int]]:
    real = pairs.filter((pl.col("old_topic") >= 0) & (pl.col("new_topic") >= 0))
    if real.is_empty():
        return []
    old, new = real["old_topic"].to_numpy(), real["new_topic"].to_numpy()
    shared = np.zeros((old.max() + 1, new.max() + 1))
    shared[old, new] = real["documents"]
    matched = zip(*linear_sum_assignment(shared, maximize=True), strict=True)
    return [(int(a), int(b)) for a, b in matched if shared[a, b] > 0]


def changes_in_words(changes: pl.DataFrame, new: pl.DataFrame) -> str:
    """One line: the share of documents outside the successor of their topic, and how many topics ended or are new."""
    real = changes.filter(pl.col("old_topic") >= 0)
    stayed = changes.filter(pl.col("successor") | ((pl.col("old_topic") < 0) & (pl.col("new_topic") < 0)))
    moved = 1 - int(stayed["documents"].sum()) / max(1, int(changes["documents"].sum()))
    successors = changes.filter("successor")
    share = pl.col("documents") / pl.col("documents").sum().over("old_topic")
    split = real.filter(share >= SPLIT_SHARE_MIN).filter(pl.col("new_topic") >= 0)["old_topic"].value_counts()
    ended = set(real["old_topic"]) - set(successors["old_topic"])
    fresh = set(new.filter(pl.col("topic") >= 0)["topic"]) - set(successors["new_topic"])
    return (
        f"topics were fitted again: {100 * moved:.1f} % of {changes['documents'].sum():,} documents moved; "
        f"{len(successors)} topics continue, {len(ended)} ended, {len(fresh)} are new, "
        f"{split.filter(pl.col('count') > 1).height} split (table topic_changes)"
    )
