"""Near-duplicate images: pairs, their tables `near_images` and `semantic_images`, a representative for each group.

A pair must pass pHash, PDQ and thumbnail correlation, because different receipts, maps and pages of text can have equal
pHashes. It must also have the same colours, which these three do not see; embeddings are not used. Pairs of the other
table have near embeddings: an exact search for all pairs of unit vectors within a cosine, by products of bounded size
on the CPU or a card. Only new images are compared with all others; the tables are the same as after a search over all.
"""

import hashlib
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from schemas.errors import BadInput
from schemas.items.image import NearImage
from schemas.policy import NearImages, SemanticImages
from schemas.row import Row
from schemas.settings import Settings
from tasks.dedup.colours import chromas_from_hex, colour_distances
from tasks.runtime.arrays import RowNumbers, Vectors
from tasks.runtime.parallel import map_shards, one_blas_thread, product_device, shard_runner
from tasks.storage.queries.signals import (
    Block,
    Versions,
    blocks_of,
    read_block,
    several_lengths,
    signal_values,
    stored_vectors,
    unload,
    vectors_of,
)
from tasks.storage.tables import Store, frame_schema

Close = tuple[RowNumbers, RowNumbers, Vectors]
"""int64 (pairs,) rows of one matrix, int64 (pairs,) rows of the other, and their cosines, float32 (pairs,)."""

CPU = "cpu"
PRODUCT_SIDE = 2048
"""Rows and columns of one product; on a card four times as many."""
SURE_AT_ONCE = 4096
PRODUCT_ERROR = 4e-3
"""More than the error of any product of unit vectors: a card may keep 10 bits of each factor (TF32)."""

GREY_PIXELS = 32 * 32
PDQ_BITS = 256
COSINES_AT_ONCE = 16_384
FLAT_SPREAD_MAX = 1.0
"""Grey levels. An image with a lower standard deviation counts as one flat colour."""
FLAT_STEP_MAX = 4.0
"""Largest difference in grey levels between two flat images of a pair."""
EMBEDDING = "image_embedding"
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


def near_images(
    hash_pairs: pl.DataFrame, greys: pl.DataFrame, radius: NearImages, colours: pl.DataFrame | None = None
) -> pl.DataFrame:
    """The rows of `near_images`: `hash_pairs` whose thumbnails correlate too, and whose colours are the same.

    `greys` has image_id and grey (hex digits of the 32 x 32 thumbnail) for every image of a pair. `colours` has
    image_id and chroma for those whose colours were measured; a pair without is decided by the other measures, and so
    is every pair where `colours` is None: to a takedown a recoloured copy is a copy.
    """
    place = dict(zip(greys["image_id"], range(greys.height), strict=True))
    pixels = np.frombuffer(bytes.fromhex("".join(greys["grey"])), np.uint8).reshape(-1, GREY_PIXELS)
    i, j = (hash_pairs[side].replace_strict(place, return_dtype=pl.Int64).to_numpy() for side in ("image_a", "image_b"))
    correlation = grey_correlations(pixels, i, j)
    near = hash_pairs.with_columns(grey_correlation=pl.Series(correlation, dtype=pl.Float32))
    near = near.filter(correlation >= radius.grey_correlation_min).select(frame_schema(NearImage).names())
    if colours is None:
        return near
    return near.join(_recoloured(near, colours, radius), on=["image_a", "image_b"], how="anti", maintain_order="left")


def _recoloured(pairs: pl.DataFrame, colours: pl.DataFrame, radius: NearImages) -> pl.DataFrame:
    """image_a and image_b of the pairs whose colours were both measured and differ too much."""
    rows = colours.select("image_id").with_row_index("row")
    # One row is a pair with the rows of its two images in `colours`.
    measured = pairs.select("image_a", "image_b")
    for side in ("image_a", "image_b"):
        measured = measured.join(rows.rename({"image_id": side, "row": f"{side}_row"}), on=side, maintain_order="left")
    i, j = (measured[f"{side}_row"].cast(pl.Int64).to_numpy() for side in ("image_a", "image_b"))
    distances = colour_distances(chromas_from_hex(colours["chroma"].to_list()), i, j)
    return measured.filter(distances > radius.colour_distance_max).select("image_a", "image_b")


