"""A first run: its time and room from figures that were measured, and a sample on which a policy is tried."""

import polars as pl

from schemas.run import Scale
from tasks.storage.tables import Store

LINE_S, MESSAGE_S, IMAGE_S, CONVERSATION_S = 0.00012, 0.006, 0.4, 0.01
"""Core seconds with the embedded models; of a conversation, those of all stages over the whole set."""
BASE_MB, CONVERSATION_BYTES = 2_330, 5_500
"""Peak memory of a run with the embedded models on two workers, and what each further conversation adds."""
MESSAGE_BYTES, IMAGE_BYTES = 1_500, 130_000
"""On disk, with the signals, in the store and in one release."""


def expected(lines: int, conversations: int, messages: int, images: int, workers: int) -> Scale:
    """Hours, memory and disk of a first run, embedded models, on as many cores as workers."""
    seconds = lines * LINE_S + messages * MESSAGE_S + images * IMAGE_S + conversations * CONVERSATION_S
    return Scale(
        lines=lines, conversations=conversations, messages=messages, images=images, workers=workers,
        hours=round(seconds / 3600 / workers, 2),
        peak_mb=BASE_MB + conversations * CONVERSATION_BYTES // 2**20,
        disk_mb=2 * (messages * MESSAGE_BYTES + images * IMAGE_BYTES) // 2**20,
    )  # fmt: skip


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
