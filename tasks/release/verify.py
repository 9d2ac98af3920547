"""Checks a release from its own files: checksums, columns, counts, pictures without metadata, no leaks."""

import io
import json
import re
from collections.abc import Iterator
from pathlib import Path

import PIL.Image
import polars as pl
from pydantic import ValidationError

from schemas.errors import BadInput
from schemas.release import CONFIGS, Manifest
from tasks.release.build import MANIFEST, released_files
from tasks.release.shards import shard_schema
from tasks.tables import read_parquet_groups, read_parquet_schema

_USER = re.compile(r"[0-9a-f]{24}")
_IMAGE_PATH = re.compile(r"[0-9a-f]{32}\.(?:png|jpeg)")
_HARMLESS_INFO = {"jfif", "jfif_version", "jfif_unit", "jfif_density", "dpi", "adobe", "adobe_transform"}
_HARMLESS_INFO |= {"progressive", "progression", "transparency", "interlace"}


def verify_release(folder: Path) -> list[str]:
    """Everything that is wrong, in plain words; empty when the release is as it was made."""
    manifest = _manifest(folder)
    problems = list(_files(folder, manifest))
    if problems:
        return problems  # what the shards hold means nothing when they are not the ones that were sealed
    for config in CONFIGS:
        problems += _config(folder, config, manifest)
    return problems + list(_bench_leaks(folder))


def _manifest(folder: Path) -> Manifest:
    path = folder / MANIFEST
    try:
        return Manifest.model_validate(json.loads(path.read_text(encoding="utf-8")))
    except OSError:
        raise BadInput(f"{str(folder)!r} is not a release: it has no {MANIFEST}") from None
    except (ValueError, ValidationError) as error:
        raise BadInput(f"{str(path)!r} is not a manifest this version understands ({type(error).__name__})") from None


def _files(folder: Path, manifest: Manifest) -> Iterator[str]:
    present = released_files(folder)
    for name in sorted(present.keys() | manifest.files.keys()):
        if name not in present:
            yield f"{name}: missing"
        elif name not in manifest.files:
            yield f"{name}: not in the manifest"
        elif present[name] != manifest.files[name]:
            yield f"{name}: changed since the release was sealed"


def _config(folder: Path, config: str, manifest: Manifest) -> list[str]:
    problems, rows = [], 0
    for shard in _shards(folder, config):
        if read_parquet_schema(shard).names != shard_schema(config).names:
            problems.append(f"{config}/{shard.name}: columns differ from the declared ones")
            continue
        for group in read_parquet_groups(shard):
            rows += group.height
            problems += [f"{config}/{shard.name}: {problem}" for problem in _contents(group)]
    if rows != manifest.counts[config]:
        problems.append(f"{config}: {rows} rows, the manifest says {manifest.counts[config]}")
    return problems


def _shards(folder: Path, config: str) -> list[Path]:
    return sorted((folder / config / "data").glob("train-*.parquet"))


def _contents(group: pl.DataFrame) -> Iterator[str]:
    """Identifiers that are not keyed hashes, and pictures that carry more than pixels."""
    for column in {"user_id", "judge"} & set(group.columns):
        if any(not _USER.fullmatch(value) for value in group[column].drop_nulls()):
            yield f"{column} holds something that is not a keyed hash"
    for images in group["images"].to_list():
        for image in images:
            if not _IMAGE_PATH.fullmatch(image["path"]):
                yield f"an image path is not a content id: {image['path']!r}"
            yield from _picture(image["path"], image["bytes"])


def _picture(name: str, content: bytes) -> Iterator[str]:
    try:
        with PIL.Image.open(io.BytesIO(content)) as header:
            if header.getexif() or set(header.info) - _HARMLESS_INFO:
                yield f"{name} carries metadata: {', '.join(sorted(map(str, header.info)))}"
    except Exception as error:  # any decoder error means the same here
        yield f"{name} does not open as a picture ({type(error).__name__})"


def _bench_leaks(folder: Path) -> Iterator[str]:
    bench = {key for shard in _shards(folder, "bench") for key in _prompts(shard, "turns")}
    for shard in _shards(folder, "chat"):
        for key in bench & set(_prompts(shard, "conversation")):
            yield f"chat/{shard.name}: a benchmark prompt is in chat, on picture {key[1]}"


def _prompts(shard: Path, column: str) -> Iterator[tuple[str, str]]:
    """(user messages, picture) of every row."""
    for group in read_parquet_groups(shard, [column, "images"]):
        for turns, images in group.select(column, "images").iter_rows():
            text = "\n\n".join(turn["content"] for turn in turns if turn["role"] == "user")
            yield from ((text, image["path"].partition(".")[0]) for image in images)
