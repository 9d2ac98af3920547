"""Reads what is stored of content ids: signal values (the tables `signals/*`), vectors in blocks, and encoded images.

Many vectors are read into a temporary file mapped into memory. Workers of a task runner can read a block, too.
"""

import mmap
import os
import tempfile
import threading
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from schemas.errors import BadInput
from schemas.tables import TABLES
from tasks.runtime.arrays import Vectors
from tasks.storage.content_id import number_of
from tasks.storage.tables import Store, frame_schema

Versions = Mapping[str, str]
"""Signal name -> the version that this run uses."""


def versions_in_use(versions: Versions) -> pl.DataFrame:
    """The frame `versions` of the views: signal and version."""
    rows = {"signal": [*versions], "version": [*versions.values()]}
    return pl.DataFrame(rows, schema={"signal": pl.String, "version": pl.String})


def table_name(signal: str) -> str:
    """Name of the table with a signal's values, which queries have in quotes. Raises KeyError for what is no signal."""
    name = f"signals/{signal}"
    if name not in TABLES:
        raise KeyError(name)
    return name


def signal_values(
    store: Store,
    signal: str,
    version: str,
    columns: Sequence[str] | None = None,
    content_ids: Collection[str] | None = None,
) -> pl.DataFrame:
    """The stored values of one signal and version: `content_id` and `columns`, one row for each content id.

    With `content_ids`, only the rows of these.
    """
    names = None if columns is None else ["content_id", "version", *columns]
    is_version = pl.col("version") == version
    if content_ids is None:
        rows = store.read(table_name(signal), names).filter(is_version)
    else:
        among = is_version & pl.col("content_id").is_in(list(content_ids))
        none = store.empty(table_name(signal), names)
        rows = pl.concat([none, *(part.filter(among) for part in store.read_parts(table_name(signal), names))])
    if rows.is_empty():
        return rows.drop("version")
    return rows.unique("content_id", keep="first", maintain_order=True).drop("version")


def latest_query(signal: str, columns: Iterable[str], wanted_ids: str = "") -> str:
    """A query for `content_id` and columns of the value of a signal that was measured last, of any version.

    `wanted_ids` is a query for the content ids that are meant, by default all. Of values that were measured at the
    same time, the one that is stored last counts.
    """
    last_value = ", ".join(f'"{name}" := "{name}"' for name in columns)
    among = f"SEMI JOIN ({wanted_ids}) AS wanted_ids USING (content_id)" if wanted_ids else ""
    return f"""
        -- a row is one content id and its last value
        SELECT content_id, unnest(arg_max(struct_pack({last_value}), (measured_at, place)))
        FROM (SELECT *, row_number() OVER () AS place FROM "{table_name(signal)}" {among})
        GROUP BY content_id
    """  # noqa: S608 - names of our own


def latest_values(
    store: Store, signal: str, content_ids: Iterable[str], columns: Iterable[str]
) -> dict[str, dict[str, Any]]:
    """Content id -> columns of its value that was measured last, of those among the ids that have one."""
    id_frame = pl.DataFrame({"content_id": pl.Series(sorted({*content_ids}), dtype=pl.String)})
    rows = store.ask(latest_query(signal, columns, "SELECT content_id FROM wanted"), wanted=id_frame)
    return {row.pop("content_id"): row for row in rows.iter_rows(named=True)}


def signal_facts(store: Store, signal: str, version: str, facts: Mapping[str, pl.Expr]) -> pl.DataFrame:
    """`content_id`, as `number_of` gives it, and facts: expressions over the values of one signal and version.

    One row for each content id. Values are read some at a time, and only the facts are kept.
    """
    columns = {name: None for fact in facts.values() for name in fact.meta.root_names()}
    names, number = ["content_id", "version", *columns], number_of(pl.col("content_id"))
    every = chain([store.empty(table_name(signal), names)], store.read_slices(table_name(signal), names))
    fact_frames = (rows.filter(version=version).select(number, **facts) for rows in every)
    rows = pl.concat(fact_frames)
    again = rows["content_id"].n_unique() < rows.height  # which takes a tenth of the memory
    return rows.unique("content_id", keep="first") if again else rows


# A table's name cannot be a value of a query, so it is put into the text; `table_name` gives names of tables only.
_OUTDATED = """
    -- a row is one content id that has values, none of them of this version; the answer is how many there are
    SELECT count(*) AS outdated_ids
    FROM (SELECT content_id FROM {signal_table} GROUP BY content_id HAVING NOT bool_or(version = $version))
"""


def outdated(store: Store, versions: Versions) -> dict[str, int]:
    """Signal -> how many content ids have values of other versions only, where some do: those are measured again."""
    counts = {}
    for signal, version in versions.items():
        question = _OUTDATED.format(signal_table=f'"{table_name(signal)}"')
        counts[signal] = int(store.ask(question, version=version)["outdated_ids"][0])
    return {signal: count for signal, count in counts.items() if count}


