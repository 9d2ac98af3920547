"""Pictures that look the same: all pairs within a radius, and groups around representatives."""

from collections.abc import Iterable, Mapping

import numpy as np
import numpy.typing as npt
import polars as pl

from schemas.image import NearPicture
from schemas.policy import NearPictures
from tasks.decide.hamming import hamming_pairs, hashes_from_hex
from tasks.tables import frame_schema

Rows = npt.NDArray[np.int64]

GREY_PIXELS = 32 * 32
PDQ_BITS = 256
PAIRS_AT_ONCE = 16_384
FLAT_SPREAD_MAX = 1.0
"""Grey levels: a picture whose brightness varies less is one flat colour."""
FLAT_STEP_MAX = 4.0
"""Grey levels by which two flat pictures may differ."""
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


def near_pictures(hash_pairs: pl.DataFrame, greys: pl.DataFrame, radius: NearPictures) -> pl.DataFrame:
    """The rows of `near_pictures`: those of `hash_pairs` whose pixels agree as well.

    `greys` has image_id and grey (hex digits of a 32 x 32 brightness) for every picture of a pair.
    """
    place = dict(zip(greys["image_id"], range(greys.height), strict=True))
    pixels = np.frombuffer(bytes.fromhex("".join(greys["grey"])), np.uint8).reshape(-1, GREY_PIXELS)
    i, j = (hash_pairs[side].replace_strict(place, return_dtype=pl.Int64).to_numpy() for side in ("image_a", "image_b"))
    correlation = grey_correlations(pixels, i, j)
    near = hash_pairs.with_columns(grey_correlation=pl.Series(correlation, dtype=pl.Float32))
    return near.filter(correlation >= radius.grey_correlation_min).select(frame_schema(NearPicture).names())


def grey_correlations(pixels: npt.NDArray[np.uint8], i: Rows, j: Rows) -> npt.NDArray[np.float32]:
    """Pearson correlation, float32 (pairs,), of rows i and j of `pixels` uint8 (n, 1024).

    Two flat pictures have none: 1 if they are about equally bright, else 0.
    """
    mean = pixels.mean(axis=1, dtype=np.float32)
    spread = pixels.std(axis=1, dtype=np.float32)
    found = np.empty(len(i), np.float32)
    for start in range(0, len(i), PAIRS_AT_ONCE):
        a, b = i[start : start + PAIRS_AT_ONCE], j[start : start + PAIRS_AT_ONCE]
        products = np.einsum("np,np->n", pixels[a] - mean[a][:, None], pixels[b] - mean[b][:, None]) / pixels.shape[1]
        varied = np.minimum(spread[a], spread[b]) >= FLAT_SPREAD_MAX
        flat = np.maximum(spread[a], spread[b]) < FLAT_SPREAD_MAX
        alike = flat & (abs(mean[a] - mean[b]) <= FLAT_STEP_MAX)
        with np.errstate(invalid="ignore", divide="ignore"):
            found[start : start + PAIRS_AT_ONCE] = np.where(varied, products / (spread[a] * spread[b]), alike)
    return found


def representatives(
    ordered_ids: Iterable[str], pairs: pl.DataFrame, semantic: pl.DataFrame | None = None
) -> dict[str, str]:
    """Each picture's representative: itself, or an earlier representative that it is directly paired with.

    There are no chains: a picture near a member but not near its representative starts a group of its own.
    Of several representatives the nearest by PDQ is taken, then the nearest by embedding, then the lowest id.
    """
    neighbours = _neighbours(pairs, semantic)
    chosen: dict[str, str] = {}
    for image_id in ordered_ids:
        near = [(d, other) for d, other in neighbours.get(image_id, ()) if chosen.get(other) == other]
        chosen[image_id] = min(near)[1] if near else image_id
    return chosen


def _neighbours(pairs: pl.DataFrame, semantic: pl.DataFrame | None) -> Mapping[str, list[tuple[float, str]]]:
    """Image id -> (bits of PDQ, or beyond all of them how far the cosine is from 1) and id of each neighbour."""
    near = [pairs.select("image_a", "image_b", distance=pl.col("pdq_distance").cast(pl.Float64))]
    if semantic is not None:
        beyond = PDQ_BITS + 1 - pl.col("cosine").cast(pl.Float64)
        near.append(semantic.select("image_a", "image_b", distance=beyond))
    neighbours: dict[str, list[tuple[float, str]]] = {}
    for a, b, distance in pl.concat(near).iter_rows():
        neighbours.setdefault(a, []).append((distance, b))
        neighbours.setdefault(b, []).append((distance, a))
    return neighbours
