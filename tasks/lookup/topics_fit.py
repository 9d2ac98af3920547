"""Which fit the topics of a store come from."""

from itertools import chain

import polars as pl

from tasks.store.spooled_frames import SpooledFrames, in_shares
from tasks.tables import Store

SHARE_DOCUMENTS = 262_144
"""Documents of all fits that are compared at once."""
_NAMES = ["document_id", "topic"]


def topics_fit(store: Store) -> str | None:
    """Hash of the documents, vectors, engine and settings that were fitted; None where the store keeps no such fit.

    The store keeps every fit that was tried; the topics are those of the one that agrees with them in every document.
    """
    count = 1 + store.height("topic_model") // SHARE_DOCUMENTS
    documents, fits = (
        _by_document(store, table, names, count)
        for table, names in (("topics", _NAMES), ("topic_model", ["model", *_NAMES]))
    )
    shares = [_agreement(fits.read(share), documents.read(share)) for share in range(count)]
    agrees = pl.concat(shares).group_by("model").agg(pl.col("agrees").all(), pl.col("documents").sum())
    found = agrees.filter("agrees").sort("documents", "model", descending=[True, False])["model"]
    return None if found.is_empty() else str(found[0])


def _by_document(store: Store, table: str, names: list[str], count: int) -> SpooledFrames:
    rows = chain([store.empty(table, names)], store.read_slices(table, names))
    return in_shares(rows, ["document_id"], count)


def _agreement(fits: pl.DataFrame, documents: pl.DataFrame) -> pl.DataFrame:
    """Of each model among the fits: whether it agrees with the documents' topics, and how many it has."""
    return (
        fits.join(documents, on="document_id", how="left", suffix="_now")
        .group_by("model")
        .agg(agrees=pl.col("topic").eq_missing(pl.col("topic_now")).all(), documents=pl.len())
    )
