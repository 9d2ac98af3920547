"""Pictures that mean the same: pairs whose embeddings are close, kept up to date night by night."""

from collections.abc import Iterator

import numpy as np
import polars as pl

from schemas.image import SemanticPicture
from schemas.policy import SemanticPictures
from tasks.decide.cosine_join import BASIS_ROWS, Vectors, bounds, confirmed, cosine_pairs, directions, possible_pairs
from tasks.decide.near_search import search_key, update_pairs
from tasks.lookup.facts import Versions, facts, table_name
from tasks.tables import Store, frame_schema

SIGNAL = "image_embedding"


def update_semantic_pictures(store: Store, radius: SemanticPictures | None, versions: Versions) -> dict[str, int]:
    """`image_embedding` -> `semantic_pictures`, the same table whether pictures came at once or by night.

    Vectors are read part by part; of each only 65 numbers stay in memory. Without a radius the table is empty.

    Returns:
        How many pictures were searched for now, and how many pairs there are.
    """
    version = versions[SIGNAL]
    ids = _measured(store, version) if radius else pl.Series([], dtype=pl.String)
    search = search_key(radius, version)

    def find(searched: pl.Series) -> pl.DataFrame:
        assert radius
        return _pairs(store, version, ids, ~ids.is_in(searched.implode()), radius.cosine_min)

    counts = update_pairs(store, "semantic_pictures", "searched_vectors", ids, search, find)
    return {"semantic_searched": counts["searched"], "semantic_pairs": counts["pairs"]}


def semantic_pairs(ids: pl.Series, vectors: Vectors, radius: SemanticPictures) -> pl.DataFrame:
    """The rows of `semantic_pictures` among pictures whose vectors are at hand, in the order of their ids."""
    return _rows(ids, *cosine_pairs(vectors, radius.cosine_min))


def _measured(store: Store, version: str) -> pl.Series:
    """Sorted content ids of the pictures that have a vector, without the redacted ones that deciding makes."""
    known = facts(store, SIGNAL, version, [])["content_id"]
    made, logged = (store.read(table, ["image_id"])["image_id"].implode() for table in ("redacted_images", "images"))
    return known.filter(~known.is_in(made) | known.is_in(logged)).sort()


def _pairs(store: Store, version: str, ids: pl.Series, fresh: pl.Series, cosine_min: float) -> pl.DataFrame:
    """Pairs of which at least one picture is fresh."""
    bound = _bounds(store, version, ids)
    found = possible_pairs(bound, cosine_min, fresh.to_numpy())
    ends = np.unique(found)
    asked = ids.gather(ends)
    stored = facts(store, SIGNAL, version, ["vector"], asked.to_list()).sort("content_id")
    vectors = _matrix(stored["vector"])
    near = confirmed(found, cosine_min, lambda rows: vectors[np.searchsorted(ends, rows)])
    return _rows(ids, *near)


def _bounds(store: Store, version: str, ids: pl.Series) -> Vectors:
    """`bounds` of the vectors of `ids`, which are sorted."""
    basis = directions(_some(store, version, ids), len(ids))
    bound: Vectors | None = None
    for names, vectors in _parts(store, version, ids):
        made = bounds(vectors, basis)
        bound = np.zeros((len(ids), made.shape[1]), np.float32) if bound is None else bound
        bound[ids.search_sorted(names)] = made
    return np.zeros((0, 1), np.float32) if bound is None else bound


def _some(store: Store, version: str, ids: pl.Series) -> Vectors:
    """The first vectors, enough for directions."""
    found: list[Vectors] = []
    for _, vectors in _parts(store, version, ids):
        found.append(vectors)
        if sum(map(len, found)) >= BASIS_ROWS:
            break
    return np.concatenate(found) if found else np.zeros((0, 1), np.float32)


def _parts(store: Store, version: str, ids: pl.Series) -> Iterator[tuple[pl.Series, Vectors]]:
    """Content ids and vectors of those among `ids`, part by part."""
    wanted = (pl.col("version") == version) & pl.col("content_id").is_in(ids.implode())
    for part in store.read_parts(table_name(SIGNAL), ["content_id", "version", "vector"]):
        known = part.filter(wanted)
        if known.height:
            yield known["content_id"], _matrix(known["vector"])


def _matrix(vectors: pl.Series) -> Vectors:
    """float32 (n, dimension) of a column of lists."""
    flat: Vectors = vectors.explode().drop_nulls().to_numpy()
    return flat.reshape(len(vectors), -1 if len(vectors) else 1)


def _rows(ids: pl.Series, pairs: np.ndarray, cosines: Vectors) -> pl.DataFrame:
    columns = {"image_a": ids.gather(pairs[:, 0]), "image_b": ids.gather(pairs[:, 1]), "cosine": cosines}
    return pl.DataFrame(columns, schema=frame_schema(SemanticPicture))
