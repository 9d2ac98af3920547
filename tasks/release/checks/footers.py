"""Rows of the tables of a release by the footers of their files, before a page is read.

Pages of equal values take no room in a file and much in memory: 60 million equal rows fit in 1.4 MB.
"""

from collections import Counter
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from schemas.errors import BadInput
from schemas.release import CONFIGS, Manifest
from tasks.release.registered import table_of
from tasks.release.shards import shard_files

POINTS_A_ROW_MAX = 2
"""Most points of the map of topics for each row: a battle shows two conversations."""


def wrong_footers(folder: Path, manifest: Manifest) -> Iterator[str]:
    """Problems of tables that are no Parquet files, or have other numbers of rows and values than they can have.

    A configuration has the rows that the manifest says, the map of topics at most twice all of these. Every row of a
    release has an id, a name or a text of its own, so that no column has more values than its file has bytes.
    """
    rows = Counter[str]()
    there = {path.relative_to(folder).as_posix() for path in folder.rglob("*.parquet")}
    for name in sorted(there | {name for name in manifest.files if name.endswith(".parquet")}):
        path = folder / name
        try:
            footer = pq.read_metadata(path) if path.is_file() else None
        except (pa.ArrowException, OSError) as error:
            yield f"{name}: not a Parquet file that can be read ({type(error).__name__})"
            continue
        if footer is None:
            yield f"{name}: missing, or not a file"
            continue
        groups = [footer.row_group(number) for number in range(footer.num_row_groups)]
        values = max(
            (group.column(place).num_values for group in groups for place in range(group.num_columns)), default=0
        )
        if max(values, footer.num_rows) > path.stat().st_size:
            yield f"{name}: {footer.num_rows:,} rows with up to {values:,} values, more than the file has bytes"
        rows[table_of(name)] += footer.num_rows
    for config in CONFIGS:
        if rows[config] != manifest.counts[config]:
            yield f"{config}: {rows[config]} rows, the manifest says {manifest.counts[config]}"
    points_max = POINTS_A_ROW_MAX * sum(manifest.counts[config] for config in CONFIGS)
    if rows["topics"] > points_max:
        yield f"topics: {rows['topics']:,} points, and the rows of the release allow {points_max:,}"


def check_shards(folder: Path, manifest: Manifest) -> None:
    """Raises BadInput where a configuration has no shards, or a table cannot be read or has other rows than it says."""
    with_rows = [config for config in CONFIGS if manifest.counts[config]]
    lacking = (f"{config} cannot be read" for config in with_rows if not shard_files(folder, config))
    if problem := next(chain(lacking, wrong_footers(folder, manifest)), None):
        raise BadInput(f"{str(folder)!r}: {problem}; `curate verify` says what is wrong with it")
