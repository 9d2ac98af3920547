"""Pairs of stored vectors within a cosine, new ones against all, in shards of two blocks.

Threads of this process keep every block in a temporary file, mapped into memory. Workers of a task runner read the
blocks of a shard from the store.
"""

from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import polars as pl

from schemas.errors import BadInput
from schemas.settings import Settings
from tasks.dedup.cosine import Close, Vectors, close_rows, cosine_pairs
from tasks.runtime.blas_threads import one_blas_thread
from tasks.runtime.matrices import product_device
from tasks.runtime.parallel import map_ordered, shard_runner
from tasks.storage.queries.documents import on_disk, unload
from tasks.storage.queries.signals import several_lengths, table_name
from tasks.storage.tables import Store

VECTORS_A_BLOCK = 16_384
Block = tuple[tuple[str, bytes], ...]
"""Parts of a signal's table, and the numbers of the rows in each that belong to the block, as bytes of uint32."""


class VectorSearch(NamedTuple):
    """Finds pairs within a cosine. It can be pickled, so that task runners can send it to their processes."""

    root: str
    signal: str
    version: str
    cosine_min: float

    def compare_stored(self, shard: tuple[Block, Block]) -> Close:
        """Rows of two blocks of the store that are a pair, and their cosines; a block with itself gives i < j."""
        one, other = (_read_again(self, block) for block in shard)
        return self.compare((one, other))

    @one_blas_thread()
    def compare(self, shard: tuple[Vectors, Vectors]) -> Close:
        """The same for blocks that were read. Raises BadInput when their vectors have several lengths."""
        one, other = shard
        if one.shape[1] != other.shape[1]:
            raise BadInput(several_lengths(self.signal, self.version, {one.shape[1], other.shape[1]}))
        device = product_device()
        same = one is other
        found = cosine_pairs(one, self.cosine_min, device) if same else close_rows(one, other, self.cosine_min, device)
        for matrix in shard:
            unload(matrix)
        return found

    def read(self, block: Block) -> Vectors:
        """The vectors of a block, float32 (n, dimension), in a temporary file.

        Raises BadInput when they have several lengths.
        """
        count, matrix, filled = sum(len(rows) for _, rows in block) // 4, np.empty((0, 1), np.float32), 0
        for some in self._vectors(block):
            matrix = matrix if filled else on_disk(count, some.list.len()[0])
            if lengths := {*some.list.len()} - {matrix.shape[1]}:
                raise BadInput(several_lengths(self.signal, self.version, lengths | {matrix.shape[1]}))
            matrix[filled : filled + len(some)] = some.explode().to_numpy().reshape(len(some), -1)
            filled += len(some)
            unload(matrix)
        return matrix

    def _vectors(self, block: Block) -> Iterator[pl.Series]:
        """Lists of float32, some rows at a time."""
        store, table = Store(self.root), table_name(self.signal)
        for part, numbers in block:
            wanted, start = np.frombuffer(numbers, np.uint32), 0
            for some in store.part_slices(table, part, ["vector"]):
                here = wanted[(wanted >= start) & (wanted < start + some.height)] - np.uint32(start)
                start += some.height
                if len(here):
                    yield some["vector"].gather(here)


@lru_cache(maxsize=2)
def _read_again(search: VectorSearch, block: Block) -> Vectors:
    """A block that a worker reads; the first one of a shard is mostly that of the shard before."""
    return search.read(block)


def stored_vectors(store: Store, signal: str, version: str) -> pl.DataFrame:
    """content_id, part and row of every vector of this version; of equal ids, the first. Reads no vector."""
    table = table_name(signal)
    parts = store.parts(table)
    found = [pl.DataFrame(schema={"row": pl.UInt32, "content_id": pl.String, "part": pl.Enum(parts)})]
    for part, rows in zip(parts, store.read_parts(table, ["content_id", "version"]), strict=True):
        numbered = rows.with_row_index("row").filter(version=version).drop("version")
        found.append(numbered.with_columns(part=pl.lit(part, pl.Enum(parts))))
    return pl.concat(found).unique("content_id", keep="first", maintain_order=True)


def close_vectors(search: VectorSearch, fresh: pl.DataFrame, others: pl.DataFrame, settings: Settings) -> pl.DataFrame:
    """Pairs (one, other, cosine) of content ids: within `fresh`, and of `fresh` with `others`.

    Both are rows of `stored_vectors`; no id is in both.
    """
    blocks = [*_blocks(fresh), *_blocks(others)]
    count = -(-fresh.height // VECTORS_A_BLOCK)
    shards = [(i, j) for i in range(count) for j in range(i, len(blocks))]
    if runner := shard_runner(settings):
        results = runner.map_ordered(search.compare_stored, ((blocks[i][0], blocks[j][0]) for i, j in shards))
    else:
        read = list(map_ordered(search.read, (block for block, _ in blocks), settings.workers))
        results = map_ordered(search.compare, ((read[i], read[j]) for i, j in shards), settings.workers)
    found = [pl.DataFrame(schema={"one": pl.String, "other": pl.String, "cosine": pl.Float32})]
    for (i, j), (rows, other_rows, cosines) in zip(shards, results, strict=True):
        ends = {"one": blocks[i][1].gather(rows), "other": blocks[j][1].gather(other_rows)}
        found.append(pl.DataFrame({**ends, "cosine": cosines}))
    return pl.concat(found)


def _blocks(vectors: pl.DataFrame) -> Iterator[tuple[Block, pl.Series]]:
    """Blocks in the order in which they are stored, and the content ids of their rows."""
    for some in vectors.sort("part", "row").iter_slices(VECTORS_A_BLOCK):
        parts = some.group_by("part", maintain_order=True).agg("row")
        rows = (numbers.to_numpy().tobytes() for numbers in parts["row"])
        yield tuple(zip(parts["part"], rows, strict=True)), some["content_id"]
