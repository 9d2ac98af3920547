"""Parquet files of rows with pictures, written without a copy of any picture: the file gets it from where it lies.

pyarrow encodes all columns of a row group but that of the picture bytes, which is laid out here as pyarrow would: plain
values, not compressed, in pages that end with the row that fills them. So a picture of 32 KB has a page of its own, and
what stands before it does not depend on its neighbours: readers find it by the page index, and the Hub, which cuts by
content, finds it again wherever it moves. (https://parquet.apache.org/docs/file-format/)
"""

from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tasks.parquet import PAGE_BYTES, no_rows, parquet_options
from tasks.release.file_pieces import FilePieces, put
from tasks.release.picture_pages import Pages, lay_out, offset_index
from tasks.release.thrift import I32, I64, LIST, STRUCT, Numbers, Reader, Struct, written

_NONE = np.zeros(0, np.int64)
TEXT_ROWS = 64
"""Rows after which pyarrow looks whether a page of the other columns is full."""
_UNIQUE = {"path", "conversation_id", "question_id", "tstamp"}
"""Columns whose values do not repeat: a dictionary of them is a third of the encoding, and thrown away."""
_LEAF = [b"images", b"list", b"element", b"bytes"]
# Numbers of fields, as parquet.thrift has them.
_ROWS, _GROUPS = 3, 4  # FileMetaData
_CHUNKS, _TOTAL_BYTES, _GROUP_ROWS, _START, _STORED_BYTES = 1, 2, 3, 5, 6  # RowGroup
_META, _OFFSETS_AT, _OFFSETS_BYTES, _BOUNDS_AT, _BOUNDS_BYTES = 3, 4, 5, 6, 7  # ColumnChunk
_PATH, _PLAIN_SIZE, _STORED_SIZE = 3, 6, 7  # ColumnMetaData
_DATA_AT, _DICTIONARY_AT, _ENCODED_PAGES, _SIZES = 9, 11, 13, 16
_LOCATIONS, _PAGE_AT = 1, 1  # OffsetIndex, PageLocation


class Group(NamedTuple):
    """A row group without pictures: pyarrow's file of it, the footer of that, and the pages that want pictures."""

    content: memoryview
    footer: Struct
    pages: Pages


def encode_group(rows: pa.Table, shown: Numbers, sizes: Numbers) -> Group:
    """Encode rows with empty pictures, which show so many pictures each, of so many bytes each."""
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(sink, rows.schema, **_layout(rows.schema)) as writer:
        if rows.num_rows:
            writer.write_table(rows, row_group_size=rows.num_rows)
    content = memoryview(sink.getvalue()).cast("B")
    length = int.from_bytes(content[-8:-4], "little")
    return Group(content, Reader(content, len(content) - 8 - length).struct(), lay_out(shown, sizes))


@cache
def _layout(schema: pa.Schema) -> dict[str, Any]:
    """Writer options: found once, since finding them takes as long as encoding a small column."""
    options = parquet_options(schema)
    repeating = [leaf for leaf in options["use_dictionary"] if leaf.rsplit(".", 1)[-1] not in _UNIQUE]
    pages = {"data_page_size": PAGE_BYTES, "write_batch_size": TEXT_ROWS, "write_page_index": True}
    return options | pages | {"use_dictionary": repeating}


class PictureParquet:
    """A Parquet file that is written row group by row group."""

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        self._schema = schema
        self._file = path.open("wb", buffering=0)
        self._groups: list[Struct] = []
        self._indexes: list[tuple[Struct, bytes, bytes]] = []
        """Of each column chunk with a page index: itself, the bounds of its pages, and where they are."""
        self._at = 0
        self._put(b"PAR1")

    def write(self, group: Group, pictures: FilePieces) -> None:
        """Add a row group that shows `pictures`."""
        (row_group,) = _list(group.footer[_GROUPS])
        start = self._at
        for chunk in _list(row_group[_CHUNKS]):
            if _list(chunk[_META][1][_PATH]) == _LEAF:
                self._put_pictures(chunk, group.pages, pictures)
            else:
                self._put_encoded(group.content, chunk)
        metas = [chunk[_META][1] for chunk in _list(row_group[_CHUNKS])]
        row_group[_TOTAL_BYTES] = (I64, sum(meta[_PLAIN_SIZE][1] for meta in metas))
        row_group[_STORED_BYTES] = (I64, sum(meta[_STORED_SIZE][1] for meta in metas))
        row_group[_START] = (I64, start)
        self._groups.append(row_group)

    def _put_encoded(self, content: memoryview, chunk: Struct) -> None:
        """Copy a column chunk and read its page index, which says where it was."""
        meta = chunk[_META][1]
        first = min(meta[field][1] for field in (_DATA_AT, _DICTIONARY_AT) if field in meta)
        moved = self._at - first
        self._put(content[first : first + meta[_STORED_SIZE][1]])
        for field in (_DATA_AT, _DICTIONARY_AT):
            if field in meta:
                meta[field] = (I64, meta[field][1] + moved)
        places = Reader(content, chunk[_OFFSETS_AT][1]).struct()
        for place in _list(places[_LOCATIONS]):
            place[_PAGE_AT] = (I64, place[_PAGE_AT][1] + moved)
        bounds_at = chunk[_BOUNDS_AT][1] if _BOUNDS_AT in chunk else 0
        bounds = bytes(content[bounds_at : bounds_at + chunk[_BOUNDS_BYTES][1]]) if bounds_at else b""
        self._indexes.append((chunk, bounds, written(places)))

    def _put_pictures(self, chunk: Struct, laid_out: Pages, pictures: FilePieces) -> None:
        """Write the pages; the chunk gets their sizes in place of those of empty pictures."""
        size = int(laid_out.sizes.sum())
        meta = chunk[_META][1]
        meta[_DATA_AT] = (I64, self._at)
        meta[_PLAIN_SIZE] = meta[_STORED_SIZE] = (I64, size)
        _list(meta[_ENCODED_PAGES])[0][3] = (I32, len(laid_out.sizes))
        meta[_SIZES][1][1] = (I64, int(laid_out.picture_bytes.sum()))
        self._indexes.append((chunk, b"", offset_index(laid_out, self._at)))
        pictures.append_to(self._file.fileno(), laid_out.between, laid_out.ends)
        self._at += size

    def close(self) -> None:
        """Write the page index and the footer."""
        for chunk, bounds, _ in self._indexes:
            if bounds:
                chunk |= {_BOUNDS_AT: (I64, self._at), _BOUNDS_BYTES: (I32, len(bounds))}
                self._put(bounds)
        for chunk, _, content in self._indexes:
            chunk |= {_OFFSETS_AT: (I64, self._at), _OFFSETS_BYTES: (I32, len(content))}
            self._put(content)
        footer = encode_group(no_rows(self._schema), _NONE, _NONE).footer
        footer[_ROWS] = (I64, sum(group[_GROUP_ROWS][1] for group in self._groups))
        footer[_GROUPS] = (LIST, (STRUCT, self._groups))
        content = written(footer)
        self._put(content + len(content).to_bytes(4, "little") + b"PAR1")
        self._file.close()

    def _put(self, content: bytes | memoryview) -> None:
        put(self._file.fileno(), content)
        self._at += len(content)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        self._file.close()


def _list(field: tuple[int, Any]) -> list[Any]:
    """The elements of a field that is a list."""
    values: list[Any] = field[1][1]
    return values
