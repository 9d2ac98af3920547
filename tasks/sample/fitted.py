"""Topics of the documents that are fitted, kept in the store so that a night without a new fit costs none.

The table `topic_model` is a cache: its rows are found by a hash of all they depend on, and without them the same
topics are fitted again. But for takedowns: these remove rows of a fit, and what is left stays the fit of the other
documents, so that forgetting somebody does not change the topics of everybody.
"""

import hashlib
import json
import math
from dataclasses import dataclass

import numpy as np
import polars as pl

from schemas.settings import TopicSettings
from tasks.sample.assign import Assigned, assign, reach_of
from tasks.sample.clusters import cluster, too_few
from tasks.sample.engines import Clustering, Vectors, engine
from tasks.tables import Store

TABLE = "topic_model"


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
    recipe, digests = _recipe(vectors, settings, seed), _digests(vectors)
    key = f"{recipe}-{len(ids)}-{_digest(chr(10).join([*ids, *digests]).encode(), 16)}"
    stored = store.read(TABLE)
    kept = stored.filter(model=key)
    if kept.height != len(ids):
        kept = _left_by_takedowns(stored, recipe, pl.DataFrame({"document_id": ids, "vector": digests}))
    if kept.height == len(ids) > 0:
        return Fitted(kept, vectors, new=False)
    found = cluster(vectors, settings, seed, workers)
    reach = math.inf if too_few(vectors, settings) else reach_of(vectors, workers)
    rows = pl.DataFrame(
        {
            "model": pl.Series([key], dtype=pl.String).new_from_index(0, len(ids)),
            "document_id": ids,
            "topic": found.labels,
            "probability": found.probabilities,
            "x": np.ascontiguousarray(found.positions[:, 0]),
            "y": np.ascontiguousarray(found.positions[:, 1]),
            "reach": np.full(len(ids), reach, np.float32),
            "vector": digests,
        }
    )
    return Fitted(rows, vectors, new=True)


def _left_by_takedowns(stored: pl.DataFrame, recipe: str, wanted: pl.DataFrame) -> pl.DataFrame:
    """What is left of a fit when it is that of just these documents, with these vectors; else no rows."""
    for (model,), rows in stored.group_by("model", maintain_order=True):
        of_recipe, _, rest = str(model).partition("-")
        fitted = rest.partition("-")[0]
        if of_recipe == recipe and int(fitted) > rows.height and rows.select(wanted.columns).equals(wanted):
            return rows
    return stored.clear()


def _recipe(vectors: Vectors, settings: TopicSettings, seed: int) -> str:
    """A hash of everything that topics depend on, but for the documents."""
    chosen = settings.model_dump(include={"members_min", "neighbours", "dimensions"})
    return _digest(json.dumps([engine(settings.engine).version, chosen, seed, vectors.shape[1]]).encode(), 8)


def _digests(vectors: Vectors) -> list[str]:
    return [_digest(vector.tobytes(), 8) for vector in np.ascontiguousarray(vectors)]


def _digest(content: bytes, size_bytes: int) -> str:
    return hashlib.blake2b(content, digest_size=size_bytes).hexdigest()
