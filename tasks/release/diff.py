"""Compares two releases row by row, from their folders alone."""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa

from schemas.policy import Action, Rule
from schemas.publication import Bump, ReleaseDiff, RowChange
from schemas.release import CONFIGS, ROW_KEYS, Manifest
from tasks.release.build import EarlierRelease
from tasks.release.checks.footers import check_shards
from tasks.release.core_parts import CORE_PARTS
from tasks.release.fetched import read_manifest
from tasks.release.registered import OpenRelease, PartsOf
from tasks.release.shards import shard_files
from tasks.storage.parquet import parquet_rows, read_parquet_groups, read_parquet_schema
from tasks.storage.queries.released import attempt_of_day, by_day
from tasks.storage.records import rule_text

_TOLD_APART = {"rules", "licence", "contact", "banned_users", "about", "drift"}
"""Parts of a policy that are compared separately, or that do not change what is kept."""
_BATCH_ROWS = 65_536
"""Differing rows whose reasons are looked up at once."""
_SEMANTIC = re.compile(r"\d+\.\d+\.\d+")
_FITTED_ANEW = "topics were fitted anew"
_DRAWN_ANEW = "the benchmark was drawn anew"
_SIGNALS = {
    "language": ["language"],
    "categories": ["categories", "code", "refusal", "criteria", "tokens"],
    "refused_by": ["refusal"],
    "conv_metadata": ["tokens", "markdown", "named_entities"],
}
"""Released column -> signals that it is made of."""
_MODELS = ("model", "model_a", "model_b")
_ASKED = ("turns", "images")
"""Columns of a prompt of the benchmark that models see."""
_TEXTS = ("conversation", "conversation_a", "conversation_b", "turns", "images")
_ACTIONS = {Action.DROP: "drops", Action.REDACT: "redacts", Action.TAG: "tags", Action.HOLD: "holds for a review"}
_NUMBER = re.compile(r"(.*?)(\d+)")
Why = Callable[[str, Sequence[str]], Mapping[str, list[str]]]


def diff_releases(
    old: Path,
    new: Path,
    parts: PartsOf,
    why: Why = lambda config, keys: {},
    tell: Callable[[RowChange], None] = lambda change: None,
) -> ReleaseDiff:
    """The difference between two releases. `parts` gives what products add to the later one.

    `why(config, ids)` returns the reasons on record for removed rows. `tell` is called with every row that differs,
    ordered by configuration and id. Raises BadInput when a folder is not a readable release.
    """
    before, after = read_manifest(old), read_manifest(new)
    check_shards(old, before)
    check_shards(new, after)
    cause_of_column = {column: reason for reason, columns in _causes(before, after) for column in columns}
    schema_changes, breaks, other_prompts = list[str](), list[str](), 0
    rows: Counter[str] = Counter()
    columns: dict[str, Counter[str]] = {config: Counter() for config in CONFIGS}
    reasons: dict[str, Counter[str]] = {config: Counter() for config in CONFIGS}
    for config in CONFIGS:
        if shard_files(old, config) and shard_files(new, config):
            schemas = (read_parquet_schema(shard_files(folder, config)[0]) for folder in (old, new))
            breaking, came = _columns(config, *schemas)
            schema_changes += breaking + came
            breaks += breaking
        compared = _Compared(config, shard_files(old, config), shard_files(new, config))
        if same := compared.counts["same"]:
            rows[f"{config} same"] = same
        for change in compared.changes(why, cause_of_column):
            rows[f"{config} {change.change}"] += 1
            columns[config].update(change.columns)
            reasons[config].update(change.why)
            other_prompts += config == "bench" and bool({*_ASKED} & {*change.columns})
            tell(change)
    bump, why_bump = _bump(breaks, schema_changes, rows, other_prompts, _fits_differ(before, after))
    made_of = [*CORE_PARTS, *parts(OpenRelease(new, after, None))]
    return ReleaseDiff(
        rules=[*_rules(before, after), *(line for part in made_of for line in part.changed(old, new))],
        schema_changes=schema_changes,
        rows=dict(rows),
        columns={config: dict(counts.most_common()) for config, counts in columns.items()},
        why={config: dict(counts.most_common()) for config, counts in reasons.items()},
        bump=bump,
        bump_why=why_bump,
        next_version=_next(before.version, bump, after.last_day),
    )


def _bump(
    breaks: Sequence[str], schema_changes: Sequence[str], rows: Mapping[str, int], other_prompts: int, other_fit: bool
) -> tuple[Bump, list[str]]:
    """The part of a version to raise, and what asks for it. `other_prompts`: rows of bench that ask something else."""

    def counted(config: str) -> list[str]:
        of_config = ((change, rows.get(f"{config} {change}", 0)) for change in ("added", "removed"))
        return [f"{count:,} {change}" for change, count in of_config if count]

    prompts = counted("bench") + ([f"{other_prompts:,} reworded"] if other_prompts else [])
    major = [*breaks, *([f"another benchmark: {', '.join(prompts)}"] if prompts else [])]
    if major:
        return Bump.MAJOR, major
    minor = [f"{config}: {', '.join(changes)}" for config in CONFIGS if (changes := counted(config))]
    minor += [*schema_changes, *([_FITTED_ANEW] if other_fit else [])]
    if minor:
        return Bump.MINOR, minor
    changed = [f"{config}: {count:,} changed" for config in CONFIGS if (count := rows.get(f"{config} changed", 0))]
    return (Bump.PATCH, changed) if changed else (Bump.NONE, [])


