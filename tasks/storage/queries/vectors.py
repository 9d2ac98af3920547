"""Stored vectors in blocks, which workers of a task runner can read, too."""

from collections.abc import Iterator
from datetime import UTC, datetime
from functools import lru_cache

import numpy as np
import polars as pl

from schemas.errors import BadInput
from schemas.tables import TABLES
from tasks.storage.queries.signals import Vectors, on_disk, several_lengths, table_name, unload
from tasks.storage.tables import Store, frame_schema

VECTORS_A_BLOCK = 16_384
Block = tuple[tuple[str, bytes], ...]
"""Parts of a signal's table, and the numbers of the rows in each that belong to the block, as bytes of uint32."""


def stored_vectors(store: Store, signal: str, version: str) -> pl.DataFrame:
    """content_id, part and row of every vector of this version; of equal ids, the first. Reads no vector."""
    parts = store.parts(table_name(signal))
    found = [pl.DataFrame(schema={"row": pl.UInt32, "content_id": pl.String, "part": pl.Enum(parts)})]
    for part, rows in zip(parts, store.read_parts(table_name(signal), ["content_id", "version"]), strict=True):
        numbered = rows.with_row_index("row").filter(version=version).drop("version")
        found.append(numbered.with_columns(part=pl.lit(part, pl.Enum(parts))))
    return pl.concat(found).unique("content_id", keep="first", maintain_order=True)


def blocks_of(vectors: pl.DataFrame) -> Iterator[tuple[Block, pl.Series]]:
    """Blocks of rows of `stored_vectors`, in the order in which they are stored, and the content ids of each."""
    for some in vectors.sort("part", "row").iter_slices(VECTORS_A_BLOCK):
        parts = some.group_by("part", maintain_order=True).agg("row")
        rows = (numbers.to_numpy().tobytes() for numbers in parts["row"])
        yield tuple(zip(parts["part"], rows, strict=True)), some["content_id"]


def read_block(root: str, signal: str, block: Block) -> Vectors:
    """The vectors of a block, float32 (n, dimension), in a temporary file (`on_disk`).

    Raises BadInput when they have several lengths.
    """
    store, parts = Store(root), []
    for part, numbers in block:
        stored = store.read_part(table_name(signal), part, ["vector"])["vector"]
        parts.append(stored.gather(np.frombuffer(numbers, np.uint32)))
    lists = pl.concat(parts)
    if len(lengths := {*lists.list.len()}) != 1:
        raise BadInput(several_lengths(signal, "in use", lengths))
    matrix = on_disk(len(lists), *lengths)
    matrix[:] = lists.explode().to_numpy().reshape(matrix.shape)
    unload(matrix)
    return matrix


_read_again = lru_cache(maxsize=2)(read_block)


def vectors_of(root: str, signal: str, block: Block | Vectors) -> Vectors:
    """A block that this process has, or that a worker reads; two stay, since shards in a row share their first one."""
    return block if isinstance(block, np.ndarray) else _read_again(root, signal, block)


def lent(store: Store, signal: str, vectors: Vectors) -> Block:
    """Write vectors for workers into a part that is not listed; the next `purge` of the signal's table deletes it."""
    schema = frame_schema(TABLES[table_name(signal)].row)
    numbers = [f"{number:08}" for number in range(len(vectors))]  # the table is sorted by them
    about = {"content_id": numbers, "version": "", "provider": "", "measured_at": datetime.fromtimestamp(0, UTC)}
    part = store.write_part(table_name(signal), pl.DataFrame(about | {"vector": pl.Series(vectors)}, schema=schema))
    return ((part, np.arange(len(vectors), dtype=np.uint32).tobytes()),)
