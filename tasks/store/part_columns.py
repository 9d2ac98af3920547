"""Columns of a part: leaves of them, those that an older version lacks, how many rows fit, what a frame must have."""

from collections.abc import Iterable, Sequence

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from tasks.parquet import no_rows


def columns_of(names: Iterable[str]) -> list[str]:
    """The columns of columns or leaves, such as `turns` of `turns.list.element.text_id`."""
    return [name.partition(".")[0] for name in names]


def rows_in(size: int, part: pq.FileMetaData, names: Sequence[str]) -> int:
    """How many rows of these columns or leaves are about `size` bytes; one at least."""
    groups = [part.row_group(number) for number in range(part.num_row_groups)]
    chunks = [group.column(number) for group in groups for number in range(part.num_columns)]
    paths = [(chunk, chunk.path_in_schema) for chunk in chunks]
    wanted = (chunk for chunk, path in paths if path in names or path.partition(".")[0] in names)
    weight = int(sum(chunk.total_uncompressed_size for chunk in wanted))
    return max(1, size * int(part.num_rows) // max(1, weight))


def with_nulls(rows: pa.Table, declared: pa.Schema, names: Sequence[str]) -> pa.Table:
    """A part from before a column was added: null there. Such facts are of another version."""
    missing = pa.schema([declared.field(name) for name in names if name not in rows.schema.names])
    return pa.concat_tables([no_rows(missing), rows], promote_options="default").select(names)


def conform(frame: pl.DataFrame, schema: pa.Schema) -> pa.Table:
    """`frame` with exactly the columns and types of `schema`. Raises when a column is missing or does not fit."""
    return frame.select(schema.names).to_arrow().cast(schema)
