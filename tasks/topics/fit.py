"""Keeps topics stable from night to night: chooses which documents to fit, caches the fit, and refits after drift.

In: days, ids and vectors of all kept documents, and the days of all that were asked, kept or not. Out: `Topics`, and
`topic_changes` after another fit. Up to which day documents are fitted depends only on what was asked; which of them
are, on what the policy keeps. The table `topic_model` caches fits by a hash of their inputs; without it the same topics
are fitted again. Two things of the past count, and neither moves a topic:

* A change of what decides (policy, signal versions, reviews) keeps the fit until what was asked makes another due. What
  it lets in is assigned; what it drops still votes. `topic_fits` has what decided when the fit was made.
* Takedowns delete rows of a cached fit, and the remaining rows stay in use.
"""

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import date
from functools import partial

import numpy as np
import numpy.typing as npt
import polars as pl

from schemas.items.topic import TopicFit
from schemas.settings import Settings, TopicSettings
from tasks.runtime.arrays import RowNumbers, Vectors
from tasks.runtime.parallel import map_shards, shard_runner
from tasks.storage.queries.documents import DOCUMENTS_AT_ONCE
from tasks.storage.queries.signals import lent, table_name, unload
from tasks.storage.tables import Store, frame_of
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
from tasks.topics.engines import Clustering, engine

TABLE, FITS_TABLE = "topic_model", "topic_fits"
DRIFT_STEPS = 4
"""After drift, topics are fitted at most so many times while the documents grow by `refit_growth`."""
SPLIT_SHARE_MIN = 0.2
"""A topic split when at least two new topics each hold this share of its documents."""
ChosenRows = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class AskedDocuments:
    """Documents that were asked, kept or not, and what decided which of it is kept."""

    documents: pl.DataFrame
    """document_id and first `day` of all documents that may be fitted, before redaction, sorted by id."""
    decided_by: str
    """Hash of the policy, the signal versions and the reviews."""
    policy_hash: str | None
    """Hash of the policy; None without decisions."""

    def up_to(self, day: date, settings: TopicSettings) -> str:
        """Hash of the documents up to a day, and of the settings that choose among them."""
        chosen = settings.model_dump_json(include={"single_turn", "needs_image", "language", "fit_max"})
        ids = self.documents.filter(pl.col("day") <= day)["document_id"]
        return _digest("\n".join([chosen, *ids]).encode(), 16)


@dataclass(frozen=True)
class TopicDocuments:
    """The n documents with a vector that are kept, or were fitted when they were; as released, sorted by id."""

    days: pl.Series
    ids: pl.Series
    vectors: Vectors
    """float32 (n, dimension), of unit length."""
    kept: ChosenRows
    """(n,) which are kept."""
    fittable: ChosenRows
    """(n,) which of these may be fitted; the others join the topic of their neighbours however far it is."""

    def up_to(self, day: date) -> ChosenRows:
        """Bool (n,): which may be fitted and were asked up to a day."""
        due: ChosenRows = self.fittable & (self.days <= day).to_numpy()
        return due


@dataclass(frozen=True)
class Fit:
    """One fit, and which documents it has."""

    table: pl.DataFrame
    """Rows of `topic_model`, also of documents that are gone."""
    rows: RowNumbers
    """int64 (fitted,): rows of the documents that were fitted."""
    about: TopicFit
    new: bool = False
    """Whether it was computed now, not read from the store."""
    stands: bool = False
    """Whether it was made of other documents, because something else decided then which are kept."""


@dataclass(frozen=True)
class Topics:
    """Topics of all n documents, and the fit behind them."""

    found: Clustering
    fit: Fit
    far: ChosenRows
    """(n,) whether a document was assigned and lies beyond `reach` of the fitted ones."""
    drifted: float = 0.0
    """Share of documents after the fit day, up to the last step, that lie beyond `reach`."""
    tried: tuple[Fit, ...] = ()
    """All fits used to decide, the last of which is in use; the store must keep each of them."""

    def write(self, store: Store) -> None:
        """Write `topic_model` and `topic_fits`."""
        store.replace(TABLE, pl.concat(fit.table for fit in self.tried))
        abouts = [
            fit.about.model_copy(update={"in_use": fit is self.tried[-1]}) for fit in self.tried if len(fit.table)
        ]
        store.replace(FITS_TABLE, frame_of(TopicFit, abouts))


