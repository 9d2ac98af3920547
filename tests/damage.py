"""Parquet files in which the values of chosen columns are damaged, so that reading them raises."""

import io
from collections.abc import Iterable

import pyarrow.parquet as pq

from tasks.storage.parquet import chunks_of


def damaged_columns(content: bytes, names: Iterable[str], groups: Iterable[int] | None = None) -> bytes:
    """The file with every byte of these columns changed, in all row groups or in some; its footer is as it was."""
    damaged, footer = bytearray(content), pq.read_metadata(io.BytesIO(content))
    for number in range(footer.num_row_groups) if groups is None else groups:
        for chunk in chunks_of(footer.row_group(number), list(names)):
            start = min(chunk.dictionary_page_offset or chunk.data_page_offset, chunk.data_page_offset)
            place = slice(start, start + chunk.total_compressed_size)
            damaged[place] = bytes(255 - byte for byte in damaged[place])
    return bytes(damaged)
