"""A small store with some documents of another, on which it is tried what a policy drops."""

import polars as pl

from tasks.storage.tables import Store


def sample_store(source: Store, conversations: pl.DataFrame, documents_max: int, folder: str) -> Store:
    """A store in `folder` with the conversations of the first documents by content id, their images, and the presets.

    Nothing is measured or decided there. `conversations` are rows of `source`; a document id is a hash, so the first
    ones are a random sample, and all conversations of a document come together.
    """
    store = Store.open(folder)
    among = conversations["document_id"].unique().sort()[:documents_max]
    chosen = conversations.filter(pl.col("document_id").is_in(among.implode()))
    store.replace("conversations", chosen.select(store.empty("conversations").columns))
    shown = chosen["image_ids"].explode().drop_nulls().unique()
    for rows in source.read_parts("images"):
        store.append("images", rows.filter(pl.col("image_id").is_in(shown.implode())))
    store.replace("presets", source.read("presets"))
    return store
