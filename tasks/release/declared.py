"""The columns that a release declares, those of the software that made it, and whether its files have them."""

import re
from collections.abc import Iterator
from importlib.metadata import version as installed_version
from pathlib import Path

import pyarrow as pa
from datasets import Features, Image, List

from schemas.errors import BadInput
from schemas.rating import Rating
from schemas.release import CONFIGS, Manifest, ReleasedColumn
from schemas.row import arrow_schema
from tasks.parquet import read_parquet_schema
from tasks.release.feature_words import KEY, known_words
from tasks.release.shards import shard_schema, shards

_LEADERBOARD = "leaderboard"
_ELEMENT = re.compile(r"\blist<\w+:")
_CHECKED = {
    "chat": {"images", "conversation_id", "model", "num_turns", "conversation", "language", "user_id"},
    "battle": {
        "question_id", "model_a", "model_b", "winner", "judge", "conversation_a", "conversation_b", "num_turns",
        "language", "images", "conv_metadata", "in_bench",
    },
    "bench": {"question_id", "turns", "images"},
    _LEADERBOARD: {"slice", "model"},
}  # fmt: skip
"""Columns without which `curate verify` cannot check what it promises; releases may lack others, which came later."""


def declared_columns() -> dict[str, list[ReleasedColumn]]:
    """The columns of this version: of every configuration, and of `leaderboard`."""
    return {name: _columns(schema) for name, schema in _own_schemas().items()}


def _own_schemas() -> dict[str, pa.Schema]:
    return {config: shard_schema(config) for config in CONFIGS} | {_LEADERBOARD: arrow_schema(Rating)}


def _columns(schema: pa.Schema) -> list[ReleasedColumn]:
    """Arrow calls the elements of a list one thing and Parquet another."""
    return [ReleasedColumn(name=field.name, type=_ELEMENT.sub("list<element:", str(field.type))) for field in schema]


def check_shards(folder: Path) -> None:
    """Raises BadInput when a configuration has no shards, or one that cannot be read."""
    for config in CONFIGS:
        try:
            found = [read_parquet_schema(shard) for shard in shards(folder, config)]
        except (pa.ArrowException, OSError):
            found = []
        if not found:
            raise BadInput(f"{str(folder)!r}: {config} cannot be read; `curate verify` says what is wrong with it")


def unlike_declared(folder: Path, manifest: Manifest) -> Iterator[str]:
    """Tables that are none, or not of the declared columns; a shard must say what `datasets` needs to know as well.

    Raises BadInput where the declared columns are not those of this version or an earlier one.
    """
    declared, own = manifest.columns or declared_columns(), _own_schemas()
    for name in sorted(name for name in manifest.files if name.endswith(".parquet")):
        table = name.partition("/")[0]
        try:
            found = read_parquet_schema(folder / name)
        except (pa.ArrowException, OSError) as error:
            yield f"{name}: not a Parquet file that can be read ({type(error).__name__})"
            continue
        if _columns(found) != declared.get(table):
            yield f"{name}: columns or their types differ from the declared ones"
            continue
        _check_known(folder, manifest, table, found, own[table])
        if table != _LEADERBOARD and (found.metadata or {}).get(KEY) not in _words(found):
            yield f"{name}: its metadata does not tell `datasets` what the columns are"


def _check_known(folder: Path, manifest: Manifest, table: str, found: pa.Schema, own: pa.Schema) -> None:
    """Raises BadInput when a release of another version has columns that cannot be checked here."""
    strange = [field.name for field in found if not _is_part(pa.struct([field]), pa.struct(list(own)))]
    missing = sorted(_CHECKED[table] - set(found.names))
    if strange or missing:
        why = f"has {', '.join(strange)}, unknown here" if strange else f"lacks {', '.join(missing)}"
        raise BadInput(
            f"{str(folder)!r} cannot be verified by arena-curation {installed_version('arena-curation')}: its {table} "
            f"{why}; verify it with the version that made it, {manifest.software}"
        )


def _is_part(found: pa.DataType, own: pa.DataType) -> bool:
    """Whether a type is ours, or ours without some fields of its structs."""
    if pa.types.is_struct(found) and pa.types.is_struct(own):
        names = {field.name for field in own}
        return all(field.name in names and _is_part(field.type, own.field(field.name).type) for field in found)
    if pa.types.is_list(found) and pa.types.is_list(own):
        return _is_part(found.value_type, own.value_type)
    return bool(found == own)


def _words(schema: pa.Schema) -> set[bytes]:
    described = Features.from_arrow_schema(schema.remove_metadata())
    described["images"] = List(Image())
    return known_words(described)
