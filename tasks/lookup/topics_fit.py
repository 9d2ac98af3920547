"""Which fit the topics of a store come from."""

import polars as pl

from tasks.tables import Store


def topics_fit(store: Store) -> str | None:
    """Hash of the documents, vectors, engine and settings that were fitted; None where the store keeps no such fit.

    The store keeps every fit that was tried; the topics are those of the one that agrees with them in every document.
    """
    documents = store.read("topics", ["document_id", "topic"])
    fits = store.read("topic_model", ["model", "document_id", "topic"])
    agrees = fits.join(documents, on="document_id", how="left", suffix="_now").group_by("model").agg(
        pl.col("topic").eq_missing(pl.col("topic_now")).all(), documents=pl.len()
    )  # fmt: skip
    found = agrees.filter("topic").sort("documents", "model", descending=[True, False])["model"]
    return None if found.is_empty() else str(found[0])