def fit_and_assign(
    store: Store, documents: TopicDocuments, asked_documents: AskedDocuments, settings: Settings
) -> Topics:
    """Fit the documents up to the fit day and assign the others; when these have drifted, fit up to a later day.

    Both days move in steps of growth, so a night with few documents keeps the fit. Ids are hashes, so the first
    `fit_max` are a random sample that changes little from fit to fit.
    Raises BadInput when a vector is zero or not finite.
    """
    check_vectors(documents.vectors)
    chosen, days = settings.topics, _counted_days(documents, asked_documents, settings.topics)
    fit_until, drift_until = (fit_day(days, growth) for growth in (chosen.refit_growth, _drift_growth(chosen)))
    fits = _Fits(store, documents, asked_documents, drift_until, settings)
    first = fits.of_day(fit_until)
    if fits.decided(first):  # and what is kept may not decide again
        tried = _distinct(first, fits.in_use() or first)
        return replace(_topics(store, documents, tried[-1], settings), tried=tried)
    topics = _topics(store, documents, first, settings)
    late = documents.up_to(drift_until) & ~documents.up_to(fit_until)
    far = int(topics.far[late].sum())
    drifted = far / max(1, int(late.sum()))
    if drifted <= chosen.drift_max or far < members_min(int(documents.kept.sum()), chosen):
        return replace(topics, drifted=drifted, tried=(first,))
    again = fits.of_day(drift_until)
    return replace(_topics(store, documents, again, settings), drifted=drifted, tried=_distinct(first, again))


def _distinct(first: Fit, last: Fit) -> tuple[Fit, ...]:
    """Both fits, or the first alone where they have the same documents: the store keeps each once."""
    return (first,) if last.about.model == first.about.model else (first, last)


def _drift_growth(settings: TopicSettings) -> float:
    return float(settings.refit_growth ** (1 / DRIFT_STEPS))


def _counted_days(documents: TopicDocuments, asked_documents: AskedDocuments, settings: TopicSettings) -> pl.Series:
    """The days of what was asked, by which a fit is due; where too little of it is kept for topics, of what is kept."""
    days = asked_documents.documents["day"]
    rows = np.flatnonzero(documents.up_to(fit_day(days, settings.refit_growth)))
    return documents.days.filter(pl.Series(documents.fittable)) if too_few(documents.vectors, settings, rows) else days


def fit_day(days: pl.Series, growth: float) -> date:
    """The last day up to which documents are fitted; `days` is the day of each document.

    It is the first day on which the number of documents reached `largest_step(count today, growth)`. Nights that add
    few documents therefore fit the same documents. Without documents it is the first of all days.
    """
    if days.is_empty():
        return date.min
    last: date = days.sort()[largest_step(len(days), growth) - 1]
    return last


def largest_step(count: int, growth: float) -> int:
    """The largest term up to `count` of the sequence 1, …, n, max(n + 1, ceil(growth * n)), …."""
    step = 1
    while (following := max(step + 1, math.ceil(growth * step))) <= count:
        step = following
    return step


