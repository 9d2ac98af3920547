"""What changed from one release to another, row by row, from the two folders alone."""

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa

from schemas.errors import BadInput
from schemas.release import CONFIGS, KEYS, Manifest
from schemas.release_diff import Bump, ReleaseDiff, RowChange
from tasks.parquet import read_parquet_groups, read_parquet_schema
from tasks.release.shards import shards
from tasks.release.verify import read_manifest

_TOLD_APART = {"rules", "licence", "contact", "banned_users", "about", "drift"}
"""Parts of a policy that are compared in their own way, or decide nothing."""
Digests = dict[str, bytes]
"""Column -> digest of its value in one row."""


def diff_releases(old: Path, new: Path, why: Callable[[str, str], list[str]] = lambda config, key: []) -> ReleaseDiff:
    """The difference; `why(config, id)` gives the reasons on record for a row that left.

    Raises BadInput when a folder is not a release that can be read.
    """
    before, after = read_manifest(old), read_manifest(new)
    for folder in (old, new):
        _check_shards(folder)
    schema_changes, breaks = [], False
    changes: list[RowChange] = []
    counts: Counter[str] = Counter()
    for config in CONFIGS:
        words, broken = _columns(config, _schema(old, config), _schema(new, config))
        schema_changes += words
        breaks |= broken
        for key, change, columns in _rows(dict(_digests(old, config)), dict(_digests(new, config))):
            counts[f"{config} {change}"] += 1
            if change != "same":
                reasons = why(config, key) if change == "removed" else []
                changes.append(RowChange(config=config, id=key, change=change, columns=columns, why=reasons))
    kinds = {change.change for change in changes}
    return ReleaseDiff(
        rules=list(_rules(before, after)),
        schema_changes=schema_changes,
        rows=dict(counts),
        changes=changes,
        bump=_bump(breaks, bool(schema_changes) or bool(kinds & {"added", "removed"}), "changed" in kinds),
    )


def _check_shards(folder: Path) -> None:
    """Raises BadInput when a configuration has no shards, or one that cannot be read."""
    for config in CONFIGS:
        try:
            found = [read_parquet_schema(shard) for shard in shards(folder, config)]
        except (pa.ArrowException, OSError):
            found = []
        if not found:
            raise BadInput(f"{str(folder)!r}: {config} cannot be read; `curate verify` says what is wrong with it")


def _bump(breaks: bool, population: bool, values: bool) -> Bump:
    if breaks:
        return Bump.MAJOR
    if population:
        return Bump.MINOR
    return Bump.PATCH if values else Bump.NONE


def _schema(folder: Path, config: str) -> pa.Schema:
    return read_parquet_schema(shards(folder, config)[0])


def _columns(config: str, old: pa.Schema, new: pa.Schema) -> tuple[list[str], bool]:
    """Differences in words, and whether one of them breaks readers."""
    left = [f"{config}.{name}: left" for name in old.names if name not in new.names]
    other = [
        f"{config}.{name}: {old.field(name).type} became {new.field(name).type}"
        for name in old.names
        if name in new.names and old.field(name).type != new.field(name).type
    ]
    came = [f"{config}.{name}: came" for name in new.names if name not in old.names]
    return left + other + came, bool(left or other)


def _digests(folder: Path, config: str) -> Iterator[tuple[str, Digests]]:
    """(id, digests) of every row. A picture counts by its content id, not by its encoding."""
    for shard in shards(folder, config):
        for group in read_parquet_groups(shard):
            named = group.with_columns(pl.col("images").list.eval(pl.element().struct.field("path")))
            for row in named.iter_rows(named=True):
                yield str(row[KEYS[config]]), {name: _digest(value) for name, value in row.items()}


def _digest(value: Any) -> bytes:
    return hashlib.blake2b(json.dumps(value, ensure_ascii=False).encode(), digest_size=8).digest()


def _rows(old: Mapping[str, Digests], new: Mapping[str, Digests]) -> Iterator[tuple[str, str, list[str]]]:
    """(id, change, columns that differ), ordered by id."""
    for key in sorted(old.keys() | new.keys()):
        if key not in new:
            yield key, "removed", []
        elif key not in old:
            yield key, "added", []
        else:
            shared = [name for name in old[key] if name in new[key]]
            columns = [name for name in shared if old[key][name] != new[key][name]]
            yield key, "changed" if columns else "same", columns


def _rules(old: Manifest, new: Manifest) -> Iterator[str]:
    """Everything of the recipe that differs, in words."""
    before, after = ({json.dumps(rule, sort_keys=True) for rule in each.policy["rules"]} for each in (old, new))
    for sign, rules in (("no longer", before - after), ("now", after - before)):
        yield from (f"policy {sign}: {rule}" for rule in sorted(rules))
    for name in ("licence", "contact"):
        yield from _values(name, old.policy.get(name), new.policy.get(name))
    for name in sorted((old.policy.keys() | new.policy.keys()) - _TOLD_APART):
        yield from _values(f"policy.{name}", old.policy.get(name), new.policy.get(name))
    for name in ("first_day", "last_day", "banned_users", "software", "signal_versions", "providers", "settings"):
        yield from _values(name, getattr(old, name), getattr(new, name))


def _values(name: str, old: Any, new: Any) -> Iterator[str]:
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted(old.keys() | new.keys()):
            yield from _values(f"{name}.{key}", old.get(key), new.get(key))
    elif old != new:
        yield f"{name}: {old} became {new}"