def _next(version: str, bump: Bump, last_day: str) -> str | None:
    """A version after `version`: a name gets its last number raised.

    A day becomes the later release's last day, YYYY-MM-DD, spelled as it, or gets its next attempt (`-attempt2`, …).
    """
    if bump == Bump.NONE:
        return None
    if named := by_day(version):
        latest = last_day.replace("-", named.sign)
        return latest if latest > named.day else attempt_of_day(named.day, named.attempt + 1)
    if not _SEMANTIC.fullmatch(version):
        numbered = _NUMBER.fullmatch(version)
        return f"{numbered[1]}{int(numbered[2]) + 1:0{len(numbered[2])}}" if numbered else f"{version}-2"
    raised = list(Bump).index(bump)  # major, minor, patch, as in a version
    numbers = [int(number) for number in version.split(".")]
    return ".".join(str(n + (place == raised) if place <= raised else 0) for place, n in enumerate(numbers))


def _columns(config: str, old: pa.Schema, new: pa.Schema) -> tuple[list[str], list[str]]:
    """Differences of columns in words: those that break readers, and columns that came."""
    before, after = ({field.name: field.type for field in schema} for schema in (old, new))
    both = [name for name in before if name in after and before[name] != after[name]]
    breaking = [f"{config}.{name}: left" for name in before if name not in after]
    breaking += [f"{config}.{name}: {before[name]} became {after[name]}" for name in both]
    return breaking, [f"{config}.{name}: came" for name in after if name not in before]


class _Compared:
    """The rows of shards of both releases by id, as 64-bit hashes of every value. Images are compared by content id.

    Shards that are one file in both, as a release that was made after another shares them, are not read. Memory: 8
    bytes for each value of both releases while they are compared, then those rows that differ.
    """

    def __init__(self, config: str, old: Sequence[Path], new: Sequence[Path]) -> None:
        self._config = config
        files_of_sides = [
            {(stat.st_dev, stat.st_ino): path for path in paths for stat in [path.stat()]} for paths in (old, new)
        ]
        shared = files_of_sides[0].keys() & files_of_sides[1].keys()
        sides = [[path for place, path in files.items() if place not in shared] for files in files_of_sides]
        names = [[{*read_parquet_schema(path).names} for path in paths[:1]] for paths in sides]
        of_sides = [*names[0], *names[1]]
        both = sorted(set.intersection(*of_sides) - {ROW_KEYS[config]}) if of_sides else ["images"]
        self._columns = both
        key = ROW_KEYS[config]
        old_digests, new_digests = (pl.concat(_digests(paths, config, both)) for paths in sides)
        # A row is one of either release: its id and the numbers of its rows in the two, null where it is not there.
        old_rows, new_rows = (
            old_digests.select(key).with_row_index("old"),
            new_digests.select(key).with_row_index("new"),
        )
        rows = old_rows.join(new_rows, on=key, how="full", coalesce=True)
        is_other = [
            old_digests[name].gather(rows["old"]).ne_missing(new_digests[name].gather(rows["new"])) for name in both
        ]
        # What became of a row; one that neither release lacks and no column tells apart is the same.
        change = (
            pl.when(pl.col("new").is_null())
            .then(pl.lit("removed"))
            .when(pl.col("old").is_null())
            .then(pl.lit("added"))
            .when(pl.any_horizontal(is_other))
            .then(pl.lit("changed"))
            .otherwise(pl.lit("same"))
        )
        compared = rows.select(key, change.alias("change"), *is_other)
        self._differing = compared.filter(pl.col("change") != "same").sort(key, nulls_last=True)
        """A row is one that differs: its id, its `change`, and for each column whether its value is another one."""
        self.counts = Counter[str](dict(compared["change"].value_counts().iter_rows()))
        """added, removed, changed or same -> rows."""
        self.counts["same"] += sum(parquet_rows(files_of_sides[0][place]) for place in shared)

    def changes(self, why: Why, cause_of_column: Mapping[str, str]) -> Iterator[RowChange]:
        """Every row that differs, ordered by id."""
        for rows in self._differing.iter_slices(_BATCH_ROWS):
            removed = rows.filter(change="removed")[ROW_KEYS[self._config]].to_list()
            reasons = why(self._config, removed) if removed else {}
            for key, change, *is_other in rows.iter_rows():
                names, causes = [], reasons.get(key, [])
                if change == "changed":
                    names = [name for name, other in zip(self._columns, is_other, strict=True) if other]
                    causes = list(dict.fromkeys(cause_of_column[name] for name in names if name in cause_of_column))
                yield RowChange(config=self._config, id=key, change=change, columns=names, why=causes)