class _Fits:
    """Finds fits in the store, and makes those that it lacks."""

    def __init__(
        self, store: Store, documents: TopicDocuments, asked: AskedDocuments, drift_until: date, settings: Settings
    ) -> None:
        self._documents, self._asked, self._drift_until, self._settings = documents, asked, drift_until, settings
        chosen = settings.topics.model_dump(include={"members_min", "neighbours", "dimensions"})
        version = engine(settings.topics.engine).version
        # a hash of everything that topics depend on besides the documents
        recipe = [version, chosen, settings.seed, documents.vectors.shape[1]]
        self._recipe = _digest(json.dumps(recipe).encode(), 8)
        self._keys = pl.DataFrame({"document_id": documents.ids, "vector": _vector_digests(documents.vectors)}, _KEY)
        fits = (
            store.read(TABLE).filter(pl.col("model").str.starts_with(f"{self._recipe}-")).sort("document_id", "model")
        )
        self._stored = {str(rows["model"][0]): rows for rows in fits.partition_by("model", maintain_order=True)}
        abouts = (TopicFit(**row) for row in store.read(FITS_TABLE).sort("fit_day", "model").iter_rows(named=True))
        self._abouts: Mapping[str, TopicFit] = {about.model: about for about in abouts if about.model in self._stored}
        self._takedowns = bool(store.parts("takedowns"))

    def of_day(self, day: date) -> Fit:
        """The fit of what is kept up to a day, or one that stands in its place."""
        rows = np.flatnonzero(self._documents.up_to(day))[: self._settings.topics.fit_max]
        same = (table for table in self._stored.values() if table.select(*_KEY).equals(self._keys[rows]))
        if (table := next(same, None)) is not None:
            return self._found(table, rows, day)
        if not self._settings.redraw:
            past = (self._after_takedowns(rows, day) if self._takedowns else None) or self._standing(day)
            if past is not None:
                return past
        table = self._made(rows)
        return Fit(table, rows, self._about(str(table["model"][0]) if len(table) else "", day), new=True)

    def decided(self, first: Fit) -> bool:
        """Whether it was decided before whether documents since this fit have drifted, by what else was kept then."""
        about = self._abouts.get(first.about.model)
        if about is None or self._settings.redraw:
            return False
        return about.decided_by != self._asked.decided_by and about.drift_day >= self._drift_until

    def in_use(self) -> Fit | None:
        """The fit that is in use, if it can stay."""
        models = (about.model for about in self._abouts.values() if about.in_use)
        return next((fit for model in models if (fit := self._as_it_stands(model))), None)

    def _found(self, table: pl.DataFrame, rows: RowNumbers, day: date) -> Fit:
        """A stored fit of exactly these documents. It says what decided when it was made."""
        about = self._about(str(table["model"][0]), day)
        past = self._abouts.get(about.model)
        if past is not None and not self._settings.redraw:
            about = about.model_copy(update={"decided_by": past.decided_by, "policy_hash": past.policy_hash})
        return Fit(table, rows, about)

    def _after_takedowns(self, rows: RowNumbers, day: date) -> Fit | None:
        """A fit that has all of `rows`, and whose documents are all kept, in a store with takedowns.

        A takedown can move the first day of a document that others asked too, and with it the fit day.
        """
        for model, table in self._stored.items():
            fitted_rows = self._rows_in(table)
            if (
                len(fitted_rows) == table.height
                and self._documents.kept[fitted_rows].all()
                and np.isin(rows, fitted_rows).all()
            ):
                past = self._abouts.get(model)
                return self._found(table, fitted_rows, max(day, past.fit_day) if past else day)
        return None

    def _standing(self, day: date) -> Fit | None:
        """A fit of the same that was asked, made when something else decided what is kept.

        What was taken down was asked, too, so in a store with takedowns a fit stands until a later day is due.
        """
        asked_hash = self._asked.up_to(day, self._settings.topics)
        for model, about in self._abouts.items():
            same = about.asked == asked_hash or (self._takedowns and about.fit_day >= day)
            if same and about.decided_by != self._asked.decided_by and (fit := self._as_it_stands(model)):
                return fit
        return None

    def _as_it_stands(self, model: str) -> Fit | None:
        """A stored fit; None where it had too few documents for topics, or too few are kept, or with other vectors."""
        table = self._stored[model]
        rows = self._rows_in(table)
        kept = rows[self._documents.kept[rows]]
        present = table.join(self._keys, on="document_id", how="semi").height
        if (
            present > len(rows)
            or np.isinf(table["reach"][0])
            or too_few(self._documents.vectors, self._settings.topics, kept)
        ):
            return None
        about = self._abouts[model].model_copy(update={"drift_day": self._drift_until})
        return Fit(table, rows, about, stands=True)

    def _rows_in(self, table: pl.DataFrame) -> RowNumbers:
        """Rows of the documents that a fit has with the same vectors."""
        present = self._keys.with_row_index()
        return table.join(present, on=list(_KEY), maintain_order="left")["index"].to_numpy().astype(np.int64)

    def _about(self, model: str, day: date) -> TopicFit:
        asked_documents, chosen = self._asked, self._settings.topics
        return TopicFit(
            model=model, fit_day=day, drift_day=self._drift_until, asked=asked_documents.up_to(day, chosen),
            decided_by=asked_documents.decided_by, policy_hash=asked_documents.policy_hash, in_use=False,
        )  # fmt: skip

    def _made(self, rows: RowNumbers) -> pl.DataFrame:
        """Rows of `topic_model`: a new fit of these documents."""
        documents, vectors, settings = self._keys[rows], self._documents.vectors[rows], self._settings
        clustering = cluster(vectors, settings.topics, settings.seed, settings.workers)
        reach = math.inf if too_few(vectors, settings.topics) else reach_of(vectors, settings.workers)
        content = "\n".join(cell for row in documents.iter_rows() for cell in row)
        model = f"{self._recipe}-{_digest(content.encode(), 16)}"
        return pl.DataFrame(
            {
                "model": pl.repeat(model, documents.height, dtype=pl.String, eager=True),
                "document_id": documents["document_id"],
                "topic": clustering.labels,
                "probability": clustering.probabilities,
                "x": clustering.positions[:, 0].copy(),
                "y": clustering.positions[:, 1].copy(),
                "reach": np.full(documents.height, reach, np.float32),
                "vector": documents["vector"],
            }
        )


