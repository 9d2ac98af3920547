"""Checks a release from its own files: checksums, columns, counts, no metadata, no identifiers, no leaks, the card."""

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

import polars as pl
from pydantic import ValidationError

from schemas.errors import BadInput
from schemas.policy import Action, Over, Policy
from schemas.release import CONFIGS, KEYS, Manifest
from schemas.run import Funnel
from tasks.parquet import read_parquet_groups
from tasks.progress import Advance, progress
from tasks.providers.embedded.pii_patterns import PATTERNS
from tasks.release.build import MANIFEST, WITHDRAWN, seal
from tasks.release.card_numbers import wrong_numbers, wrong_sentences
from tasks.release.contents import wrong_rows
from tasks.release.declared import unlike_declared
from tasks.release.fetched import store_of
from tasks.release.identifiers import identifiers_in_files
from tasks.release.layout import wrong_files
from tasks.release.leaks import bench_leaks, hidden_leaks
from tasks.release.picture_lists import PictureLists
from tasks.release.shards import shards
from tasks.spooled_frames import compact
from tasks.tables import Store


def verify_release(folder: Path, store: Store | None = None) -> list[str]:
    """Everything that is wrong, in plain words; empty when the release is as it was made.

    `store` is the one whose hidden split must not be there; by default the one that the folder lies in, if it does.
    """
    manifest = read_manifest(folder)
    of_store = store or store_of(str(folder))
    problems = [*_unsealed(folder), *hidden_leaks(folder, None), *wrong_files(folder, manifest)]
    problems = problems or list(unlike_declared(folder, manifest))
    if problems:
        return problems  # what the shards hold means nothing when they are not the ones that were sealed
    shown = {config: PictureLists(config) for config in CONFIGS}
    with progress("rows to verify", sum(manifest.counts[config] for config in CONFIGS)) as advance:
        for config in CONFIGS:
            problems += _config(folder, config, manifest, shown[config], advance)
    problems += _funnel(manifest)
    problems += identifiers_in_files(folder, manifest)
    if not problems:
        problems = [*bench_leaks(folder), *hidden_leaks(folder, of_store)]
    if not problems:
        problems = [*_pictures(manifest, shown), *wrong_numbers(folder, manifest), *wrong_sentences(folder, manifest)]
    return problems


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
        raise BadInput(f"{_not_understood(path)} ({type(error).__name__})") from None
    if not counted:
        raise BadInput(f"{_not_understood(path)} (counts)")
    return manifest


def _not_understood(path: Path) -> str:
    """What to say of a manifest that is broken, or of another version."""
    made = ""
    with suppress(ValueError, KeyError, TypeError):
        made = f"; it says that arena-curation {json.loads(path.read_bytes())['software']} made it: use that"
    return f"{str(path)!r} is not a manifest this version understands{made}"


def _unsealed(folder: Path) -> Iterator[str]:
    manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    if manifest.get("seal", None) not in (None, seal(manifest)):
        yield f"{MANIFEST}: changed since the release was sealed"


def _forbidden(manifest: Manifest) -> frozenset[str]:
    """Types of personal data that the release's own policy drops or redacts in messages."""
    found: set[str] = set()
    for rule in Policy.model_validate(manifest.policy).rules:
        stops = rule.action in (Action.DROP, Action.REDACT)
        if stops and (rule.signal, rule.over) == ("text_pii.types", Over.MESSAGES):
            found |= set(rule.contains_any or (pattern.type for pattern in PATTERNS))
    return frozenset(found)


def _config(folder: Path, config: str, manifest: Manifest, shown: PictureLists, advance: Advance) -> list[str]:
    problems: list[str] = []
    keys = [pl.Series([], dtype=pl.String)]
    forbidden = _forbidden(manifest)
    for shard in shards(folder, config):
        for group in read_parquet_groups(shard):
            keys.append(compact(group.select(KEYS[config])).to_series())
            shown.add(group)
            advance(group.height)
            problems += [f"{config}/{shard.name}: {problem}" for problem in wrong_rows(config, group, forbidden)]
    ids = pl.concat(keys)
    rows, twice = len(ids), ids.filter(ids.is_duplicated())
    if rows != manifest.counts[config]:
        problems.append(f"{config}: {rows} rows, the manifest says {manifest.counts[config]}")
    elif len(twice):
        problems.append(f"{config}: {KEYS[config]} {twice[0]!r} is there more than once")
    return problems


def _pictures(manifest: Manifest, shown: Mapping[str, PictureLists]) -> Iterator[str]:
    for config, found in shown.items():
        if manifest.pictures and found.hexdigest() != manifest.pictures.get(config):
            yield f"{config}: its rows do not show the pictures that they showed when the release was sealed"


def _funnel(manifest: Manifest) -> Iterator[str]:
    gone = Funnel.model_validate(manifest.funnel)
    sums = (gone.dropped, sum(gone.dropped_by.values())), (gone.rejected, sum(gone.rejected_by.values()))
    if gone.lines != gone.kept + gone.dropped + gone.rejected or any(total != parts for total, parts in sums):
        yield f"{MANIFEST}: the fates of the log lines do not add up to {gone.lines}"