def _digests(shards: Sequence[Path], config: str, columns: Sequence[str]) -> Iterator[pl.DataFrame]:
    """Frames of the id of each row, and for each of `columns` a hash (UInt64) of its value."""
    key, paths = ROW_KEYS[config], pl.col("images").list.eval(pl.element().struct.field("path"))
    read = [key, *("images.list.element.path" if name == "images" else name for name in columns)]
    # A row is the hash of one value as JSON, so that lists and structs compare like numbers and texts.
    digests = [pl.struct(name).struct.json_encode().hash().alias(name) for name in columns]
    yield pl.DataFrame(schema={key: pl.String, **dict.fromkeys(columns, pl.UInt64)})
    for shard in shards:
        for group in read_parquet_groups(shard, read):
            yield group.with_columns(paths).select(key, *digests)


def since_earlier(earlier: EarlierRelease, sealed: Manifest, folder: Path) -> list[str]:
    """Lines about what a release that is sealed in `folder` has anew since an earlier one.

    Only shards that one of both has alone are read.
    """
    before, after = earlier.manifest.files, sealed.files
    old, new = {*before.values()}, {*after.values()}
    lines = [_FITTED_ANEW] if _fits_differ(earlier.manifest, sealed) else []
    earlier_shards = earlier.shards(path for path, file in before.items() if file not in new)
    for config in CONFIGS:
        there = [file for path, file in earlier_shards.items() if path.startswith(f"{config}/data/")]
        here = [folder / path for path, file in after.items() if path.startswith(f"{config}/data/") and file not in old]
        counts = _Compared(config, there, here).counts
        changes = [f"{counts[change]:,} {change}" for change in ("added", "removed", "changed") if counts[change]]
        lines += [f"{config} {', '.join(changes)}"] if changes else []
    fresh = [file.bytes for file in after.values() if file not in old]
    return [
        f"since {earlier.manifest.version}: {'; '.join(lines) or 'no row is new'}",
        f"{len(fresh):,} of {len(after):,} files are new, {sum(fresh) / 1e6:,.1f} of "
        f"{sum(file.bytes for file in after.values()) / 1e6:,.1f} MB",
    ]


def _rules(old: Manifest, new: Manifest) -> Iterator[str]:
    """Differences in policy, settings, signal versions and providers, in words."""
    if _fits_differ(old, new):
        yield f"{_FITTED_ANEW}: rows of both releases may be in another topic, and the benchmark has other prompts"
    before, after = ({json.dumps(rule, sort_keys=True) for rule in manifest.policy["rules"]} for manifest in (old, new))
    for sign, rules in (("no longer", before - after), ("now", after - before)):
        changed_rules = (Rule.model_validate_json(rule) for rule in sorted(rules))
        yield from (
            f"policy {sign} {_ACTIONS[rule.action]}: {rule.reason}: {rule_text(rule)}" for rule in changed_rules
        )
    for name in ("licence", "contact"):
        yield from _values(name, old.policy.get(name), new.policy.get(name))
    for name in sorted((old.policy.keys() | new.policy.keys()) - _TOLD_APART):
        yield from _values(f"policy.{name}", old.policy.get(name), new.policy.get(name))
    for name in (
        "first_day",
        "last_day",
        "banned_users",
        "software",
        "signal_versions",
        "prompts",
        "providers",
        "settings",
        "judge",
    ):
        yield from _values(name, getattr(old, name), getattr(new, name))


def _values(name: str, old: Any, new: Any) -> Iterator[str]:
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted(old.keys() | new.keys()):
            yield from _values(f"{name}.{key}", old.get(key), new.get(key))
    elif old != new:
        yield f"{name}: {old} became {new}"


def _fits_differ(old: Manifest, new: Manifest) -> bool:
    """Whether the topics are of different fits; false when a release does not name its fit."""
    return None not in (old.topics_fit, new.topics_fit) and old.topics_fit != new.topics_fit


def _causes(old: Manifest, new: Manifest) -> Iterator[tuple[str, tuple[str, ...]]]:
    """(cause of changed values according to the two manifests, columns that it affects)."""
    for column, signals in _SIGNALS.items():
        anew = [name for name in signals if old.signal_versions.get(name) != new.signal_versions.get(name)]
        if anew:
            yield f"{' and '.join(anew)} measured by another version", (column,)
    if old.policy.get("renames") != new.policy.get("renames"):
        yield "the policy renames other models", _MODELS
    redact = [[rule for rule in manifest.policy["rules"] if rule.get("action") == "redact"] for manifest in (old, new)]
    if redact[0] != redact[1]:
        yield "the policy redacts something else", _TEXTS
    if _fits_differ(old, new):
        yield _FITTED_ANEW, ("topic", "topic_id")
        yield f"{_FITTED_ANEW}, so {_DRAWN_ANEW}", ("in_bench",)
    elif old.settings.get("bench") != new.settings.get("bench"):
        yield _DRAWN_ANEW, ("in_bench",)
