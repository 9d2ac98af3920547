"""What the Parquet files of a release hold: rows that can be read, and nothing beside them."""

from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from tasks.release.identifiers import identifiers_in
from tasks.release.thrift import Reader

READ_ERRORS = (pa.ArrowException, OSError, ValueError, pl.exceptions.PolarsError)
"""What readers raise at pages that cannot be."""
_METADATA = {b"ARROW:schema", b"huggingface"}
_MAGIC_BYTES, _FOOTER_BYTES = 4, 8


def sound_groups(path: Path) -> Iterator[pl.DataFrame]:
    """A file row group by row group, as `read_parquet_groups`; raises one of `READ_ERRORS` at what is no text."""
    file = pq.ParquetFile(path)
    for group in range(file.num_row_groups):
        table = file.read_row_group(group)
        table.validate(full=True)  # polars believes that texts are UTF-8
        yield pl.DataFrame(table)


def beside_rows(path: Path) -> Iterator[str]:
    """Metadata that no release has, identifiers in metadata and statistics, bytes that belong to nothing."""
    described, schema = pq.read_metadata(path), pq.read_schema(path)
    strange = ({*(described.metadata or {})} | {*(schema.metadata or {})}) - _METADATA
    if strange:
        yield f"its metadata has keys that no release has: {', '.join(sorted(repr(key) for key in strange))}"
    comments = schema.remove_metadata().to_string(truncate_metadata=False).splitlines()
    found = identifiers_in(pl.Series([described.created_by or "", *comments, *_extremes(described)], dtype=pl.String))
    if found:
        yield f"its metadata holds an identifier: {', '.join(sorted(set().union(*found.values())))}"
    if path.stat().st_size != _known_bytes(path, described):
        yield "it has bytes that belong to no column"


def _extremes(described: pq.FileMetaData) -> Iterator[str]:
    """Least and greatest texts of columns that are no messages, as their statistics say."""
    for group in range(described.num_row_groups):
        for number in range(described.num_columns):
            column = described.row_group(group).column(number)
            known = None if column.path_in_schema.endswith("content") else column.statistics
            if known is not None and known.has_min_max:
                yield from (value for value in (known.min, known.max) if isinstance(value, str))


def _known_bytes(path: Path, described: pq.FileMetaData) -> int:
    """Bytes of all columns, of their page index, and of the footer."""
    with path.open("rb") as file:
        file.seek(-described.serialized_size - _FOOTER_BYTES, 2)
        groups = Reader(file.read(described.serialized_size)).struct()[4][1][1]
    chunks = [chunk for group in groups for chunk in group[1][1][1]]
    pages = sum(chunk[3][1][7][1] for chunk in chunks)
    index = sum(chunk[length][1] for chunk in chunks for length in (5, 7) if length in chunk)
    return int(_MAGIC_BYTES + pages + index + described.serialized_size + _FOOTER_BYTES)