def _distances(hashes: npt.NDArray[np.uint64], i: RowNumbers, j: RowNumbers) -> RowNumbers:
    """Bits by which rows i and j of uint64 (n, words) differ, int64 (pairs,)."""
    distances = np.empty(len(i), np.int64)
    for start in range(0, len(i), COSINES_AT_ONCE):
        part = slice(start, start + COSINES_AT_ONCE)
        distances[part] = np.bitwise_count(hashes[i[part]] ^ hashes[j[part]]).sum(axis=1, dtype=np.int64)
    return distances


def grey_correlations(pixels: npt.NDArray[np.uint8], i: RowNumbers, j: RowNumbers) -> npt.NDArray[np.float32]:
    """Pearson correlation, float32 (pairs,), of rows i and j of thumbnails uint8 (n, 1024).

    For two flat images it is undefined: 1 if they are about equally bright, else 0.
    """
    mean = pixels.mean(axis=1, dtype=np.float32)
    spread = pixels.std(axis=1, dtype=np.float32)
    correlations = np.empty(len(i), np.float32)
    for start in range(0, len(i), COSINES_AT_ONCE):
        a, b = i[start : start + COSINES_AT_ONCE], j[start : start + COSINES_AT_ONCE]
        products = np.einsum("np,np->n", pixels[a] - mean[a][:, None], pixels[b] - mean[b][:, None]) / pixels.shape[1]
        varied = np.minimum(spread[a], spread[b]) >= FLAT_SPREAD_MAX
        flat = np.maximum(spread[a], spread[b]) < FLAT_SPREAD_MAX
        alike = flat & (abs(mean[a] - mean[b]) <= FLAT_STEP_MAX)
        with np.errstate(invalid="ignore", divide="ignore"):
            correlations[start : start + COSINES_AT_ONCE] = np.where(varied, products / (spread[a] * spread[b]), alike)
    return correlations


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


def update_near_images(store: Store, radius: NearImages, versions: Versions) -> dict[str, int]:
    """`image_hash` and `image_colour` -> `near_images`. Returns counts of images, searched images and pairs."""
    version, colour_version = versions["image_hash"], versions["image_colour"]
    named = {"content_id": "image_id"}
    images = signal_values(store, "image_hash", version, ["phash", "pdq"]).rename(named).sort("image_id")

    def find(searched: pl.Series) -> pl.DataFrame:
        pairs = near_hashes(images, radius, searched)
        ends = pl.concat([pairs["image_a"], pairs["image_b"]]).unique()
        greys = signal_values(store, "image_hash", version, ["grey"], ends).rename(named)
        colours = signal_values(store, "image_colour", colour_version, ["chroma"], ends).rename(named)
        return near_images(pairs, greys, radius, colours)

    # A pair depends on whether the colours of its images are measured: one whose colour comes later is searched again.
    with_colour = signal_values(store, "image_colour", colour_version, [])["content_id"]
    keys = [search_key(radius, f"{version} {colour_version}"), search_key(radius, version)]
    is_coloured = pl.col("image_id").is_in(with_colour.implode())
    searches = images.select("image_id").with_columns(
        search=pl.when(is_coloured).then(pl.lit(keys[0])).otherwise(pl.lit(keys[1]))
    )
    return _update(store, "near_images", "searched_images", searches, find)


