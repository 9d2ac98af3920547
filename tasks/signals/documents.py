"""Documents for taggers: prompts with their images."""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import polars as pl

from tasks.providers import Providers
from tasks.providers.capabilities import Document
from tasks.signals.registry import signal_of
from tasks.storage.queries.signals import StoredImages, signal_values
from tasks.storage.tables import Store


class Documents:
    """Builds documents by id from conversations and the signals of their images."""

    def __init__(
        self,
        conversations: pl.DataFrame,
        image_text: pl.DataFrame,
        image_layout: pl.DataFrame,
        images: StoredImages | None,
        vectors: pl.DataFrame | None = None,
    ) -> None:
        """`conversations`: document_id, image_ids, turns. `images` and `vectors` are None if no tagger uses them."""
        first = conversations.unique("document_id", keep="first", maintain_order=True)
        rows = first.select("document_id", "turns", "image_ids").iter_rows()
        self._rows = {document: (prompt_text(turns), image_ids) for document, turns, image_ids in rows}
        texts = image_text.select("content_id", "text", "area_fraction")
        self._text = {image_id: (text, area) for image_id, text, area in texts.iter_rows()}
        layout = image_layout.select("content_id", "flat_fraction", "colour_count")
        self._layout = {image_id: (flat, colours) for image_id, flat, colours in layout.iter_rows()}
        self._images = images
        vector_rows = [] if vectors is None else vectors.select("content_id", "vector").iter_rows()
        # half precision saves memory and is enough for the classifier
        self._vectors = {image_id: np.asarray(vector, np.float16) for image_id, vector in vector_rows}

    def ordered(self, document_ids: Sequence[str]) -> list[str]:
        """The ids, sorted by the part that holds the first image, so that each part is read once."""
        return sorted(document_ids, key=self._place) if self._images else list(document_ids)

    def _place(self, document_id: str) -> tuple[tuple[str, str, int], str]:
        image_ids = self._rows[document_id][1]
        return (
            self._images.part_of.get(image_ids[0], ("", "", 0)) if self._images and image_ids else ("", "", 0)
        ), document_id

    def load(self, document_ids: Sequence[str]) -> list[Document]:
        """The documents of these ids, in order."""
        return [self._document(document_id) for document_id in document_ids]

    def _document(self, document_id: str) -> Document:
        prompt, image_ids = self._rows[document_id]
        read = [self._text.get(image_id, ("", 0.0)) for image_id in image_ids]
        layouts = [self._layout[image_id] for image_id in image_ids if image_id in self._layout]
        return Document(
            document_id=document_id,
            prompt=prompt,
            image_count=len(image_ids),
            images=self._encoded(image_ids),
            image_text="\n".join(text for text, _ in read),
            flat_fraction=max((flat for flat, _ in layouts), default=0.0),
            colour_count=min((colours for _, colours in layouts), default=0),
            text_area_fraction=max((area for _, area in read), default=0.0),
            image_vectors=tuple(self._vectors[i].astype(np.float32) for i in image_ids if i in self._vectors),
        )

    def _encoded(self, image_ids: Iterable[str]) -> tuple[tuple[str, bytes], ...]:
        if self._images is None:
            return ()
        stored = [self._images[image_id] for image_id in image_ids]
        return tuple((image.format, image.bytes) for image in stored)


def stored_documents(store: Store, conversations: pl.DataFrame, signal: str, providers: Providers) -> Documents:
    """Documents of these conversations, with the inputs that the chosen tagger of a signal needs."""
    tagger = providers[signal]

    image_ids = conversations["image_ids"].explode().drop_nulls().unique()

    def of_images(name: str, columns: Sequence[str]) -> pl.DataFrame:
        return signal_values(store, name, signal_of(name, providers).version, columns, image_ids)

    with_vectors = getattr(tagger, "looks_at_vectors", False)
    return Documents(
        conversations,
        of_images("image_text", ["text", "area_fraction"]),
        of_images("image_layout", ["flat_fraction", "colour_count"]),
        StoredImages(store, "images", "redacted_images") if tagger.looks_at_images else None,
        of_images("image_embedding", ["vector"]) if with_vectors else None,
    )


def prompt_text(turns: Iterable[Mapping[str, str]]) -> str:
    """All user messages, joined by blank lines."""
    return "\n\n".join(turn["content"] for turn in turns if turn["role"] == "user")
