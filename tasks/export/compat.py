"""Exports a release with the columns of a published dataset, for code that loads that dataset."""

import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import yaml
from datasets import Features

from schemas.errors import BadInput
from schemas.publication import Compat
from schemas.release import ReleasedCategories
from tasks.export.card import write_compat_cards
from tasks.export.destination import put_folder
from tasks.export.published_ids import judge_name, user_number
from tasks.release.checks.footers import check_shards
from tasks.release.fetched import fetched, read_manifest
from tasks.release.shards import feature_schema, shard_files
from tasks.signals.rules.texts import markdown
from tasks.storage.parquet import parquet_writer, read_parquet_groups
from tasks.storage.queries.conversation_features import PROMPT_KINDS
from tasks.storage.tables import Store

ReleasedRow = Mapping[str, Any]
_LEVELS = [f"h{level}" for level in range(1, 7)]
_CATEGORIES = {
    name: {"_type": "Value", "dtype": "bool"} for name in ReleasedCategories.model_fields if name not in PROMPT_KINDS
}
_COLUMNS = yaml.safe_load(Path(__file__).with_name("vision_arena.yaml").read_text(encoding="utf-8"))
PUBLISHED_FEATURES: dict[str, Features] = {
    config: Features.from_dict(columns | ({"categories": _CATEGORIES} if "categories" in columns else {}))
    for config, columns in _COLUMNS.items()
}
"""Configuration -> the published columns."""


def published_row(config: str, row: ReleasedRow) -> dict[str, Any]:
    """A released row with the published columns."""
    images = [{"bytes": image["bytes"], "path": f"{Path(image['path']).stem}.png"} for image in row["images"]]
    same_columns = {name: row[name] for name in PUBLISHED_FEATURES[config] if name in row} | {"images": images}
    if config == "chat":
        messages = [[message] for message in row["conversation"]]
        return same_columns | {"conversation": messages, "user_id": user_number(row["user_id"])}
    if config == "bench":
        return same_columns | {"turns": [[message] for message in row["turns"]]}
    conv_metadata = row["conv_metadata"]
    sides = _side("a", row["conversation_a"], conv_metadata) | _side("b", row["conversation_b"], conv_metadata)
    metadata = sides | {"sum_user_tokens": conv_metadata["context_tokens"]}
    return same_columns | {"judge": judge_name(row["judge"]), "conv_metadata": metadata}


def _side(side: str, messages: Sequence[ReleasedRow], conv_metadata: ReleasedRow) -> dict[str, Any]:
    counts = [markdown(message["content"]) for message in messages if message["role"] == "assistant"]
    totals = {
        name: sum(getattr(message_counts, name) for message_counts in counts)
        for name in type(markdown("")).model_fields
    }
    return {
        f"bold_count_{side}": {"**": totals["bold_stars"], "__": totals["bold_underscores"]},
        f"context_{side}_tokens": conv_metadata["context_tokens"],
        f"header_count_{side}": {level: totals[level] for level in _LEVELS},
        f"list_count_{side}": {"ordered": totals["ordered"], "unordered": totals["unordered"]},
        f"sum_assistant_{side}_tokens": conv_metadata[side]["assistant_tokens"],
    }


def export_vision_arena(release: Path, out: Path) -> dict[str, int]:
    """Write `out`/{chat,battle,bench}/data with the release's shards and row groups. Returns rows by configuration.

    Left out are rows without an image, because loaders of the published datasets take `images[0]`, and battles on the
    arena's own example images, as there (VisionArena, section 3.1). The folder is renamed into place when complete.
    Raises BadInput when it exists or the release cannot be read.
    """
    manifest = read_manifest(release)
    check_shards(release, manifest)
    if out.exists():
        raise BadInput(f"{str(out)!r} exists already; give a folder that does not")
    staging = out.with_name(f".{out.name}.unfinished")
    shutil.rmtree(staging, ignore_errors=True)
    rows = {config: _config(release, staging, config) for config in PUBLISHED_FEATURES}
    left_out = {config: manifest.counts[config] - count for config, count in rows.items()}
    write_compat_cards(release, staging, manifest.version, rows, left_out)
    staging.rename(out)
    return rows


def _config(release: Path, folder: Path, config: str) -> int:
    schema, rows = feature_schema(PUBLISHED_FEATURES[config]), 0
    (folder / config / "data").mkdir(parents=True)
    for shard in shard_files(release, config):
        with parquet_writer(folder / config / "data" / shard.name, schema) as file:
            for group in read_parquet_groups(shard):
                rows_there = (row for row in group.iter_rows(named=True) if row["images"])  # as in the published one
                published_rows = [
                    published_row(config, row) for row in rows_there if config != "battle" or not row["is_preset"]
                ]
                file.write(pa.Table.from_pylist(published_rows, schema))
                rows += len(published_rows)
    return rows


EXPORTS: Mapping[Compat, Callable[[Path, Path], dict[str, int]]] = {Compat.VISIONARENA: export_vision_arena}
"""Published dataset -> function that exports a release with its columns."""


def export_beside(store: Store, release: str, compat: Compat) -> str:
    """Export a release, such as releases/1.0.0, into its store unless it is there; returns the folder in the store."""
    target = compat.folder(release.rpartition("/")[2])
    if store.fs.exists(store.at(f"{target}/README.md")):
        return target
    with fetched(f"{store.root.rstrip('/')}/{release}") as folder, tempfile.TemporaryDirectory() as scratch:
        out = Path(scratch) / "export"
        EXPORTS[compat](folder, out)
        put_folder(out, store.fs, store.at(target))
    return target
