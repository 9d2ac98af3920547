"""Contents of a release: every table by its name and path, and the parts that write, check, compare and show files.

A new released file is one entry of `RELEASED_TABLES` and one `ReleasePart`: of every release in `core_parts`, or of a
product, which `flows/products.py` lists. Nothing else names it.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import polars as pl
import pyarrow as pa

from schemas.benches.certificate import VoteCheck
from schemas.benches.judge_release import ITEM_BOARDS, JUDGE_FILES
from schemas.policy import Policy
from schemas.rating import Fragility, Rating
from schemas.release import (
    CONFIGS,
    Manifest,
    MapPoint,
    ReleasedColumn,
    ReleasedGenerated,
    ReleasedItem,
    ReleasedKnown,
    ReleasedThinking,
)
from schemas.row import Row, arrow_schema
from tasks.runtime.untrusted import csv_cell, read_yaml
from tasks.storage.parquet import conform, parquet_writer, read_parquet_groups
from tasks.storage.queries.conversation_features import PROMPT_KINDS
from tasks.storage.queries.signals import Versions
from tasks.storage.tables import Store

JUDGE_FOLDER = "leaderboard/judge"
VOTE_CHECKS = "leaderboard/integrity/vote_checks"
FRAGILITY = "leaderboard/integrity/fragility"
_TEXTS = ("answers", "verdicts")
_ELEMENT = re.compile(r"\blist<\w+:")


class ReleasedTable(NamedTuple):
    """A table of a release."""

    stem: str
    """Path of its file without suffix; a regular expression where there are several files."""
    row: type[Row]
    csv_digits: int | None = None
    """Digits after the point in the CSV file for people that is beside it; None where there is no such file."""
    since_layout: int = 0
    """Releases of an earlier layout (`Manifest.layout`) lack it."""
    later: Mapping[str, int] = MappingProxyType({})
    """Column that came later, or field of one as `column.field` -> layout from which releases have it."""


_KINDS_SINCE = {f"categories.{kind}": 12 if kind == "instruction_following" else 9 for kind in PROMPT_KINDS}
_LATER = dict.fromkeys(CONFIGS, _KINDS_SINCE) | {"battle": {"refused_by": 9} | _KINDS_SINCE}
BOARD_PATHS = {name: f"leaderboard/{name.replace('_', '/')}" for name in ITEM_BOARDS}
"""Table of a store with a board of written or generated items -> its name and path in a release."""
RELEASED_TABLES = {
    **{
        config: ReleasedTable(rf"{config}/data/train-\d{{5}}-of-\d{{5}}", row, later=_LATER[config])
        for config, row in CONFIGS.items()
    },
    "leaderboard": ReleasedTable("leaderboard/[a-z_]+", Rating, csv_digits=2),
    FRAGILITY: ReleasedTable(FRAGILITY, Fragility, since_layout=7),
    VOTE_CHECKS: ReleasedTable(VOTE_CHECKS, VoteCheck, csv_digits=2, since_layout=7),
    "topics": ReleasedTable("topics/map", MapPoint),
    **{
        f"{JUDGE_FOLDER}/{name}": ReleasedTable(f"{JUDGE_FOLDER}/{name}", row, None if name in _TEXTS else 4)
        for name, row in JUDGE_FILES.items()
    },
    "written": ReleasedTable("written/items", ReleasedItem),
    "generated": ReleasedTable("generated/items", ReleasedGenerated),
    **{
        path: ReleasedTable(path, ITEM_BOARDS[name], csv_digits=4, since_layout=7) for name, path in BOARD_PATHS.items()
    },
    "thinking": ReleasedTable("thinking/answers", ReleasedThinking, since_layout=8),
    "known_benchmarks": ReleasedTable("known_benchmarks/rows", ReleasedKnown, since_layout=11),
}
"""Name of a table in the manifest -> its files and columns, of every release and of every product.

