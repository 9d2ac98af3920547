"""Where the values of a Parquet column lie in the file, when they are stored as they are."""

import os
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow.parquet as pq

from tasks.release.file_pieces import pread
from tasks.release.thrift import Numbers, Reader
from tasks.running.compiled import compiled

_DATA_PAGE, _PLAIN = 0, 0
_HEADER_BYTES_MAX = 512
"""A page header without statistics is some 20 bytes."""


class _NotPlain(Exception):
    """Some values are not stored as they are."""


def plain_values(path: str, column: str) -> tuple[Numbers, Numbers] | None:
    """Offsets and lengths in bytes of all values of a flat binary column; None where some are not stored plainly.

    That is where there are nulls, a dictionary, compression, long statistics, or pages of version 2. Lengths are
    read one by one: to map a file costs a page fault for each large value, which takes five times as long.
    """
    with pq.ParquetFile(path) as file, open(path, "rb", buffering=0) as opened:
        place, described = file.schema_arrow.names.index(column), file.metadata
        optional = bool(file.schema.column(place).max_definition_level)
        chunks = [described.row_group(group).column(place) for group in range(described.num_row_groups)]
        try:
            found = [offsets for chunk in chunks for offsets in _offsets(opened.fileno(), chunk, optional)]
        except _NotPlain:
            return None
    places = np.concatenate([np.zeros((2, 0), np.int64), *found], axis=1)
    return places[0], places[1]


def _offsets(file: int, chunk: pq.ColumnChunkMetaData, optional: bool) -> Iterator[Numbers]:
    """Offsets and lengths of the values of each page of a column chunk, two rows."""
    if chunk.compression != "UNCOMPRESSED" or chunk.has_dictionary_page:
        raise _NotPlain
    at, end = chunk.data_page_offset, chunk.data_page_offset + chunk.total_compressed_size
    while at < end:
        start, at, count = _page(file, at)
        if optional:
            start += 4 + _length(file, start)  # definition levels
        places = np.empty((2, count), np.int64)
        if _walked(file, start, at, places, np.empty(1, np.uint32)) != at:
            raise _NotPlain  # there are fewer values than rows: some are null
        yield places


@compiled
def _walked(file: int, start: int, end: int, places: Numbers, length: npt.NDArray[np.uint32]) -> int:
    """Where the last of the values ends that follow each other from `start` on, each after its length."""
    for value in range(places.shape[1]):
        if start + 4 > end or pread(file, length.ctypes.data, 4, start) != 4:
            return -1
        places[0, value], places[1, value] = start + 4, length[0]
        start += 4 + int(length[0])
    return start


def _page(file: int, at: int) -> tuple[int, int, int]:
    """Where the content of the page at `at` begins and ends, and how many values it holds or leaves out."""
    page = Reader(os.pread(file, _HEADER_BYTES_MAX, at))
    try:
        header = page.struct()
    except IndexError:
        raise _NotPlain from None
    if header[1][1] != _DATA_PAGE or header[5][1][2][1] != _PLAIN:
        raise _NotPlain
    start = at + page.at
    return start, start + header[3][1], header[5][1][1][1]


def _length(file: int, at: int) -> int:
    return int.from_bytes(os.pread(file, 4, at), "little")
