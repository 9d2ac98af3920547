"""A release -> a folder with the columns of a published dataset, for loaders that were written for it."""

import shutil
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

import pyarrow as pa

from schemas.errors import BadInput
from schemas.export import Compat
from schemas.release import CONFIGS
from tasks.export.compat_card import write_cards
from tasks.export.destination import put_folder
from tasks.export.vision_arena import FEATURES, ROWS
from tasks.parquet import ParquetFile, read_parquet_groups
from tasks.release.declared import check_shards
from tasks.release.fetched import fetched
from tasks.release.shards import feature_schema, shards
from tasks.release.verify import read_manifest
from tasks.tables import Store


def export_vision_arena(release: Path, out: Path) -> dict[str, int]:
    """Write `out`/{chat,battle,bench}/data with the release's shards and row groups. Returns rows by configuration.

    Rows without a picture are left out: the loaders of the published datasets take `images[0]`. The folder appears
    whole or not at all. Raises BadInput when it exists or the release cannot be read.
    """
    manifest = read_manifest(release)
    check_shards(release)
    if out.exists():
        raise BadInput(f"{str(out)!r} exists already; give a folder that does not")
    staging = out.with_name(f".{out.name}.unfinished")
    shutil.rmtree(staging, ignore_errors=True)
    rows = {config: _config(release, staging, config) for config in CONFIGS}
    left_out = {config: manifest.counts[config] - count for config, count in rows.items()}
    write_cards(release, staging, manifest.version, left_out)
    staging.rename(out)
    return rows


def _config(release: Path, folder: Path, config: str) -> int:
    schema, rows = feature_schema(FEATURES[config]), 0
    (folder / config / "data").mkdir(parents=True)
    for shard in shards(release, config):
        with ParquetFile(folder / config / "data" / shard.name, schema) as file:
            for group in read_parquet_groups(shard):
                shown = [ROWS[config](row) for row in group.iter_rows(named=True) if row["images"]]
                file.write(pa.Table.from_pylist(shown, schema))
                rows += len(shown)
    return rows


EXPORTS: Mapping[Compat, Callable[[Path, Path], dict[str, int]]] = {Compat.VISIONARENA: export_vision_arena}
"""Published dataset -> what writes a release with its columns."""


def export_beside(store: Store, release: str, compat: Compat) -> str:
    """Write a release of a store, such as releases/1.0.0, with a published dataset's columns into the same store.

    Returns the folder: exports/1.0.0-visionarena. One that exists is left alone, as releases never change.
    """
    target = compat.folder(release.rpartition("/")[2])
    if store.fs.exists(store.at(f"{target}/README.md")):
        return target
    with fetched(f"{store.root.rstrip('/')}/{release}") as folder, tempfile.TemporaryDirectory() as scratch:
        out = Path(scratch) / "export"
        EXPORTS[compat](folder, out)
        put_folder(out, store.fs, store.at(target))
    return target