Products' parts are written and stand on the card in this order: boards after the items that they are about.
"""
RUNNERS: dict[str, str] = read_yaml(Path(__file__).with_name("runners.yaml"))
"""Path in a release -> content of a file with which another runner asks the benchmark."""


def later_columns(table: str, layout: int) -> set[str]:
    """Columns of a table, and fields of one as `column.field`, that releases of this layout lack."""
    return {path for path, since in RELEASED_TABLES[table].later.items() if since > layout}


def without_later(table: str, schema: pa.Schema, layout: int) -> pa.Schema:
    """The columns of a table that releases of this layout have, with what is said of each."""
    missing = later_columns(table, layout)
    fields = list[pa.Field]()
    for field in schema:
        if field.name in missing:
            continue
        if pa.types.is_struct(field.type):
            kept = [inner for inner in field.type if f"{field.name}.{inner.name}" not in missing]
            field = field.with_type(pa.struct(kept))
        fields.append(field)
    return pa.schema(fields)


def path_in_release(table: str) -> str:
    """Path of the Parquet file of a table that has one file."""
    return f"{RELEASED_TABLES[table].stem}.parquet"


def table_of(path: str) -> str:
    """Name of the table whose file has this path: the path without suffix, or its first folder."""
    stem = path.removesuffix(".parquet")
    return stem if stem in RELEASED_TABLES else path.partition("/")[0]


def table_paths() -> Iterator[str]:
    """Regular expressions of the paths of all tables, and of the CSV files beside them."""
    for table in RELEASED_TABLES.values():
        yield table.stem + (r"\.parquet" if table.csv_digits is None else r"\.(?:parquet|csv)")


def released_columns(schema: pa.Schema) -> list[ReleasedColumn]:
    """Names and types of columns. List elements are called `element`, whether Arrow or Parquet named them."""
    return [ReleasedColumn(name=field.name, type=_ELEMENT.sub("list<element:", str(field.type))) for field in schema]


class Unsealed(NamedTuple):
    """A release that is being built: what its parts are written from."""

    store: Store
    folder: Path
    """The staging folder; shards are in it."""
    counts: Mapping[str, int]
    """The manifest's."""
    versions: Versions
    policy: Policy
    """The policy that made the decisions."""
    policy_hash: str
    settings: Mapping[str, Any]
    """The manifest's."""


class Stated(NamedTuple):
    """Entries of the manifest about some files."""

    judge: dict[str, str] = {}
    """Judge, version, protocol, baseline and draw of the judge's board; empty without one."""
    stand_ins: Sequence[str] = ()
    """Embedded stand-ins that made what is in them."""


@dataclass(frozen=True, eq=False)
class OpenRelease:
    """A release on disk that is checked; equal to no other, so that what is computed of it may be kept beside it."""

    folder: Path
    manifest: Manifest
    store: Store | None
    """The store that contains it, if any."""


class CardSection(NamedTuple):
    """A section of the card that is there only for some releases."""

    title: str
    """The heading, with `## `."""
    about: str
    """Words for it in a problem."""
    files: str
    """Path of what it is about."""
    text: Callable[[Path, int], str]
    """(folder, prompts of `bench`) -> Markdown with an empty line at its end; empty without the files."""
    since_layout: int = 0
    """Releases of an earlier layout (`Manifest.layout`) may lack it."""


class StatedFile(NamedTuple):
    """A file that says what the manifest says, in the format of another tool."""

    path: str
    text: Callable[[Manifest], str]
    """The whole file, from the manifest alone."""
    since_layout: int
    """Releases of an earlier layout (`Manifest.layout`) lack it; raised with the layout when the text changes."""


class ShownSection(NamedTuple):
    """A section of the page of a benchmark prompt."""

    title: str
    facts: Sequence[tuple[str, str]] = ()
    """(name, value) pairs."""
    texts: Sequence[tuple[str, str, str]] = ()
    """(label, who wrote it or what became of it, text)."""
    beside: bool = False
    """Whether the texts stand side by side."""


class ShownBoard(NamedTuple):
    """A board of written or generated items for card and explorer."""

    title: str
    about: str
    """One or two sentences: what it rests on."""
    rows: pl.DataFrame
    """Texts, and numbers that are counts."""


BoardOf = Callable[[str], pl.DataFrame]
"""Name of a store's table -> its rows, of a store or of a release; none without the table."""
RowsOf = Callable[[str], list[dict[str, Any]]]
"""Name of a table -> its rows about one prompt, or all rows of a table that names no prompts; none without the file."""


def _nothing(*_: object) -> Iterator[Any]:
    yield from ()