LACKING_AT_ONCE = 1_000_000
"""Content ids in a frame of `lacking_ids`."""
_LACKING = """
    -- a row is one of the wanted ids that lack a value of the versions in use, with the signals of which it has one, as
    -- bits
    SELECT content_id, bit_or(signals) AS signals
    FROM (
        SELECT content_id, true AS wanted, 0 AS signals FROM ({wanted_ids})
        UNION ALL
        {stored_ids}
    )
    WHERE content_id > $after
    GROUP BY content_id
    HAVING bool_or(wanted) AND bit_or(signals) <> $all_signals
    ORDER BY content_id
    LIMIT $most
"""
# As in `_OUTDATED`; a bit is a number that `lacking_ids` made.
_STORED_IDS = "SELECT content_id, false, {bit} FROM {signal_table} WHERE version = $version_{bit}"


def lacking_ids(
    store: Store, signals: Versions, wanted_ids: str, values: Mapping[str, Any], at_once: int = LACKING_AT_ONCE
) -> Iterator[pl.DataFrame]:
    """content_id of what lacks a value of some of these signals, and the `signals` that it lacks, joined by commas.

    `wanted_ids` is a query for a column content_id, which may repeat ids and have nulls; `values` are its own. Ids are
    sorted, each frame has at most `at_once` of them, and is asked for when the one before it is done with.
    """
    bits = {signal: 1 << place for place, signal in enumerate(signals)}
    if not bits:
        return
    stored_ids = [_STORED_IDS.format(bit=bit, signal_table=f'"{table_name(signal)}"') for signal, bit in bits.items()]
    question = _LACKING.format(wanted_ids=wanted_ids, stored_ids=" UNION ALL ".join(stored_ids))
    versions = {f"version_{bit}": signals[signal] for signal, bit in bits.items()}
    after = ""
    while True:
        bounds = {"after": after, "all_signals": sum(bits.values()), "most": at_once}
        rows = store.ask(question, **values, **versions, **bounds)
        lacks = [pl.when(pl.col("signals") & bit == 0).then(pl.lit(signal)) for signal, bit in bits.items()]
        yield rows.with_columns(signals=pl.concat_str(lacks, separator=",", ignore_nulls=True))
        if rows.height < at_once:
            return
        after = rows["content_id"][-1]


def missing_ids(store: Store, signal: str, version: str, content_ids: Iterable[str]) -> list[str]:
    """The content ids, sorted, that have no stored value of this version."""
    wanted_ids = pl.DataFrame({"content_id": pl.Series([*content_ids], dtype=pl.String)})
    frames = lacking_ids(store, {signal: version}, "SELECT content_id FROM wanted_ids", {"wanted_ids": wanted_ids})
    return [content_id for rows in frames for content_id in rows["content_id"]]


def several_lengths(signal: str, version: str, lengths: Collection[int]) -> str:
    """The error for vectors of one version that have several lengths."""
    return (
        f"{signal}: vectors of version {version!r} have {' and '.join(map(str, sorted(lengths)))} dimensions; "
        "one version has one: remove its rows and run `curate measure` again"
    )


def on_disk(rows: int, columns: int) -> Vectors:
    """Zeros, float32 (rows, columns), in a file of `TMPDIR` that ends with the process or the array.

    Raises OSError with the folder when it has no room; found out later, by a write into the mapping, it would end the
    process.
    """
    with tempfile.TemporaryFile(prefix="curate-vectors-") as file:
        try:
            os.posix_fallocate(file.fileno(), 0, max(1, rows * columns) * np.dtype(np.float32).itemsize)
        except OSError as error:
            raise OSError(error.errno, error.strerror, tempfile.gettempdir()) from None
        return np.memmap(file, np.float32, "w+", shape=(max(1, rows), columns))[:rows]


def unload(vectors: npt.NDArray[Any]) -> None:
    """Give the memory of an array of `on_disk` back to the system; the file keeps the content."""
    whole: object = vectors
    while isinstance(whole, np.ndarray):
        whole = whole.base
    if isinstance(whole, mmap.mmap):
        whole.madvise(mmap.MADV_DONTNEED)


