"""Near-duplicate images: pairs, and a representative for each group.

A pair must pass pHash, PDQ and thumbnail correlation, because different receipts, maps and pages of text can have equal
pHashes. Embeddings are not used.
"""

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
import polars as pl

from schemas.image import NearImage
from schemas.policy import NearImages
from tasks.storage.tables import frame_schema

Rows = npt.NDArray[np.int64]

GREY_PIXELS = 32 * 32
PDQ_BITS = 256
PAIRS_AT_ONCE = 16_384
FLAT_SPREAD_MAX = 1.0
"""Grey levels. An image with a lower standard deviation counts as one flat colour."""
FLAT_STEP_MAX = 4.0
"""Largest difference in grey levels between two flat images of a pair."""
_HASH_PAIR = {"image_a": pl.String, "image_b": pl.String, "phash_distance": pl.Int32, "pdq_distance": pl.Int32}


def near_hashes(images: pl.DataFrame, radius: NearImages, searched: Iterable[str] = ()) -> pl.DataFrame:
    """Pairs whose pHash and PDQ are within the radius: image_a, image_b, phash_distance, pdq_distance, sorted.

    `images` has image_id, phash and pdq (hex digits), sorted by image_id. Pairs of two images in `searched` are left
    out.
    """
    from tasks.dedup.hamming import hamming_pairs, hashes_from_hex  # numba is slow to import

    if images.is_empty():
        return pl.DataFrame(schema=_HASH_PAIR)
    ids, phash = images["image_id"], hashes_from_hex(images["phash"].to_list())[:, 0]
    i, j = hamming_pairs(phash, radius.phash_distance_max, ~ids.is_in(list(searched)).to_numpy()).T
    pdq_distance = _distances(hashes_from_hex(images["pdq"].to_list()), i, j)
    columns = {
        "image_a": ids.gather(i),
        "image_b": ids.gather(j),
        "phash_distance": np.bitwise_count(phash[i] ^ phash[j]),
        "pdq_distance": pdq_distance,
    }
    return pl.DataFrame(columns, schema=_HASH_PAIR).filter(pdq_distance <= radius.pdq_distance_max)


def near_images(hash_pairs: pl.DataFrame, greys: pl.DataFrame, radius: NearImages) -> pl.DataFrame:
    """The rows of `near_images`: `hash_pairs` whose thumbnails correlate too.

    `greys` has image_id and grey (hex digits of the 32 x 32 thumbnail) for every image of a pair.
    """
    place = dict(zip(greys["image_id"], range(greys.height), strict=True))
    pixels = np.frombuffer(bytes.fromhex("".join(greys["grey"])), np.uint8).reshape(-1, GREY_PIXELS)
    i, j = (hash_pairs[side].replace_strict(place, return_dtype=pl.Int64).to_numpy() for side in ("image_a", "image_b"))
    correlation = correlations(pixels, i, j)
    near = hash_pairs.with_columns(grey_correlation=pl.Series(correlation, dtype=pl.Float32))
    return near.filter(correlation >= radius.grey_correlation_min).select(frame_schema(NearImage).names())


def _distances(hashes: npt.NDArray[np.uint64], i: Rows, j: Rows) -> Rows:
    """Bits by which rows i and j of uint64 (n, words) differ, int64 (pairs,)."""
    found = np.empty(len(i), np.int64)
    for start in range(0, len(i), PAIRS_AT_ONCE):
        part = slice(start, start + PAIRS_AT_ONCE)
        found[part] = np.bitwise_count(hashes[i[part]] ^ hashes[j[part]]).sum(axis=1, dtype=np.int64)
    return found


def correlations(pixels: npt.NDArray[np.uint8], i: Rows, j: Rows) -> npt.NDArray[np.float32]:
    """Pearson correlation, float32 (pairs,), of rows i and j of thumbnails uint8 (n, 1024).

    For two flat images it is undefined: 1 if they are about equally bright, else 0.
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
    """Each image's representative: itself, or an earlier representative that it is directly paired with.

    There are no chains: an image that is paired with a member but not with its representative starts its own group.
    If several representatives match, the nearest by PDQ is used, then the nearest by embedding, then the lowest id.
    """
    near_pairs = [pairs.select("image_a", "image_b", distance=pl.col("pdq_distance").cast(pl.Float64))]
    if semantic is not None:
        distance = PDQ_BITS + 1 - pl.col("cosine").cast(pl.Float64)  # after every perceptual pair
        near_pairs.append(semantic.select("image_a", "image_b", distance=distance))
    neighbours: dict[str, list[tuple[float, str]]] = {}
    for a, b, bits in pl.concat(near_pairs).iter_rows():
        neighbours.setdefault(a, []).append((bits, b))
        neighbours.setdefault(b, []).append((bits, a))
    chosen: dict[str, str] = {}
    for image_id in ordered_ids:
        near = [(d, other) for d, other in neighbours.get(image_id, ()) if chosen.get(other) == other]
        chosen[image_id] = min(near)[1] if near else image_id
    return chosen
