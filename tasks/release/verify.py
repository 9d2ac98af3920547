"""Checks a release from its own files: checksums, columns, counts, no metadata, no identifiers, no leaks, the card."""

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from pydantic import ValidationError

from schemas.errors import BadInput
from schemas.policy import Action, Over, Policy
from schemas.rating import Rating
from schemas.release import CONFIGS, Manifest
from schemas.row import arrow_schema
from schemas.run import Funnel
from tasks.parquet import read_parquet_groups, read_parquet_schema
from tasks.progress import Advance, progress
from tasks.providers.embedded.pii_patterns import PATTERNS
from tasks.release.build import MANIFEST, WITHDRAWN
from tasks.release.card_numbers import wrong_numbers, wrong_sentences
from tasks.release.contents import KEYS, wrong_rows
from tasks.release.fetched import store_of
from tasks.release.identifiers import identifiers_in_files
from tasks.release.layout import wrong_files
from tasks.release.leaks import bench_leaks, hidden_leaks
from tasks.release.shards import shard_schema, shards
from tasks.tables import Store

_FEATURES = b"huggingface"
"""Key of a shard's metadata from which `datasets` knows the pictures."""


def verify_release(folder: Path, store: Store | None = None) -> list[str]:
    """Everything that is wrong, in plain words; empty when the release is as it was made.

    `store` is the one whose hidden split must not be there; by default the one that the folder lies in, if it does.
    """
    manifest = read_manifest(folder)
    of_store = store or store_of(str(folder))
    problems = [*hidden_leaks(folder, None), *wrong_files(folder, manifest)] or list(_unreadable(folder, manifest))
    if problems:
        return problems  # what the shards hold means nothing when they are not the ones that were sealed
    with progress("rows to verify", sum(manifest.counts[config] for config in CONFIGS)) as advance:
        for config in CONFIGS:
            problems += _config(folder, config, manifest, advance)
    problems += _funnel(manifest)
    problems += identifiers_in_files(folder, manifest)
    if not problems:
        problems = [*bench_leaks(folder), *hidden_leaks(folder, of_store)]
    return problems or [*wrong_numbers(folder, manifest), *wrong_sentences(folder, manifest)]


def read_manifest(folder: Path) -> Manifest:
    """The manifest of a release. Raises BadInput when the folder is none."""
    path = folder / MANIFEST
    if (folder / WITHDRAWN).exists():
        raise BadInput(f"{str(folder)!r} was withdrawn: a takedown removed its data; only the manifest stays")
    try:
        manifest = Manifest.model_validate(json.loads(path.read_text(encoding="utf-8")))
        Policy.model_validate(manifest.policy)
        Funnel.model_validate(manifest.funnel)
        counted = {*CONFIGS, "withheld_for_bench"} <= manifest.counts.keys()
    except OSError:
        raise BadInput(f"{str(folder)!r} is not a release: it has no {MANIFEST}") from None
    except (ValueError, ValidationError) as error:
        raise BadInput(f"{str(path)!r} is not a manifest this version understands ({type(error).__name__})") from None
    if not counted:
        raise BadInput(f"{str(path)!r} is not a manifest this version understands (counts)")
    return manifest


def _unreadable(folder: Path, manifest: Manifest) -> Iterator[str]:
    """Tables that are none, or not of the declared columns; a shard must say what `datasets` needs to know as well."""
    for name in sorted(manifest.files):
        if not name.endswith(".parquet"):
            continue
        of_shard = shard_schema(name.partition("/")[0]) if "/data/" in name else None
        try:
            found = read_parquet_schema(folder / name)
        except (pa.ArrowException, OSError) as error:
            yield f"{name}: not a Parquet file that can be read ({type(error).__name__})"
            continue
        if not found.equals(of_shard or arrow_schema(Rating)):
            yield f"{name}: columns or their types differ from the declared ones"
        elif of_shard and (found.metadata or {}).get(_FEATURES) != (of_shard.metadata or {})[_FEATURES]:
            yield f"{name}: its metadata does not tell `datasets` what the columns are"


def _forbidden(manifest: Manifest) -> frozenset[str]:
    """Types of personal data that the release's own policy drops or redacts in messages."""
    found: set[str] = set()
    for rule in Policy.model_validate(manifest.policy).rules:
        stops = rule.action in (Action.DROP, Action.REDACT)
        if stops and (rule.signal, rule.over) == ("text_pii.types", Over.MESSAGES):
            found |= set(rule.contains_any or (pattern.type for pattern in PATTERNS))
    return frozenset(found)


def _config(folder: Path, config: str, manifest: Manifest, advance: Advance) -> list[str]:
    problems: list[str] = []
    keys: Counter[str] = Counter()
    forbidden = _forbidden(manifest)
    for shard in shards(folder, config):
        for group in read_parquet_groups(shard):
            keys.update(group[KEYS[config]])
            advance(group.height)
            problems += [f"{config}/{shard.name}: {problem}" for problem in wrong_rows(config, group, forbidden)]
    rows = keys.total()
    if rows != manifest.counts[config]:
        problems.append(f"{config}: {rows} rows, the manifest says {manifest.counts[config]}")
    elif len(keys) != rows:
        (twice, _), *_ = keys.most_common(1)
        problems.append(f"{config}: {KEYS[config]} {twice!r} is there more than once")
    return problems


def _funnel(manifest: Manifest) -> Iterator[str]:
    gone = Funnel.model_validate(manifest.funnel)
    sums = (gone.dropped, sum(gone.dropped_by.values())), (gone.rejected, sum(gone.rejected_by.values()))
    if gone.lines != gone.kept + gone.dropped + gone.rejected or any(total != parts for total, parts in sums):
        yield f"{MANIFEST}: the fates of the log lines do not add up to {gone.lines}"
