"""Documents, the unit of topics and the benchmark: a kept prompt with its images, and its vector.

Vectors of many documents are read in pieces.
"""

from collections.abc import Mapping

import numpy as np
import polars as pl

from schemas.errors import BadInput
from schemas.settings import TopicSettings
from tasks.runtime.arrays import Vectors
from tasks.storage.queries.signals import StoredVectors, Versions, on_disk, unload
from tasks.storage.tables import Store

DOCUMENTS_AT_ONCE = 4_096
"""Documents whose vectors are computed at a time."""


def embedded_documents(
    store: Store, documents: pl.DataFrame, versions: Versions, settings: TopicSettings, joint: bool
) -> tuple[pl.DataFrame, Vectors]:
    """The rows of `documents` (prompt_id, image_ids) whose prompt has an embedding, and their vectors.

    The vectors, float32 (n, dimension) of unit length, are in a temporary file; `rows_of` and `pieces` read some.
    Raises BadInput when stored vectors have several lengths, and as `document_vectors` does.
    """
    prompts = StoredVectors(store, "text_embedding", versions, documents["prompt_id"])
    images = StoredVectors(store, "image_embedding", versions, documents["image_ids"].explode())
    embedded = documents.filter(prompts.have(documents["prompt_id"]))
    matrix: Vectors | None = None
    for start in range(0, embedded.height, DOCUMENTS_AT_ONCE):
        batch = embedded[start : start + DOCUMENTS_AT_ONCE]
        image_ids = batch["image_ids"].explode()
        vectors = document_vectors(
            batch, prompts.of(batch["prompt_id"]), images.of(image_ids), settings, joint, images.width
        )
        matrix = on_disk(embedded.height, vectors.shape[1]) if matrix is None else matrix
        matrix[start : start + DOCUMENTS_AT_ONCE] = vectors
        for array in (matrix, prompts.matrix, images.matrix):
            unload(array)
    return embedded, np.empty((0, 1), np.float32) if matrix is None else matrix


def document_vectors(
    documents: pl.DataFrame,
    prompts: Mapping[str, Vectors],
    images: Mapping[str, Vectors],
    settings: TopicSettings,
    joint: bool,
    width: int = 0,
) -> Vectors:
    """float32 (n, dimension), unit length, one row for each row of `documents` (prompt_id, image_ids).

    `joint`: prompts and images are embedded in one space, as in CLIP, so their vectors can be averaged (VisionArena
    sec. 6). Concatenated vectors need no common space: the cosine of two documents is then the weighted mean of the
    cosines of their prompts and of their images. Documents without an image use the prompt alone. `width` is that of
    image vectors, if `images` may be empty. Raises BadInput when the settings ask for a mean or for images alone and
    there is no common space.
    """
    if documents.is_empty():
        return np.empty((0, 1), np.float32)
    text = np.stack([prompts[prompt_id] for prompt_id in documents["prompt_id"]])
    if settings.document == "text":
        return _unit(text)
    width = width or (len(next(iter(images.values()))) if images else text.shape[1])
    image = np.stack([_mean([images[i] for i in ids if i in images], width) for ids in documents["image_ids"]])
    weight = np.where(image.any(axis=1), settings.image_weight, 0.0)[:, None].astype(np.float32)
    if settings.document == "concatenated" or (settings.document == "auto" and not joint):
        return _unit(np.hstack([np.sqrt(1 - weight) * text, np.sqrt(weight) * image]))
    if not joint:
        raise BadInput(
            f"topics.document: {settings.document} needs prompts and images in one space; choose one model for both "
            "(image_embedding=open_clip, text_embedding=open_clip), or concatenated, text or auto"
        )
    if text.shape != image.shape:
        raise BadInput(
            f"text embeddings have {text.shape[1]} dimensions and image embeddings {image.shape[1]}; "
            "choose one provider for both, or `embedded`, and run `curate measure` again"
        )
    weight = np.ceil(weight) if settings.document == "image" else weight
    return _unit((1 - weight) * text + weight * image)


def _mean(vectors: list[Vectors], width: int) -> Vectors:
    return _unit(np.mean(vectors, axis=0)[None])[0] if vectors else np.zeros(width, np.float32)


def _unit(vectors: Vectors) -> Vectors:
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors / np.maximum(lengths, 1e-12), np.float32)
