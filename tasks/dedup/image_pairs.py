"""Updates the tables of image pairs: `near_images` from hashes, `semantic_images` from embeddings.

Only new images are compared with all others; the tables are the same as after a search over all images.
"""

import hashlib
from collections.abc import Callable, Iterator

import polars as pl

from schemas.policy import NearImages, SemanticImages
from schemas.row import Row
from tasks.dedup.cosine import Vectors, close_rows
from tasks.dedup.near_images import near_hashes, near_images
from tasks.storage.queries.signals import Versions, signal_values, table_name
from tasks.storage.tables import Store

EMBEDDING = "image_embedding"
NEW_AT_ONCE = 50_000
"""Number of new vectors held in memory; stored ones are read part by part."""


def update_near_images(store: Store, radius: NearImages, versions: Versions) -> dict[str, int]:
    """`image_hash` -> `near_images`. Returns counts of images, searched images and pairs."""
    version = versions["image_hash"]
    named = {"content_id": "image_id"}
    images = signal_values(store, "image_hash", version, ["phash", "pdq"]).rename(named).sort("image_id")

    def find(searched: pl.Series) -> pl.DataFrame:
        found = near_hashes(images, radius, searched)
        ends = pl.concat([found["image_a"], found["image_b"]]).unique()
        return near_images(found, signal_values(store, "image_hash", version, ["grey"], ends).rename(named), radius)

    return _update(store, "near_images", "searched_images", images["image_id"], _key(radius, version), find)


def update_semantic_images(store: Store, radius: SemanticImages | None, versions: Versions) -> dict[str, int]:
    """`image_embedding` -> `semantic_images`, empty without a radius.

    Returns counts of searched images and pairs.
    """
    version = versions[EMBEDDING]
    ids = _embedded(store, version) if radius else pl.Series([], dtype=pl.String)

    def find(searched: pl.Series) -> pl.DataFrame:
        assert radius
        return _close_images(store, version, ids, ids.filter(~ids.is_in(searched.implode())), radius.cosine_min)

    counts = _update(store, "semantic_images", "searched_vectors", ids, _key(radius, version), find)
    return {"semantic_searched": counts["searched"], "semantic_pairs": counts["pairs"]}


def _update(
    store: Store, table: str, ledger: str, ids: pl.Series, search: str, find: Callable[[pl.Series], pl.DataFrame]
) -> dict[str, int]:
    """Bring a table of image pairs up to date.

    `ledger` is the table of images that were searched before, `ids` are all images, sorted, and `search` is a key for
    everything else that a pair depends on. `find` takes the images searched before and returns the pairs of the others.
    """
    before, after = store.read(ledger), pl.DataFrame({"image_id": ids}).with_columns(search=pl.lit(search))
    searched = before.join(after, on=["image_id", "search"], how="semi")["image_id"]
    pairs = store.read(table)
    known = pairs.filter(pl.all_horizontal(pl.col("image_a", "image_b").is_in(searched.implode())))
    if len(searched) < len(ids):
        known = known.vstack(find(searched))
    if not (known.equals(pairs) and after.equals(before)):
        store.replace(ledger, store.empty(ledger))  # after a kill from here on, all images are searched again
        store.replace(table, known)
        store.replace(ledger, after)
    return {"images": len(ids), "searched": len(ids) - len(searched), "pairs": known.height}


def _key(radius: Row | None, version: str) -> str:
    """16 hex digits for what a pair depends on besides its images: radius and signal version."""
    basis = [radius.model_dump_json() if radius else "", version]
    return hashlib.blake2b("\n".join(basis).encode(), digest_size=8).hexdigest()


def _embedded(store: Store, version: str) -> pl.Series:
    """Sorted ids of the images that have a vector, without copies that a policy redacted."""
    known = signal_values(store, EMBEDDING, version, [])["content_id"]
    made, logged = (store.read(table, ["image_id"])["image_id"].implode() for table in ("redacted_images", "images"))
    return known.filter(~known.is_in(made) | known.is_in(logged)).sort()


def _close_images(store: Store, version: str, ids: pl.Series, new: pl.Series, cosine_min: float) -> pl.DataFrame:
    """The rows of `semantic_images` with at least one new image."""
    found = [pl.DataFrame(schema={"one": pl.String, "other": pl.String, "cosine": pl.Float32})]
    for start in range(0, len(new), NEW_AT_ONCE):
        rows = signal_values(store, EMBEDDING, version, ["vector"], new[start : start + NEW_AT_ONCE].to_list())
        block, vectors = rows["content_id"], _matrix(rows["vector"])
        for others, their_vectors in _parts(store, version, ids):
            i, j, cosines = close_rows(vectors, their_vectors, cosine_min)
            found.append(pl.DataFrame({"one": block.gather(i), "other": others.gather(j), "cosine": cosines}))
    pairs = pl.concat(found).filter(pl.col("one") != pl.col("other"))
    ends = {"image_a": pl.min_horizontal("one", "other"), "image_b": pl.max_horizontal("one", "other")}
    return pairs.select(**ends, cosine="cosine").unique(["image_a", "image_b"]).sort("image_a", "image_b")


def _parts(store: Store, version: str, ids: pl.Series) -> Iterator[tuple[pl.Series, Vectors]]:
    """Content ids and vectors of those among `ids`, part by part."""
    wanted = (pl.col("version") == version) & pl.col("content_id").is_in(ids.implode())
    for part in store.read_parts(table_name(EMBEDDING), ["content_id", "version", "vector"]):
        known = part.filter(wanted)
        if known.height:
            yield known["content_id"], _matrix(known["vector"])


def _matrix(vectors: pl.Series) -> Vectors:
    """float32 (n, dimension) of a column of lists."""
    flat: Vectors = vectors.explode().drop_nulls().to_numpy()
    return flat.reshape(len(vectors), -1 if len(vectors) else 1)