class StoredVectors:
    """Vectors of a signal in a temporary file, in the order in which their ids are first asked for.

    None when `versions` does not name the signal.
    """

    def __init__(self, store: Store, signal: str, versions: Versions, ids: pl.Series) -> None:
        name, version = table_name(signal), versions.get(signal, "")
        id_rows = pl.DataFrame({"content_id": ids.drop_nulls().unique(maintain_order=True)}).with_row_index("row")
        self.matrix, self.width = np.empty((0, 1), np.float32), 0
        has, lengths = np.zeros(id_rows.height, bool), set[int]()
        for rows in store.read_slices(name, ["content_id", "version", "vector"]) if id_rows.height else ():
            there = rows.filter(version=version).join(id_rows, on="content_id", maintain_order="left")
            there = there.filter(~pl.Series(has[there["row"].to_numpy()])).unique("row", keep="first")
            lengths |= set(there["vector"].list.len())
            if len(lengths) > 1 or lengths == {0}:
                raise BadInput(several_lengths(signal, version, lengths))
            if there.is_empty():
                continue
            if not self.width:
                (self.width,) = lengths
                self.matrix = on_disk(id_rows.height, self.width)
            at = there["row"].to_numpy()
            has[at] = True
            self.matrix[at] = there["vector"].explode().to_numpy().reshape(len(at), self.width)
            unload(self.matrix)
        self._row_of = id_rows.filter(pl.Series(has))

    def have(self, ids: pl.Series) -> pl.Series:
        """Boolean for each id: whether it has a vector."""
        return ids.is_in(self._row_of["content_id"].implode())

    def of(self, ids: pl.Series) -> dict[str, Vectors]:
        """Id -> vector, for those that have one."""
        stored_rows = pl.DataFrame({"content_id": ids.drop_nulls().unique()}).join(self._row_of, on="content_id")
        return dict(zip(stored_rows["content_id"], self.matrix[stored_rows["row"].to_numpy()], strict=True))

    def cosines(self, vector: Vectors) -> pl.DataFrame:
        """content_id and `cosine` (Float64) to a unit vector (dimension,), of every stored vector.

        Raises BadInput when the vector has another length.
        """
        if self._row_of.height and len(vector) != self.width:
            raise BadInput(f"a vector of {len(vector)} dimensions is compared with stored ones of {self.width}")
        cosines = np.zeros(self._row_of.height)
        rows = self._row_of["row"].to_numpy()
        for start in range(0, len(rows), VECTORS_A_BLOCK):
            block = self.matrix[rows[start : start + VECTORS_A_BLOCK]]
            cosines[start : start + VECTORS_A_BLOCK] = np.einsum("nd,d->n", block, vector)
            unload(self.matrix)
        return self._row_of.select("content_id", cosine=pl.Series(cosines))

    def all(self) -> dict[str, Vectors]:
        """Id -> vector, which stays in the file until it is used, for all that have one."""
        rows = np.asarray(self.matrix)
        return {name: rows[row] for row, name in self._row_of.iter_rows()}


VECTORS_A_BLOCK = 16_384
Block = tuple[tuple[str, bytes], ...]
"""Parts of a signal's table, and the numbers of the rows in each that belong to the block, as bytes of uint32."""


def stored_vectors(store: Store, signal: str, version: str) -> pl.DataFrame:
    """content_id, part and row of every vector of this version; of equal ids, the first. Reads no vector."""
    parts = store.parts(table_name(signal))
    frames = [pl.DataFrame(schema={"row": pl.UInt32, "content_id": pl.String, "part": pl.Enum(parts)})]
    for part, rows in zip(parts, store.read_parts(table_name(signal), ["content_id", "version"]), strict=True):
        numbered = rows.with_row_index("row").filter(version=version).drop("version")
        frames.append(numbered.with_columns(part=pl.lit(part, pl.Enum(parts))))
    return pl.concat(frames).unique("content_id", keep="first", maintain_order=True)


def blocks_of(vectors: pl.DataFrame) -> Iterator[tuple[Block, pl.Series]]:
    """Blocks of rows of `stored_vectors`, in the order in which they are stored, and the content ids of each."""
    for block_rows in vectors.sort("part", "row").iter_slices(VECTORS_A_BLOCK):
        parts = block_rows.group_by("part", maintain_order=True).agg("row")
        rows = (numbers.to_numpy().tobytes() for numbers in parts["row"])
        yield tuple(zip(parts["part"], rows, strict=True)), block_rows["content_id"]


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


GROUPS_IN_MEMORY = 32
"""Row groups; one has about 2 MB."""


class StoredImage(NamedTuple):
    """A row of `images` or `redacted_images`."""

    image_id: str
    bytes: bytes
    format: str
    width: int
    height: int


class StoredImages:
    """Stored images by content id. Keeps the last few row groups in memory; `ordered` gives the fastest order.

    `tables`: `images` (the default) and `redacted_images`. `part_of`: (table, part, row group) of each image, if
    already known.
    """

    def __init__(self, store: Store, *tables: str, part_of: dict[str, tuple[str, str, int]] | None = None) -> None:
        self._store, self._lock = store, threading.Lock()
        self._group = lru_cache(GROUPS_IN_MEMORY)(self._read)
        # An entry is one image: rows of a part and their row groups are in the same order.
        self.part_of = part_of or {
            image_id: (table, part, group)
            for table in tables or ("images",)
            for part, ids in zip(store.parts(table), store.read_parts(table, ["image_id"]), strict=True)
            for image_id, group in zip(ids["image_id"], store.group_of_rows(table, part), strict=True)
        }

    def ordered(self, image_ids: Iterable[str]) -> list[str]:
        """The ids of stored images, grouped by part."""
        return sorted({i for i in image_ids if i in self.part_of}, key=lambda i: (self.part_of[i], i))

    def __getitem__(self, image_id: str) -> StoredImage:
        """The image. Raises KeyError when it is not stored."""
        place = self.part_of[image_id]
        with self._lock:
            return self._group(*place)[image_id]

    def _read(self, table: str, part: str, group: int) -> dict[str, StoredImage]:
        rows = self._store.read_group(table, part, group, StoredImage._fields).iter_rows()
        return {image.image_id: image for image in map(StoredImage._make, rows)}
