"""Unit vectors of pictures and of prompts. The version names the model, so that two are never mixed."""

from collections.abc import Sequence

from schemas.signals import Embedding
from tasks.measure.signal import Signal
from tasks.pixels.pictures import Picture
from tasks.providers import Providers
from tasks.providers.capabilities import ImageEmbedder, TextEmbedder, Vectors


def image_embedding(providers: Providers) -> Signal[Picture]:
    """Signal `image_embedding`."""
    embedder: ImageEmbedder = providers["image_embedding"]

    def measure(pictures: Sequence[Picture]) -> list[Embedding]:
        return _rows(embedder.embed_images(pictures))

    return Signal("image_embedding", f"1+{embedder.version}", providers.names["image_embedding"], measure)


def text_embedding(providers: Providers) -> Signal[str]:
    """Signal `text_embedding`."""
    embedder: TextEmbedder = providers["text_embedding"]

    def measure(texts: Sequence[str]) -> list[Embedding]:
        return _rows(embedder.embed_texts(texts))

    return Signal("text_embedding", f"1+{embedder.version}", providers.names["text_embedding"], measure)


def _rows(vectors: Vectors) -> list[Embedding]:
    return [Embedding(vector=vector.tolist()) for vector in vectors]
