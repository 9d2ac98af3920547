"""Pairs of stored vectors within a cosine: new ones against all, in shards of two blocks.

Threads of this process keep every block in a temporary file, mapped into memory. Workers of a task runner read the
blocks of a shard from the store.
"""

from functools import partial

import polars as pl

from schemas.errors import BadInput
from schemas.settings import Settings
from tasks.dedup.cosine import Close, Vectors, close_rows, cosine_pairs
from tasks.runtime.blas_threads import one_blas_thread
from tasks.runtime.parallel import map_shards, product_device, shard_runner
from tasks.storage.queries.signals import several_lengths, unload
from tasks.storage.queries.vectors import Block, blocks_of, read_block, vectors_of
from tasks.storage.tables import Store


def close_vectors(
    store: Store, signal: str, cosine_min: float, fresh: pl.DataFrame, others: pl.DataFrame, settings: Settings
) -> pl.DataFrame:
    """Pairs (one, other, cosine) of content ids: within `fresh`, and of `fresh` with `others`.

    Both are rows of `stored_vectors`; no id is in both. Raises BadInput when vectors have several lengths.
    """
    new, old = [*blocks_of(fresh)], [*blocks_of(others)]
    blocks, ids = [block for block, _ in new + old], [ids for _, ids in new + old]
    places = [(i, j) for i in range(len(new)) for j in range(i, len(blocks))]
    held = blocks if shard_runner(settings) else [read_block(store.root, signal, block) for block in blocks]
    work = partial(_pairs, store.root, signal, cosine_min)
    found = [pl.DataFrame(schema={"one": pl.String, "other": pl.String, "cosine": pl.Float32})]
    results = map_shards(work, ((held[i], held[j]) for i, j in places), settings)
    for (i, j), (rows, other_rows, cosines) in zip(places, results, strict=True):
        found.append(pl.DataFrame({"one": ids[i].gather(rows), "other": ids[j].gather(other_rows), "cosine": cosines}))
    return pl.concat(found)


@one_blas_thread()
def _pairs(root: str, signal: str, cosine_min: float, shard: tuple[Block | Vectors, Block | Vectors]) -> Close:
    """Rows of two blocks that are a pair, and their cosines; a block with itself gives i < j."""
    one, other = (vectors_of(root, signal, block) for block in shard)
    if one.shape[1] != other.shape[1]:
        raise BadInput(several_lengths(signal, "in use", {one.shape[1], other.shape[1]}))
    device = product_device()
    found = cosine_pairs(one, cosine_min, device) if one is other else close_rows(one, other, cosine_min, device)
    unload(one)
    unload(other)
    return found