def update_semantic_images(
    store: Store, radius: SemanticImages | None, versions: Versions, settings: Settings
) -> dict[str, int]:
    """`image_embedding` -> `semantic_images`, empty without a radius, in shards.

    Returns counts of searched images and pairs.
    """
    version = versions[EMBEDDING]
    vector_rows = _embedded(store, version) if radius else pl.DataFrame(schema={"content_id": pl.String})

    def find(searched: pl.Series) -> pl.DataFrame:
        assert radius
        before = pl.col("content_id").is_in(searched.implode())
        new, old = vector_rows.filter(~before), vector_rows.filter(before)
        pairs = close_vectors(store, EMBEDDING, radius.cosine_min, new, old, settings)
        ends = {"image_a": pl.min_horizontal("one", "other"), "image_b": pl.max_horizontal("one", "other")}
        return pairs.select(**ends, cosine="cosine").sort("image_a", "image_b")

    searches = vector_rows.select(image_id="content_id").with_columns(search=pl.lit(search_key(radius, version)))
    counts = _update(store, "semantic_images", "searched_vectors", searches, find)
    return {"semantic_searched": counts["searched"], "semantic_pairs": counts["pairs"]}


def close_vectors(
    store: Store, signal: str, cosine_min: float, fresh: pl.DataFrame, others: pl.DataFrame, settings: Settings
) -> pl.DataFrame:
    """Pairs (one, other, cosine) of content ids: within `fresh`, and of `fresh` with `others`, in shards of two blocks.

    Threads of this process keep every block in a temporary file, mapped into memory. Workers of a task runner read the
    blocks of a shard from the store.
    Both are rows of `stored_vectors`; no id is in both. Raises BadInput when vectors have several lengths.
    """
    new, old = [*blocks_of(fresh)], [*blocks_of(others)]
    blocks, ids = [block for block, _ in new + old], [ids for _, ids in new + old]
    places = [(i, j) for i in range(len(new)) for j in range(i, len(blocks))]
    block_vectors = blocks if shard_runner(settings) else [read_block(store.root, signal, block) for block in blocks]
    work = partial(_pairs, store.root, signal, cosine_min)
    pair_frames = [pl.DataFrame(schema={"one": pl.String, "other": pl.String, "cosine": pl.Float32})]
    results = map_shards(work, ((block_vectors[i], block_vectors[j]) for i, j in places), settings)
    for (i, j), (rows, other_rows, cosines) in zip(places, results, strict=True):
        pair_frames.append(
            pl.DataFrame({"one": ids[i].gather(rows), "other": ids[j].gather(other_rows), "cosine": cosines})
        )
    return pl.concat(pair_frames)


@one_blas_thread()
def _pairs(root: str, signal: str, cosine_min: float, shard: tuple[Block | Vectors, Block | Vectors]) -> Close:
    """Rows of two blocks that are a pair, and their cosines; a block with itself gives i < j."""
    one, other = (vectors_of(root, signal, block) for block in shard)
    if one.shape[1] != other.shape[1]:
        raise BadInput(several_lengths(signal, "in use", {one.shape[1], other.shape[1]}))
    device = product_device()
    close_pairs = cosine_pairs(one, cosine_min, device) if one is other else close_rows(one, other, cosine_min, device)
    unload(one)
    unload(other)
    return close_pairs


def _update(
    store: Store, table: str, ledger: str, after: pl.DataFrame, find: Callable[[pl.Series], pl.DataFrame]
) -> dict[str, int]:
    """Bring a table of image pairs up to date.

    `ledger` is the table of images that were searched before. `after` is that table as it is to be: image_id of all
    images, sorted, and search, a key for everything else that a pair of the image depends on. `find` takes the images
    searched before and returns the pairs of the others.
    """
    before, ids = store.read(ledger), after["image_id"]
    searched = before.join(after, on=["image_id", "search"], how="semi")["image_id"]
    pairs = store.read(table)
    all_pairs = pairs.filter(pl.all_horizontal(pl.col("image_a", "image_b").is_in(searched.implode())))
    if len(searched) < len(ids):
        all_pairs = all_pairs.vstack(find(searched))
    if not (all_pairs.equals(pairs) and after.equals(before)):
        store.replace(ledger, store.empty(ledger))  # after a kill from here on, all images are searched again
        store.replace(table, all_pairs)
        store.replace(ledger, after)
    return {"images": len(ids), "searched": len(ids) - len(searched), "pairs": all_pairs.height}


