"""One unit vector for each document, from the vectors of its prompt and pictures."""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import polars as pl

from schemas.errors import BadInput
from schemas.settings import TopicSettings
from tasks.lookup.facts import facts
from tasks.tables import Store

Vectors = npt.NDArray[np.float32]


def embeddings(store: Store, signal: str, version: str) -> dict[str, Vectors]:
    """Content id -> vector of one embedding signal. Raises BadInput when the vectors are of several lengths."""
    stored = facts(store, signal, version, ["vector"])
    widths = sorted(stored["vector"].list.len().unique())
    if len(widths) > 1 or widths == [0]:
        raise BadInput(
            f"{signal}: vectors of version {version!r} have {' and '.join(map(str, widths))} dimensions; "
            "one version has one: remove its facts and run `curate measure` again"
        )
    matrix = stored["vector"].explode().to_numpy().astype(np.float32).reshape(stored.height, *widths)
    return dict(zip(stored["content_id"], matrix, strict=True))


def document_vectors(
    documents: pl.DataFrame,
    prompts: Mapping[str, Vectors],
    pictures: Mapping[str, Vectors],
    settings: TopicSettings,
    joint: bool,
) -> Vectors:
    """float32 (n, dimension), unit length, one row for each row of `documents` (prompt_id, image_ids).

    `joint`: prompt and pictures share one space, as in CLIP, so that they have a mean (VisionArena sec. 6). Two vectors
    laid side by side need no common space: the cosine of two documents is then the weighted mean of the cosines of
    their prompts and of their pictures. Documents without a picture have only a prompt, whatever the settings say.
    Raises BadInput for a mean, or for pictures alone, of what shares no space.
    """
    if documents.is_empty():
        return np.empty((0, 1), np.float32)
    text = _stack([prompts[prompt_id] for prompt_id in documents["prompt_id"]])
    if settings.document == "text":
        return _unit(text)
    width = len(next(iter(pictures.values()))) if pictures else text.shape[1]
    image = _stack([_mean([pictures[i] for i in ids if i in pictures], width) for ids in documents["image_ids"]])
    weight = np.where(image.any(axis=1), settings.picture_weight, 0.0)[:, None].astype(np.float32)
    if settings.document == "concatenated" or (settings.document == "auto" and not joint):
        return _unit(np.hstack([np.sqrt(1 - weight) * text, np.sqrt(weight) * image]))
    if not joint:
        raise BadInput(
            f"topics.document: {settings.document} needs prompts and pictures in one space; choose one model for both "
            "(image_embedding=open_clip, text_embedding=open_clip), or concatenated, text or auto"
        )
    if text.shape != image.shape:
        raise BadInput(
            f"text embeddings have {text.shape[1]} dimensions and image embeddings {image.shape[1]}; "
            "choose one provider for both, or `embedded`, and run `curate measure` again"
        )
    weight = np.ceil(weight) if settings.document == "picture" else weight
    return _unit((1 - weight) * text + weight * image)


def _stack(rows: list[Vectors]) -> Vectors:
    return np.stack(rows).astype(np.float32)


def _mean(vectors: list[Vectors], width: int) -> Vectors:
    return _unit(np.mean(vectors, axis=0)[None])[0] if vectors else np.zeros(width, np.float32)


def _unit(vectors: Vectors) -> Vectors:
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit: Vectors = (vectors / np.maximum(lengths, 1e-12)).astype(np.float32)
    return unit
