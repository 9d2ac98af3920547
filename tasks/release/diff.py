"""What changed from one release to another, row by row, from the two folders alone."""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa

from schemas.release import CONFIGS, KEYS, Manifest
from schemas.release_diff import Bump, ReleaseDiff, RowChange
from tasks.parquet import read_parquet_groups, read_parquet_schema
from tasks.release.causes import causes, fitted_anew
from tasks.release.declared import check_shards
from tasks.release.shards import shards
from tasks.release.verify import read_manifest
from tasks.store.spooled_frames import SpooledFrames, compact

_TOLD_APART = {"rules", "licence", "contact", "banned_users", "about", "drift"}
"""Parts of a policy that are compared in their own way, or decide nothing."""
_SHARE_ROWS = 131_072
"""Rows of both releases that are compared at once, about."""
_SAMPLED = 64
"""One id of so many is held, to divide all ids in shares."""
_SEMANTIC = re.compile(r"\d+\.\d+\.\d+")
Why = Callable[[str, str], list[str]]


def diff_releases(
    old: Path,
    new: Path,
    why: Why = lambda config, key: [],
    tell: Callable[[RowChange], None] = lambda change: None,
) -> ReleaseDiff:
    """The difference; `why(config, id)` gives the reasons on record for a row that left.

    `tell` is told of every row that is not the same, by configuration and id. Memory holds one id in 64 of a
    configuration and a share of its rows' digests; the others wait in a temporary file. Raises BadInput when a folder
    is not a release that can be read.
    """
    before, after = read_manifest(old), read_manifest(new)
    for folder in (old, new):
        check_shards(folder)
    known = causes(before, after)
    schema_changes, breaks = [], False
    rows: Counter[str] = Counter()
    columns: dict[str, Counter[str]] = {config: Counter() for config in CONFIGS}
    reasons: dict[str, Counter[str]] = {config: Counter() for config in CONFIGS}
    for config in CONFIGS:
        words, broken = _columns(config, _schema(old, config), _schema(new, config))
        schema_changes += words
        breaks |= broken
        for change, count in _rows(config, old, new, why, known):
            rows[f"{config} {change.change if change else 'same'}"] += count
            if change:
                columns[config].update(change.columns)
                reasons[config].update(change.why)
                tell(change)
    kinds = {name.partition(" ")[2] for name in rows}
    bump = _bump(breaks, bool(schema_changes) or bool(kinds & {"added", "removed"}), "changed" in kinds)
    return ReleaseDiff(
        rules=[*fitted_anew(before, after), *_rules(before, after)],
        schema_changes=schema_changes,
        rows=dict(rows),
        columns={config: dict(counts.most_common()) for config, counts in columns.items()},
        why={config: dict(counts.most_common()) for config, counts in reasons.items()},
        bump=bump,
        next_version=_next(before.version, bump),
    )


def _bump(breaks: bool, population: bool, values: bool) -> Bump:
    if breaks:
        return Bump.MAJOR
    if population:
        return Bump.MINOR
    return Bump.PATCH if values else Bump.NONE


def _next(version: str, bump: Bump) -> str | None:
    if bump == Bump.NONE or not _SEMANTIC.fullmatch(version):
        return None
    raised = list(Bump).index(bump)  # major, minor, patch, as in a version
    numbers = [int(number) for number in version.split(".")]
    return ".".join(str(n + (place == raised) if place <= raised else 0) for place, n in enumerate(numbers))


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


def _rows(
    config: str, old: Path, new: Path, why: Why, known: Mapping[str, str]
) -> Iterator[tuple[RowChange | None, int]]:
    """Every row that is not the same, by id, and once None with the number of those that are."""
    ids = pl.concat([_some_ids(folder, config) for folder in (old, new)]).sort()
    starts = ids.gather_every(max(1, _SHARE_ROWS // _SAMPLED))[1:]
    shares = [_digests(folder, config, starts) for folder in (old, new)]
    same = 0
    for share in range(len(starts) + 1):
        before, after = (digests.read(share) for digests in shares)
        shared = [name for name in before.columns if name in after.columns and name != KEYS[config]]
        both = before.join(after, on=KEYS[config], how="inner", suffix=_NEW)
        differ = both.select(KEYS[config], *(pl.col(name) != pl.col(f"{name}{_NEW}") for name in shared))
        changed = differ.filter(pl.any_horizontal(shared))
        same += both.height - changed.height
        found = []
        for row in changed.iter_rows(named=True):
            key, names = row.pop(KEYS[config]), [name for name in row if row[name]]
            told = list(dict.fromkeys(known[name] for name in names if name in known))
            found.append(RowChange(config=config, id=key, change="changed", columns=names, why=told))
        for change, some, others in (("removed", before, after), ("added", after, before)):
            for key in some.join(others, on=KEYS[config], how="anti")[KEYS[config]]:
                told = why(config, key) if change == "removed" else []
                found.append(RowChange(config=config, id=key, change=change, columns=[], why=told))
        yield from ((change, 1) for change in sorted(found, key=lambda change: change.id))
    if same:
        yield None, same


_NEW = " of the later release"


def _some_ids(folder: Path, config: str) -> pl.Series:
    """One in `_SAMPLED`, by a hash."""
    key = KEYS[config]
    chosen = pl.col(key).hash(seed=0) % _SAMPLED == 0
    groups = (group for shard in shards(folder, config) for group in read_parquet_groups(shard, [key]))
    return pl.concat([pl.Series(key, [], pl.String), *(compact(group.filter(chosen))[key] for group in groups)])


def _digests(folder: Path, config: str, starts: pl.Series) -> SpooledFrames:
    """64-bit digests of every value but the id, by share of the ids. A picture counts by its content id."""
    key, schema = KEYS[config], _schema(folder, config)
    others = [name for name in schema.names if name != key]
    found = SpooledFrames(pl.DataFrame(schema={key: pl.String, **dict.fromkeys(others, pl.UInt64)}))
    for shard in shards(folder, config):
        for group in read_parquet_groups(shard):
            named = group.with_columns(pl.col("images").list.eval(pl.element().struct.field("path")))
            digests = named.select(key, *(pl.struct(name).struct.json_encode().hash().alias(name) for name in others))
            share = starts.search_sorted(digests[key], side="right")
            found.add_parts(digests.with_columns(share.cast(pl.Int64).alias("share")), "share")
    return found


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
