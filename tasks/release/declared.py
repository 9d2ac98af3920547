"""Checks the Parquet files of a release: declared columns, readable pages, and no data beside the rows."""

from collections.abc import Iterator
from importlib.metadata import version as installed_version
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from schemas.errors import BadInput
from schemas.release import CONFIGS, Manifest, ReleasedColumn
from schemas.row import arrow_schema
from tasks.release.fetched import maker
from tasks.release.identifiers import identifiers_in
from tasks.release.registered import RELEASED_TABLES, released_columns, table_of
from tasks.release.shards import LAYOUT, METADATA_KEY, feature_schema, features_of, shard_files, shard_schema
from tasks.storage.parquet import read_parquet_schema

READ_ERRORS = (pa.ArrowException, OSError, ValueError, pl.exceptions.PolarsError)
"""Errors that readers raise for broken pages."""
_METADATA = {b"ARROW:schema", METADATA_KEY}
_MAGIC_BYTES, _FOOTER_BYTES = 4, 8


def declared_columns(layout: int = LAYOUT) -> dict[str, list[ReleasedColumn]]:
    """The columns that this version writes, by name of the table; of those that a release of this layout has."""
    return {
        name: released_columns(shard_schema(name) if name in CONFIGS else arrow_schema(table.row))
        for name, table in RELEASED_TABLES.items()
        if table.since_layout <= layout
    }


def check_shards(folder: Path) -> None:
    """Raises BadInput when a configuration has no shards, or one that cannot be read."""
    for config in CONFIGS:
        try:
            found = [read_parquet_schema(shard) for shard in shard_files(folder, config)]
        except (pa.ArrowException, OSError):
            found = []
        if not found:
            raise BadInput(f"{str(folder)!r}: {config} cannot be read; `curate verify` says what is wrong with it")


def unlike_declared(folder: Path, manifest: Manifest) -> Iterator[str]:
    """Problems of files that are not Parquet, have other columns, or lack the metadata that `datasets` needs.

    Raises BadInput when the manifest declares other columns than this version writes in a release of its layout.
    """
    own = declared_columns(manifest.layout)
    if manifest.columns != own:
        raise BadInput(
            f"{str(folder)!r} cannot be verified by arena-curation {installed_version('arena-curation')}: it declares "
            f"other columns ({', '.join(_differing(manifest, own))}); verify it with the version that made it, "
            f"{maker(manifest.software)}"
        )
    for name in sorted(name for name in manifest.files if name.endswith(".parquet")):
        table = table_of(name)
        try:
            found = read_parquet_schema(folder / name)
        except (pa.ArrowException, OSError) as error:
            yield f"{name}: not a Parquet file that can be read ({type(error).__name__})"
            continue
        if released_columns(found) != own.get(table):
            yield f"{name}: columns or their types differ from the declared ones"
        elif table in CONFIGS and not _has_features(found):
            yield f"{name}: its metadata does not tell `datasets` what the columns are"


def _differing(manifest: Manifest, own: dict[str, list[ReleasedColumn]]) -> list[str]:
    declared = manifest.columns
    sets = {table: ({c.name for c in declared.get(table, [])}, {c.name for c in own[table]}) for table in own}
    return [
        f"{table}: {', '.join(sorted(a ^ b)) or 'types'}" if table in declared else table
        for table, (a, b) in sets.items()
        if declared.get(table) != own[table]
    ]


def _has_features(schema: pa.Schema) -> bool:
    expected = feature_schema(features_of(schema)).metadata[METADATA_KEY]
    return bool((schema.metadata or {}).get(METADATA_KEY) == expected)


def sound_groups(path: Path) -> Iterator[pl.DataFrame]:
    """A file one row group at a time. Raises one of `READ_ERRORS` for broken pages and texts that are not UTF-8."""
    file = pq.ParquetFile(path)
    for group in range(file.num_row_groups):
        table = file.read_row_group(group)
        table.validate(full=True)  # polars does not check that texts are UTF-8
        yield pl.DataFrame(table)


def beside_rows(path: Path) -> Iterator[str]:
    """Problems outside of the rows: unknown metadata, identifiers in metadata and statistics, unaccounted bytes."""
    described, schema = pq.read_metadata(path), pq.read_schema(path)
    strange = ({*(described.metadata or {})} | {*(schema.metadata or {})}) - _METADATA
    if strange:
        yield f"its metadata has keys that no release has: {', '.join(sorted(repr(key) for key in strange))}"
    comments = schema.remove_metadata().to_string(truncate_metadata=False).splitlines()
    groups = [described.row_group(number) for number in range(described.num_row_groups)]
    columns = [group.column(number) for group in groups for number in range(described.num_columns)]
    texts = [described.created_by or "", *comments, *_extremes(columns)]
    if found := identifiers_in(pl.Series(texts, dtype=pl.String)):
        yield f"its metadata holds an identifier: {', '.join(sorted(set().union(*found.values())))}"
    known = sum(column.total_compressed_size for column in columns) + described.serialized_size
    if path.stat().st_size != _MAGIC_BYTES + known + _FOOTER_BYTES:
        yield "it has bytes that belong to no column"


def _extremes(columns: list[pq.ColumnChunkMetaData]) -> Iterator[str]:
    """Minimum and maximum texts in the column statistics, except of messages."""
    for column in columns:
        known = None if column.path_in_schema.endswith("content") else column.statistics
        if known is not None and known.has_min_max:
            yield from (value for value in (known.min, known.max) if isinstance(value, str))
