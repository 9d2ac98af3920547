"""Pictures that look the same: all pairs within a radius, and groups around representatives."""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import polars as pl

from schemas.image import NearPicture
from schemas.policy import NearPictures
from tasks.tables import frame_of

Hashes = npt.NDArray[np.uint64]
Vectors = npt.NDArray[np.float32]

ROWS_AT_ONCE = 512


def hashes_from_hex(digits: Sequence[str]) -> Hashes:
    """uint64 (n, words) from hexadecimal digits, 16 for each word."""
    raw = np.frombuffer(bytes.fromhex("".join(digits)), ">u8")
    return raw.astype(np.uint64).reshape(len(digits), -1)


def hamming_pairs(hashes: Hashes, radius: int) -> npt.NDArray[np.int64]:
    """Every pair (i, j), i < j, of 64-bit hashes uint64 (n,) that differ in at most `radius` bits; int64 (pairs, 2)."""
    found = []
    for start in range(0, len(hashes), ROWS_AT_ONCE):
        block = hashes[start : start + ROWS_AT_ONCE]
        distances = np.bitwise_count(block[:, None] ^ hashes[None, start:])
        rows, columns = np.nonzero(distances <= radius)
        ahead = columns > rows
        found.append(np.stack([rows[ahead], columns[ahead]], axis=1) + start)
    return np.concatenate(found) if found else np.empty((0, 2), np.int64)


def near_pictures(pictures: pl.DataFrame, radius: NearPictures) -> pl.DataFrame:
    """The `near_pictures` table. `pictures` has image_id, phash, pdq (hex digits) and vector, sorted by image_id.

    The DCT hash proposes; PDQ and the embedding must both confirm, because different receipts, maps and pages
    of text have equal DCT hashes.
    """
    if pictures.is_empty():
        return frame_of(NearPicture, [])
    phash = hashes_from_hex(pictures["phash"].to_list())[:, 0]
    pdq = hashes_from_hex(pictures["pdq"].to_list())
    vectors = np.array(pictures["vector"].to_list(), np.float32)
    i, j = hamming_pairs(phash, radius.phash_distance_max).T
    pdq_distance = np.bitwise_count(pdq[i] ^ pdq[j]).sum(axis=1, dtype=np.int64)
    cosine = np.einsum("nd,nd->n", vectors[i], vectors[j])
    same = (pdq_distance <= radius.pdq_distance_max) & (cosine >= radius.embedding_cosine_min)
    ids = pictures["image_id"].to_numpy()
    rows = zip(i[same], j[same], pdq_distance[same], cosine[same], strict=True)
    return frame_of(
        NearPicture,
        [
            NearPicture(
                image_a=ids[a],
                image_b=ids[b],
                phash_distance=int(np.bitwise_count(phash[a] ^ phash[b])),
                pdq_distance=int(distance),
                cosine=float(similarity),
            )
            for a, b, distance, similarity in rows
        ],
    )


def representatives(ordered_ids: Iterable[str], pairs: pl.DataFrame) -> dict[str, str]:
    """Each picture's representative: itself, or an earlier representative that it is directly paired with.

    There are no chains: a picture near a member but not near its representative starts a group of its own.
    Of several representatives the nearest by PDQ, then by id, is taken.
    """
    neighbours = _neighbours(pairs)
    chosen: dict[str, str] = {}
    for image_id in ordered_ids:
        near = [(d, other) for d, other in neighbours.get(image_id, ()) if chosen.get(other) == other]
        chosen[image_id] = min(near)[1] if near else image_id
    return chosen


def _neighbours(pairs: pl.DataFrame) -> Mapping[str, list[tuple[int, str]]]:
    neighbours: dict[str, list[tuple[int, str]]] = {}
    for a, b, distance in pairs.select("image_a", "image_b", "pdq_distance").iter_rows():
        neighbours.setdefault(a, []).append((distance, b))
        neighbours.setdefault(b, []).append((distance, a))
    return neighbours
