"""Pictures that look the same: all pairs within a radius, and groups around representatives."""

from collections.abc import Iterable, Mapping

import numpy as np
import polars as pl

from schemas.image import NearPicture
from schemas.policy import NearPictures
from tasks.decide.hamming import hamming_pairs, hashes_from_hex
from tasks.tables import frame_of, frame_schema

_HASH_PAIR = {"image_a": pl.String, "image_b": pl.String, "phash_distance": pl.Int32, "pdq_distance": pl.Int32}


def near_hashes(pictures: pl.DataFrame, radius: NearPictures, searched: Iterable[str] = ()) -> pl.DataFrame:
    """Pairs of pictures whose hashes agree: image_a, image_b, phash_distance, pdq_distance, sorted.

    The DCT hash proposes and PDQ must confirm, because different receipts, maps and pages of text have equal DCT
    hashes. `pictures` has image_id, phash, pdq (hex digits), sorted by image_id. Pairs of two pictures that both are
    among `searched` are not looked for again.
    """
    if pictures.is_empty():
        return pl.DataFrame(schema=_HASH_PAIR)
    phash = hashes_from_hex(pictures["phash"].to_list())[:, 0]
    pdq = hashes_from_hex(pictures["pdq"].to_list())
    ids = pictures["image_id"]
    i, j = hamming_pairs(
        phash,
        radius.phash_distance_max,
        confirming=pdq,
        confirming_radius=radius.pdq_distance_max,
        fresh=~ids.is_in(list(searched)).to_numpy(),
    ).T
    columns = {
        "image_a": ids.gather(i),
        "image_b": ids.gather(j),
        "phash_distance": np.bitwise_count(phash[i] ^ phash[j]),
        "pdq_distance": np.bitwise_count(pdq[i] ^ pdq[j]).sum(axis=1, dtype=np.int64),
    }
    return pl.DataFrame(columns, schema=_HASH_PAIR)


def near_pictures(hash_pairs: pl.DataFrame, vectors: pl.DataFrame, radius: NearPictures) -> pl.DataFrame:
    """The rows of `near_pictures`: those of `hash_pairs` whose embeddings agree as well.

    `vectors` has image_id and vector for every picture of a pair; a picture without one is near to none.
    """
    place = dict(zip(vectors["image_id"], range(vectors.height), strict=True))
    known = hash_pairs.filter(pl.all_horizontal(pl.col("image_a", "image_b").is_in(list(place))))
    if known.is_empty():
        return frame_of(NearPicture, [])
    matrix = vectors["vector"].explode().to_numpy().astype(np.float32).reshape(vectors.height, -1)
    i, j = (known[side].replace_strict(place, return_dtype=pl.Int64).to_numpy() for side in ("image_a", "image_b"))
    cosine = np.einsum("nd,nd->n", matrix[i], matrix[j])
    near = known.with_columns(cosine=pl.Series(cosine, dtype=pl.Float32)).filter(cosine >= radius.embedding_cosine_min)
    return near.select(frame_schema(NearPicture).names())


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
