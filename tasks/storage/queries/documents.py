"""Documents, the unit of topics and the benchmark: a kept prompt with its images, and its vector.

Vectors of many documents are in a temporary file that is mapped into memory, and read in pieces.
"""

import mmap
import os
import tempfile
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import polars as pl

from schemas.errors import BadInput
from schemas.settings import TopicSettings
from tasks.storage.queries.signals import Versions, several_lengths, table_name
from tasks.storage.tables import Store

Vectors = npt.NDArray[np.float32]
PIECE = 4_096
"""Documents whose vectors are computed at a time."""


def on_disk(rows: int, columns: int) -> Vectors:
    """Zeros, float32 (rows, columns), in a file of `TMPDIR` that ends with the process or the array.

    Raises OSError with the folder when it has no room; found out later, by a write into the mapping, it would end the
    process.
    """
    with tempfile.TemporaryFile(prefix="curate-vectors-") as file:
        try:
            os.posix_fallocate(file.fileno(), 0, max(1, rows * columns) * np.dtype(np.float32).itemsize)
        except OSError as error:
            raise OSError(error.errno, error.strerror, tempfile.gettempdir()) from None
        return np.memmap(file, np.float32, "w+", shape=(max(1, rows), columns))[:rows]


def unload(vectors: Vectors) -> None:
    """Give the memory of an array of `on_disk` back to the system; the file keeps the content."""
    whole: object = vectors
    while isinstance(whole, np.ndarray):
        whole = whole.base
    if isinstance(whole, mmap.mmap):
        whole.madvise(mmap.MADV_DONTNEED)


def embedded_documents(
    store: Store, documents: pl.DataFrame, versions: Versions, settings: TopicSettings, joint: bool
) -> tuple[pl.DataFrame, Vectors]:
    """The rows of `documents` (prompt_id, image_ids) whose prompt has an embedding, and their vectors.

    The vectors, float32 (n, dimension) of unit length, are in a temporary file; `rows_of` and `pieces` read some.
    Raises BadInput when stored vectors have several lengths, and as `document_vectors` does.
    """
    prompts = StoredVectors(store, "text_embedding", versions, documents["prompt_id"])
    images = StoredVectors(store, "image_embedding", versions, documents["image_ids"].explode())
    found = documents.filter(prompts.have(documents["prompt_id"]))
    matrix: Vectors | None = None
    for start in range(0, found.height, PIECE):
        some = found[start : start + PIECE]
        shown = some["image_ids"].explode()
        vectors = document_vectors(some, prompts.of(some["prompt_id"]), images.of(shown), settings, joint, images.width)
        matrix = on_disk(found.height, vectors.shape[1]) if matrix is None else matrix
        matrix[start : start + PIECE] = vectors
        for each in (matrix, prompts.matrix, images.matrix):
            unload(each)
    return found, np.empty((0, 1), np.float32) if matrix is None else matrix


class StoredVectors:
    """Vectors of a signal in a temporary file, in the order in which their ids are first asked for.

    None when `versions` does not name the signal.
    """

    def __init__(self, store: Store, signal: str, versions: Versions, ids: pl.Series) -> None:
        name, version = table_name(signal), versions.get(signal, "")
        wanted = pl.DataFrame({"content_id": ids.drop_nulls().unique(maintain_order=True)}).with_row_index("row")
        self.matrix, self.width = np.empty((0, 1), np.float32), 0
        has, lengths = np.zeros(wanted.height, bool), set[int]()
        for rows in store.read_slices(name, ["content_id", "version", "vector"]) if wanted.height else ():
            there = rows.filter(version=version).join(wanted, on="content_id", maintain_order="left")
            there = there.filter(~pl.Series(has[there["row"].to_numpy()])).unique("row", keep="first")
            lengths |= set(there["vector"].list.len())
            if len(lengths) > 1 or lengths == {0}:
                raise BadInput(several_lengths(signal, version, lengths))
            if there.is_empty():
                continue
            if not self.width:
                (self.width,) = lengths
                self.matrix = on_disk(wanted.height, self.width)
            at = there["row"].to_numpy()
            has[at] = True
            self.matrix[at] = there["vector"].explode().to_numpy().reshape(len(at), self.width)
            unload(self.matrix)
        self._row_of = wanted.filter(pl.Series(has))

    def have(self, ids: pl.Series) -> pl.Series:
        """Boolean for each id: whether it has a vector."""
        return ids.is_in(self._row_of["content_id"].implode())

    def of(self, ids: pl.Series) -> dict[str, Vectors]:
        """Id -> vector, for those that have one."""
        known = pl.DataFrame({"content_id": ids.drop_nulls().unique()}).join(self._row_of, on="content_id")
        return dict(zip(known["content_id"], self.matrix[known["row"].to_numpy()], strict=True))

    def all(self) -> dict[str, Vectors]:
        """Id -> vector, which stays in the file until it is used, for all that have one."""
        rows = np.asarray(self.matrix)
        return {name: rows[row] for row, name in self._row_of.iter_rows()}


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
