"""What taggers and people say of the same documents: from a store, where nothing is asked twice, or of loose ones."""

import hashlib
from collections.abc import Iterable, Sequence
from datetime import datetime

import polars as pl

from schemas.tables import SIGNALS
from tasks.lookup.facts import facts
from tasks.lookup.images import StoredImages
from tasks.measure import DOCUMENT_SIGNALS, PICTURE_SIGNALS
from tasks.measure.documents import Documents, picture_vectors
from tasks.measure.run import measure_items
from tasks.measure.store import Measured, missing
from tasks.measure.tag_agreement import Said
from tasks.providers import Providers
from tasks.providers.capabilities import Document, Failed
from tasks.running.progress import progress
from tasks.tables import Store

Spoken = dict[str, dict[str, Said]]


def labels_of(signal: str) -> tuple[str, ...]:
    """The labels of a document signal."""
    return tuple(SIGNALS[signal].model_fields)


def drawn(document_ids: Iterable[str], size: int, seed: int) -> list[str]:
    """At most `size` of the documents, the same for the same seed whatever else there is."""
    keyed = sorted({(hashlib.sha256(f"{seed}:{each}".encode()).digest(), each) for each in document_ids})
    return [each for _, each in keyed[:size]]


def spoken_in_store(
    store: Store, conversations: pl.DataFrame, signal: str, providers: Providers, wanted: Sequence[str],
    *, workers: int, now: datetime,
) -> tuple[Spoken, Measured]:  # fmt: skip
    """What the chosen provider says of stored documents. What the store lacks is asked, and stored."""
    made = DOCUMENT_SIGNALS[signal](providers)
    asked = missing(store, made, wanted)
    documents = stored_documents(store, conversations, signal, providers)
    with progress(f"{signal} by {made.provider}", len(asked)) as advance:
        done = measure_items(store, made, asked, documents.load, workers=workers, now=now, advance=advance)
    known = facts(store, signal, made.version, labels_of(signal), wanted)
    return {row.pop("content_id"): row for row in known.iter_rows(named=True)}, done


def stored_documents(store: Store, conversations: pl.DataFrame, signal: str, providers: Providers) -> Documents:
    """The documents of some conversations, as the chosen provider of the signal must see them."""
    names = ("image_text", "image_layout", "image_embedding")
    text, layout, vectors = (PICTURE_SIGNALS[name](providers).version for name in names)
    images = StoredImages(store, "images", "redacted_images") if providers[signal].looks_at_pictures else None
    return Documents(
        conversations,
        facts(store, "image_text", text, ["text", "area_fraction"]),
        facts(store, "image_layout", layout),
        images,
        picture_vectors(store, conversations, providers[signal], vectors),
    )


def spoken_of(documents: Sequence[Document], signal: str, providers: Providers) -> tuple[Spoken, Measured]:
    """What the chosen provider says of loose documents; nothing is kept."""
    made = DOCUMENT_SIGNALS[signal](providers)
    spoken, done = Spoken(), Measured()
    for document, value in zip(documents, made.values(documents), strict=True):
        done.calls[signal] += 1
        if isinstance(value, Failed):
            done.failures[signal, value.reason] += 1
        else:
            spoken[document.document_id] = value.model_dump()
    return spoken, done
