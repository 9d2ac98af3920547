"""Topics of the documents that are fitted, kept in the store so that a night without a new fit costs none.

The table `topic_model` is a cache: its rows are found by what they depend on, and without them the same topics are
fitted again. But for takedowns: they remove rows of a fit, and what is left stays the fit of the other documents, so
that forgetting somebody does not change the topics of everybody.
"""

import hashlib
import json
import math
from dataclasses import dataclass
from itertools import chain

import numpy as np
import numpy.typing as npt
import polars as pl

from schemas.settings import TopicSettings
from tasks.sample.assign import Assigned, assign, reach_of
from tasks.sample.clusters import cluster, too_few
from tasks.sample.engines import Clustering, Vectors, engine
from tasks.tables import Store

TABLE = "topic_model"
Rows = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Fitted:
    """Topics of n fitted documents."""

    rows: pl.DataFrame
    """As the `topic_model` table keeps them."""
    vectors: Vectors
    """float32 (n, dimension)."""
    new: bool
    """Whether they were fitted now, and not read."""

    @property
    def clustering(self) -> Clustering:
        """Labels, probabilities and positions."""
        columns = self.rows
        return Clustering(
            columns["topic"].to_numpy(), columns["probability"].to_numpy(), columns.select("x", "y").to_numpy()
        )

    def assign(self, fresh: Vectors, workers: int) -> Assigned:
        """Topics of other documents, float32 (m, dimension)."""
        reach = self.rows["reach"][0] if self.rows.height else math.inf
        return assign(self.vectors, self.clustering, reach, fresh, workers)


def fitted_topics(
    store: Store, ids: pl.Series, vectors: Vectors, settings: TopicSettings, seed: int, workers: int
) -> Fitted:
    """Topics of these documents (sorted content ids and their unit vectors), from the store or fitted now."""
    recipe, wanted = _recipe(vectors, settings, seed), _documents(ids, vectors)
    kept = next((rows for rows in _kept_fits(store, recipe) if rows.select(wanted.columns).equals(wanted)), None)
    if kept is not None:
        return Fitted(kept, vectors, new=False)
    found = cluster(vectors, settings, seed, workers)
    reach = math.inf if too_few(vectors, settings) else reach_of(vectors, workers)
    rows = pl.DataFrame(
        {
            "model": pl.Series([_model(recipe, wanted)], dtype=pl.String).new_from_index(0, len(ids)),
            "document_id": ids,
            "topic": found.labels,
            "probability": found.probabilities,
            "x": np.ascontiguousarray(found.positions[:, 0]),
            "y": np.ascontiguousarray(found.positions[:, 1]),
            "reach": np.full(len(ids), reach, np.float32),
            "vector": wanted["vector"],
        }
    )
    return Fitted(rows, vectors, new=True)


def rows_after_takedowns(
    store: Store, rows: Rows, ids: pl.Series, vectors: Vectors, settings: TopicSettings, seed: int
) -> Rows:
    """`rows`, those to fit; in a store with takedowns those of a kept fit that holds all of them, and all still there.

    A takedown may have moved the first day of a document that others asked as well, and so what is to be fitted.
    """
    if not store.parts("takedowns"):
        return rows
    there = _documents(ids, vectors).with_row_index()
    for fit in _kept_fits(store, _recipe(vectors, settings, seed)):
        known = fit.join(there, on=["document_id", "vector"], maintain_order="left")["index"].to_numpy()
        if len(known) == fit.height and np.isin(rows, known).all():
            return known.astype(np.int64)
    return rows


def _kept_fits(store: Store, recipe: str) -> list[pl.DataFrame]:
    """The fits of a recipe that the store has, by document."""
    fits = store.read(TABLE).filter(pl.col("model").str.starts_with(f"{recipe}-"))
    return fits.sort("document_id").partition_by("model", maintain_order=True)


def _model(recipe: str, documents: pl.DataFrame) -> str:
    return f"{recipe}-{_digest(chr(10).join(chain.from_iterable(documents.iter_rows())).encode(), 16)}"


def _documents(ids: pl.Series, vectors: Vectors) -> pl.DataFrame:
    """document_id, and a hash of its vector."""
    digests = [_digest(vector.tobytes(), 8) for vector in np.ascontiguousarray(vectors)]
    return pl.DataFrame({"document_id": ids, "vector": digests}, schema={"document_id": pl.String, "vector": pl.String})


def _recipe(vectors: Vectors, settings: TopicSettings, seed: int) -> str:
    """A hash of everything that topics depend on, but for the documents."""
    chosen = settings.model_dump(include={"members_min", "neighbours", "dimensions"})
    return _digest(json.dumps([engine(settings.engine).version, chosen, seed, vectors.shape[1]]).encode(), 8)


def _digest(content: bytes, size_bytes: int) -> str:
    return hashlib.blake2b(content, digest_size=size_bytes).hexdigest()
