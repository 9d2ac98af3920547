"""Where the values of a Parquet column lie in the file, when they are stored as they are."""

import mmap

import numpy as np
import numpy.typing as npt
import pyarrow.parquet as pq

from tasks.release.thrift import Reader

_DATA_PAGE, _PLAIN = 0, 0
Numbers = npt.NDArray[np.int64]


def plain_values(path: str, column: str) -> tuple[Numbers, Numbers] | None:
    """Offsets and lengths in bytes of all values of a flat binary column; None where some are not stored plainly.

    That is where there are nulls, a dictionary, compression, or pages of version 2.
    """
    offsets: list[int] = []
    lengths: list[int] = []
    with pq.ParquetFile(path) as file, open(path, "rb") as opened:
        place, described = file.schema_arrow.names.index(column), file.metadata
        optional = file.schema.column(place).max_definition_level
        if described.num_rows == 0:
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        with mmap.mmap(opened.fileno(), 0, prot=mmap.PROT_READ) as mapped, memoryview(mapped) as content:
            for group in range(described.num_row_groups):
                chunk = described.row_group(group).column(place)
                if chunk.compression != "UNCOMPRESSED" or chunk.has_dictionary_page:
                    return None
                at, end = chunk.data_page_offset, chunk.data_page_offset + chunk.total_compressed_size
                while at < end:
                    page = Reader(content, at)
                    header = page.struct()
                    if header[1][1] != _DATA_PAGE or header[5][1][2][1] != _PLAIN:
                        return None
                    at = page.at + header[3][1]
                    start = page.at + (4 + int.from_bytes(content[page.at : page.at + 4], "little")) * bool(optional)
                    if not _walk(content, start, at, header[5][1][1][1], offsets, lengths):
                        return None
    return np.array(offsets, np.int64), np.array(lengths, np.int64)


def _walk(content: memoryview, start: int, end: int, count: int, offsets: list[int], lengths: list[int]) -> bool:
    """Add the values of a page; False when they are not as many as it says, because some are null."""
    for _ in range(count):
        if start + 4 > end:
            return False
        length = int.from_bytes(content[start : start + 4], "little")
        offsets.append(start + 4)
        lengths.append(length)
        start += 4 + length
    return start == end