def search_key(radius: Row | None, version: str) -> str:
    """16 hex digits for what a pair depends on besides its images: radius and signal version."""
    basis = [radius.model_dump_json() if radius else "", version]
    return hashlib.blake2b("\n".join(basis).encode(), digest_size=8).hexdigest()


def _embedded(store: Store, version: str) -> pl.DataFrame:
    """`stored_vectors` of images, sorted by id, without copies that a policy redacted."""
    vector_rows = stored_vectors(store, EMBEDDING, version)
    redacted, logged = (
        store.read(table, ["image_id"])["image_id"].implode() for table in ("redacted_images", "images")
    )
    return vector_rows.filter(~pl.col("content_id").is_in(redacted) | pl.col("content_id").is_in(logged)).sort(
        "content_id"
    )


def cosine_pairs(vectors: Vectors, cosine_min: float, device: str = CPU) -> Close:
    """All pairs i < j of rows of float32 (n, dimension) with at least this cosine, returned as by `close_rows`."""
    i, j, cosines = _close(vectors, vectors, cosine_min, device, once=True)
    once = i < j
    return i[once], j[once], cosines[once]


def close_rows(a: Vectors, b: Vectors, cosine_min: float, device: str = CPU) -> Close:
    """All pairs of a row of `a` and a row of `b` whose inner product is at least `cosine_min`, sorted by rows.

    The search is exact: products on `device` (numpy's `cpu`, or one of torch) find candidates, whose cosines are
    computed one by one on the CPU. So a cosine depends neither on the device nor on the other rows.
    """
    return _close(a, b, cosine_min, device, once=False)


def _close(a: Vectors, b: Vectors, cosine_min: float, device: str, once: bool) -> Close:
    """The pairs of `close_rows`; `once` leaves out products below the diagonal."""
    side, least = PRODUCT_SIDE if device == CPU else 4 * PRODUCT_SIDE, cosine_min - PRODUCT_ERROR
    first_vectors = _on_device(a, device)
    second_vectors = first_vectors if a is b else _on_device(b, device)
    batches = [(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.float32))]
    for top in range(0, len(a), side):
        for start in range(top if once else 0, len(b), side):
            products = first_vectors[top : top + side] @ second_vectors[start : start + side].T
            if products.max() < least:  # not so if a vector is NaN
                continue
            near = products >= least
            i, j = np.nonzero(near) if isinstance(near, np.ndarray) else near.nonzero().T.cpu().numpy()
            batches.append(_sure(a, b, i + top, j + start, cosine_min))
    i, j, cosines = (np.concatenate(arrays) for arrays in zip(*batches, strict=True))
    order = np.lexsort((j, i))
    return i[order], j[order], cosines[order]


def _on_device(matrix: Vectors, device: str) -> Any:
    if device == CPU:
        return matrix
    import torch

    return torch.from_numpy(np.asarray(matrix)).to(device)


def _sure(a: Vectors, b: Vectors, i: RowNumbers, j: RowNumbers, cosine_min: float) -> Close:
    """Candidate pairs whose cosine, each computed by itself, is at least `cosine_min`."""
    cosines = np.empty(len(i), np.float32)
    for start in range(0, len(i), SURE_AT_ONCE):
        part = slice(start, start + SURE_AT_ONCE)
        cosines[part] = np.einsum("nd,nd->n", a[i[part]], b[j[part]], optimize=False)
    sure = cosines >= np.float32(cosine_min)
    return i[sure], j[sure], cosines[sure]
