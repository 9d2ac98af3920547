"""Checks a release from its own files: checksums, columns, counts, no metadata, no identifiers, no leaks, the card."""

import io
import json
import re
from collections.abc import Iterator
from pathlib import Path

import PIL.Image
import polars as pl
from pydantic import ValidationError

from schemas.errors import BadInput
from schemas.policy import Action, Over, Policy
from schemas.release import CONFIGS, Manifest
from tasks.picture_metadata import strip_metadata
from tasks.providers.embedded.pii_patterns import PATTERNS, find_patterns
from tasks.providers.embedded.text_pii import without_overlaps
from tasks.release.build import MANIFEST, WITHDRAWN, released_files
from tasks.release.card_numbers import wrong_numbers
from tasks.release.fetched import store_of
from tasks.release.leaks import bench_leaks, hidden_leaks
from tasks.release.shards import shard_schema, shards
from tasks.tables import Store, read_parquet_groups, read_parquet_schema

_MESSAGES = {"conversation", "conversation_a", "conversation_b", "turns"}
_USER = re.compile(r"[0-9a-f]{24}")
_IMAGE_PATH = re.compile(r"[0-9a-f]{32}\.(?:png|jpeg)")


def verify_release(folder: Path, store: Store | None = None) -> list[str]:
    """Everything that is wrong, in plain words; empty when the release is as it was made.

    `store` is the one whose hidden split must not be there; by default the one that the folder lies in, if it does.
    """
    manifest = read_manifest(folder)
    problems = list(_files(folder, manifest))
    if problems:
        return problems  # what the shards hold means nothing when they are not the ones that were sealed
    for config in CONFIGS:
        problems += _config(folder, config, manifest)
    problems += [*bench_leaks(folder), *hidden_leaks(folder, store or store_of(str(folder)))]
    return problems or list(wrong_numbers(folder, manifest))  # of rows that are wrong, no card is right


def read_manifest(folder: Path) -> Manifest:
    """The manifest of a release. Raises BadInput when the folder is none."""
    path = folder / MANIFEST
    if (folder / WITHDRAWN).exists():
        raise BadInput(f"{str(folder)!r} was withdrawn: a takedown removed its data; only the manifest stays")
    try:
        manifest = Manifest.model_validate(json.loads(path.read_text(encoding="utf-8")))
        Policy.model_validate(manifest.policy)
        return manifest
    except OSError:
        raise BadInput(f"{str(folder)!r} is not a release: it has no {MANIFEST}") from None
    except (ValueError, ValidationError) as error:
        raise BadInput(f"{str(path)!r} is not a manifest this version understands ({type(error).__name__})") from None


def _forbidden(manifest: Manifest) -> frozenset[str]:
    """Types of personal data that the release's own policy drops or redacts in messages."""
    found: set[str] = set()
    for rule in Policy.model_validate(manifest.policy).rules:
        stops = rule.action in (Action.DROP, Action.REDACT)
        if stops and (rule.signal, rule.over) == ("text_pii.types", Over.MESSAGES):
            found |= set(rule.contains_any or (pattern.type for pattern in PATTERNS))
    return frozenset(found)


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
    forbidden = _forbidden(manifest)
    for shard in shards(folder, config):
        if not read_parquet_schema(shard).equals(shard_schema(config)):
            problems.append(f"{config}/{shard.name}: columns or their types differ from the declared ones")
            continue
        for group in read_parquet_groups(shard):
            rows += group.height
            problems += [f"{config}/{shard.name}: {problem}" for problem in _contents(group, forbidden)]
    if rows != manifest.counts[config]:
        problems.append(f"{config}: {rows} rows, the manifest says {manifest.counts[config]}")
    return problems


def _contents(group: pl.DataFrame, forbidden: frozenset[str]) -> Iterator[str]:
    """Identifiers that are not keyed hashes, personal data in messages, pictures that carry more than pixels."""
    for column in {"user_id", "judge"} & set(group.columns):
        if any(not _USER.fullmatch(value) for value in group[column].drop_nulls()):
            yield f"{column} holds something that is not a keyed hash"
    for column in sorted(_MESSAGES & set(group.columns)):
        for turn in group[column].explode().drop_nulls():
            found = {span.type for span in without_overlaps(find_patterns(turn["content"]))} & forbidden
            if found:
                yield f"a message in {column} holds personal data: {', '.join(sorted(found))}"
    for images in group["images"].to_list():
        for image in images:
            if not _IMAGE_PATH.fullmatch(image["path"]):
                yield f"an image path is not a content id: {image['path']!r}"
            yield from _picture(image["path"], image["bytes"])


def _picture(name: str, content: bytes) -> Iterator[str]:
    """EXIF, GPS, XMP, profiles, comments, thumbnails, bytes after the end: all that stripping would take away."""
    try:
        with PIL.Image.open(io.BytesIO(content)) as header:
            file_format = header.format
    except Exception as error:  # any decoder error means the same here
        yield f"{name} does not open as a picture ({type(error).__name__})"
        return
    if content != strip_metadata(content, file_format or ""):
        yield f"{name} carries more than its pixels"