def _vector_digests(vectors: Vectors) -> pl.Series:
    """16 hex digits of each vector, which are read in pieces."""
    pieces = (vectors[start : start + DOCUMENTS_AT_ONCE] for start in range(0, len(vectors), DOCUMENTS_AT_ONCE))
    digests = [pl.Series(dtype=pl.String)]
    for piece in pieces:
        digests.append(pl.Series([_digest(vector.tobytes(), 8) for vector in piece], dtype=pl.String))
        unload(vectors)
    return pl.concat(digests)


_KEY = {"document_id": pl.String, "vector": pl.String}


def _topics(store: Store, documents: TopicDocuments, fit: Fit, settings: Settings) -> Topics:
    """Topics of all documents, fitted or assigned.

    Documents are assigned in shards; workers of a task runner read the fitted vectors from the store.
    """
    vectors, rows = documents.vectors, fit.rows
    fitted_documents = pl.DataFrame({"document_id": documents.ids[rows]})
    table = fit.table.join(fitted_documents, on="document_id", how="semi", maintain_order="left")
    model = Clustering(table["topic"].to_numpy(), table["probability"].to_numpy(), table.select("x", "y").to_numpy())
    others = np.setdiff1d(np.arange(len(vectors)), rows)
    far = np.zeros(len(vectors), bool)
    if not len(others):
        return Topics(model, fit, far)
    reach = np.where(documents.fittable[others], np.float32(table["reach"][0]), np.float32(np.inf))
    fitted, assigned = vectors[rows[:REFERENCE_MAX]], [model]
    shards = [slice(start, start + DOCUMENTS_AT_ONCE) for start in range(0, len(others), DOCUMENTS_AT_ONCE)]
    lend = shard_runner(settings) is not None
    work = partial(assign_shard, store.root, lent(store, LENT, fitted) if lend else fitted, model)
    assignments = map_shards(work, ((reach[shard], vectors[others[shard]]) for shard in shards), settings)
    try:
        for shard, (part, beyond) in zip(shards, assignments, strict=True):
            far[others[shard]] = beyond
            assigned.append(part)
            unload(vectors)
    finally:
        if lend:
            store.purge(table_name(LENT))
    order = np.argsort(np.concatenate([rows, others]))
    both = ([getattr(part, name) for part in assigned] for name in ("labels", "probabilities", "positions"))
    return Topics(Clustering(*(np.concatenate(parts)[order] for parts in both)), fit, far)


def _digest(content: bytes, size_bytes: int) -> str:
    return hashlib.blake2b(content, digest_size=size_bytes).hexdigest()


def topic_changes(old: pl.DataFrame, new: pl.DataFrame) -> pl.DataFrame:
    """Rows of the `topic_changes` table, from (document_id, topic) before and after; counts documents that are in both.

    `successor` marks the one-to-one mapping of old to new topics that keeps the most documents together (Hungarian
    method). Outliers (-1) are never mapped.
    """
    after = new.select("document_id", new_topic="topic")
    # One row is an old and a new topic that share documents, and how many.
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
    from scipy.optimize import linear_sum_assignment  # slow to load

    matched = zip(*linear_sum_assignment(shared, maximize=True), strict=True)
    return [(int(a), int(b)) for a, b in matched if shared[a, b] > 0]


def changes_in_words(changes: pl.DataFrame, new: pl.DataFrame) -> str:
    """One line: the share of documents outside the successor of their topic, and how many topics ended or are new."""
    real = changes.filter(pl.col("old_topic") >= 0)
    stayed = changes.filter(pl.col("successor") | ((pl.col("old_topic") < 0) & (pl.col("new_topic") < 0)))
    moved = int(changes["documents"].sum()) - int(stayed["documents"].sum())
    moved_share = moved / max(1, int(changes["documents"].sum()))
    successors = changes.filter("successor")
    share = pl.col("documents") / pl.col("documents").sum().over("old_topic")
    split = real.filter(share >= SPLIT_SHARE_MIN).filter(pl.col("new_topic") >= 0)["old_topic"].value_counts()
    ended = set(real["old_topic"]) - set(successors["old_topic"])
    fresh = set(new.filter(pl.col("topic") >= 0)["topic"]) - set(successors["new_topic"])
    return (
        f"topics were fitted again: {100 * moved_share:.1f} % of {changes['documents'].sum():,} documents moved; "
        f"{len(successors)} topics continue, {len(ended)} ended, {len(fresh)} are new, "
        f"{split.filter(pl.col('count') > 1).height} split (table topic_changes)"
    )