@dataclass(frozen=True)
class ReleasePart:
    """Some files of a release: how they are written, checked, compared and shown."""

    tables: tuple[str, ...] = ()
    """Names in `RELEASED_TABLES`."""
    write: Callable[[Unsealed], Stated] = lambda _: Stated()
    """Writes the files, where the store has something for them."""
    wrong: Callable[[OpenRelease], Iterator[str]] = _nothing
    """Problems, one line each, in files whose columns are the declared ones."""
    changed: Callable[[Path, Path], Iterator[str]] = _nothing
    """(folder of the earlier release, of the later one) -> differences in words."""
    section: CardSection | None = None
    stated: Sequence[StatedFile] = ()
    """Files that are written once the manifest has all but their own checksums, and compared byte for byte."""
    shown: Callable[[RowsOf], Iterator[ShownSection]] = _nothing
    """Sections of the explorer's page about one prompt of `bench`."""
    boards: Callable[[BoardOf], Iterator[ShownBoard]] = _nothing
    """Boards for the explorer's page of leaderboards, and for the card."""


PartsOf = Callable[[OpenRelease], Sequence[ReleasePart]]
"""A release -> the parts that products add to it (`flows/products.py`)."""


def stated_files(parts: Sequence[ReleasePart]) -> Iterator[StatedFile]:
    """The files that say what the manifest says."""
    for part in parts:
        yield from part.stated


def wrong_stated(release: OpenRelease, parts: Sequence[ReleasePart]) -> Iterator[str]:
    """A problem for each file that does not say, byte for byte, what this version makes of the manifest."""
    for file in stated_files(parts):
        path, too_old = release.folder / file.path, release.manifest.layout < file.since_layout
        if too_old and path.is_file():
            yield f"{file.path}: no release of layout {release.manifest.layout} has it"
        elif not too_old and not path.is_file():
            yield f"{file.path}: missing"
        elif not too_old and path.read_bytes() != file.text(release.manifest).encode():
            yield f"{file.path}: not what the manifest says"


def write_table(folder: Path, table: str, rows: pl.DataFrame, stem: str | None = None) -> None:
    """Write the Parquet file of a table, and the CSV file if it has one; `stem`: one of several files."""
    named = RELEASED_TABLES[table]
    target, schema = folder / f"{stem or named.stem}.parquet", arrow_schema(named.row)
    target.parent.mkdir(parents=True, exist_ok=True)
    with parquet_writer(target, schema) as file:
        file.write(conform(rows, schema))
    if named.csv_digits is not None:
        target.with_suffix(".csv").write_text(board_csv(rows, named.csv_digits), encoding="utf-8")


def board_csv(board: pl.DataFrame, digits: int = 2) -> str:
    """A board for people, with this many digits after the point."""
    safe = pl.selectors.string().map_elements(csv_cell, return_dtype=pl.String)
    lists = pl.selectors.by_dtype(pl.List(pl.String)).list.join(" ").map_elements(csv_cell, return_dtype=pl.String)
    return board.with_columns(safe, lists).write_csv(float_precision=digits)


def read_released(folder: Path, table: str) -> pl.DataFrame | None:
    """The rows of a table that has one file; None when the release lacks it."""
    path = folder / path_in_release(table)
    return pl.concat(read_parquet_groups(path)) if path.is_file() else None


def is_benchmark_alone(folder: Path) -> bool:
    """Whether a release has prompts of `bench` and no shard of another configuration: written or generated items alone.

    Releases of before layout 10 have shards without rows, so they are none of these.
    """
    return {config for config in CONFIGS if any((folder / config / "data").glob("train-*.parquet"))} == {"bench"}


def changed_items(old: Path, new: Path, table: str, about: Iterable[str]) -> Iterator[str]:
    """One sentence when rows of both releases about the same prompts differ; nothing when a release has none.

    `about`: words for the rows and for what may differ.
    """
    before, after = read_released(old, table), read_released(new, table)
    if before is None or after is None:
        return
    both = after.join(before, on="question_id", how="semi")
    same = both.join(before, on=before.columns, how="semi", nulls_equal=True).height
    if both.height > same:
        rows, values = about
        yield f"{rows}: {both.height - same:,} of both releases differ in {values}"
