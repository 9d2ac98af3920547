"""Checks the files of a release: declared columns, readable pages, no data beside the rows, no identifiers in them.

Identifiers are network addresses, e-mail addresses and machine paths in the parts that are not messages.
"""

import base64
import re
from collections.abc import Iterator
from contextlib import suppress
from importlib.metadata import version as installed_version
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from schemas.errors import BadInput
from schemas.release import CONFIGS, Manifest, ReleasedColumn
from schemas.row import arrow_schema
from tasks.providers.embedded.pii.patterns import PATTERNS, any_address
from tasks.providers.embedded.pii.readings import normalised
from tasks.release.build import MANIFEST
from tasks.release.fetched import maker
from tasks.release.registered import RELEASED_TABLES, released_columns, table_of
from tasks.release.shards import LAYOUT, METADATA_KEY, feature_schema, features_of, shard_files, shard_schema
from tasks.runtime.untrusted import markdown_text
from tasks.storage.parquet import read_parquet_schema

READ_ERRORS = (pa.ArrowException, OSError, ValueError, pl.exceptions.PolarsError)
"""Errors that readers raise for broken pages."""
_METADATA = {b"ARROW:schema", METADATA_KEY}
_MAGIC_BYTES, _FOOTER_BYTES = 4, 8


def declared_columns(layout: int = LAYOUT) -> dict[str, list[ReleasedColumn]]:
    """The columns that this version writes, by name of the table; of those that a release of this layout has."""
    return {
        name: released_columns(shard_schema(name) if name in CONFIGS else arrow_schema(table.row))
        for name, table in RELEASED_TABLES.items()
        if table.since_layout <= layout
    }


def check_shards(folder: Path) -> None:
    """Raises BadInput when a configuration has no shards, or one that cannot be read."""
    for config in CONFIGS:
        try:
            found = [read_parquet_schema(shard) for shard in shard_files(folder, config)]
        except (pa.ArrowException, OSError):
            found = []
        if not found:
            raise BadInput(f"{str(folder)!r}: {config} cannot be read; `curate verify` says what is wrong with it")


def unlike_declared(folder: Path, manifest: Manifest) -> Iterator[str]:
    """Problems of files that are not Parquet, have other columns, or lack the metadata that `datasets` needs.

    Raises BadInput when the manifest declares other columns than this version writes in a release of its layout.
    """
    own = declared_columns(manifest.layout)
    if manifest.columns != own:
        raise BadInput(
            f"{str(folder)!r} cannot be verified by arena-curation {installed_version('arena-curation')}: it declares "
            f"other columns ({', '.join(_differing(manifest, own))}); verify it with the version that made it, "
            f"{maker(manifest.software)}"
        )
    for name in sorted(name for name in manifest.files if name.endswith(".parquet")):
        table = table_of(name)
        try:
            found = read_parquet_schema(folder / name)
        except (pa.ArrowException, OSError) as error:
            yield f"{name}: not a Parquet file that can be read ({type(error).__name__})"
            continue
        if released_columns(found) != own.get(table):
            yield f"{name}: columns or their types differ from the declared ones"
        elif table in CONFIGS and not _has_features(found):
            yield f"{name}: its metadata does not tell `datasets` what the columns are"


def _differing(manifest: Manifest, own: dict[str, list[ReleasedColumn]]) -> list[str]:
    declared = manifest.columns
    sets = {table: ({c.name for c in declared.get(table, [])}, {c.name for c in own[table]}) for table in own}
    return [
        f"{table}: {', '.join(sorted(a ^ b)) or 'types'}" if table in declared else table
        for table, (a, b) in sets.items()
        if declared.get(table) != own[table]
    ]


def _has_features(schema: pa.Schema) -> bool:
    expected = feature_schema(features_of(schema)).metadata[METADATA_KEY]
    return bool((schema.metadata or {}).get(METADATA_KEY) == expected)


def sound_groups(path: Path) -> Iterator[pl.DataFrame]:
    """A file one row group at a time. Raises one of `READ_ERRORS` for broken pages and texts that are not UTF-8."""
    file = pq.ParquetFile(path)
    for group in range(file.num_row_groups):
        table = file.read_row_group(group)
        table.validate(full=True)  # polars does not check that texts are UTF-8
        yield pl.DataFrame(table)


def beside_rows(path: Path) -> Iterator[str]:
    """Problems outside of the rows: unknown metadata, identifiers in metadata and statistics, unaccounted bytes."""
    described, schema = pq.read_metadata(path), pq.read_schema(path)
    strange = ({*(described.metadata or {})} | {*(schema.metadata or {})}) - _METADATA
    if strange:
        yield f"its metadata has keys that no release has: {', '.join(sorted(repr(key) for key in strange))}"
    comments = schema.remove_metadata().to_string(truncate_metadata=False).splitlines()
    groups = [described.row_group(number) for number in range(described.num_row_groups)]
    columns = [group.column(number) for group in groups for number in range(described.num_columns)]
    texts = [described.created_by or "", *comments, *_extremes(columns)]
    if found := identifiers_in(pl.Series(texts, dtype=pl.String)):
        yield f"its metadata holds an identifier: {', '.join(sorted(set().union(*found.values())))}"
    known = sum(column.total_compressed_size for column in columns) + described.serialized_size
    if path.stat().st_size != _MAGIC_BYTES + known + _FOOTER_BYTES:
        yield "it has bytes that belong to no column"


def _extremes(columns: list[pq.ColumnChunkMetaData]) -> Iterator[str]:
    """Minimum and maximum texts in the column statistics, except of messages."""
    for column in columns:
        known = None if column.path_in_schema.endswith("content") else column.statistics
        if known is not None and known.has_min_max:
            yield from (value for value in (known.min, known.max) if isinstance(value, str))


_ADDRESSES = {pattern.type: pattern for pattern in reversed(PATTERNS) if pattern.type in ("ip", "email")}
"""The first pattern of each type; the others find spelt-out forms, which programs do not write."""
_ADDRESSES["ip"] = _ADDRESSES["ip"]._replace(confidence=any_address)  # a server's users may have private addresses
_ROOTS = "home|root|Users|Volumes|mnt|media|tmp|var|srv|opt|usr|etc|data|workspace|scratch|nfs|private"
_PATH = re.compile(
    rf"(?<![\w./~-])/(?:{_ROOTS})/[\w.-]"
    r"|\b(?:file|s3|gs|az|abfss?|hdfs)://[\w.-]|\b[A-Za-z]:\\\w|\\\\\w+\\\w|(?<!\S)~/[\w.-]"
)
"""Absolute paths of a server or disk; web addresses and `org/model` do not match."""
_HINT = rf"/(?:{_ROOTS})/|://|\\|~/|@|\d\.\d{{1,3}}\.\d{{1,3}}\.\d|:[0-9A-Fa-f]{{0,4}}:"
"""Matches every text that may contain an identifier; a linear-time filter before the exact patterns."""
_VEILED = r"%[0-9A-Fa-f]{2}|&#?\w+;|[^\x00-\x7f]|[\[({] ?(?:\.|(?i:dot)) ?[\])}]|[A-Z][0-9A-Za-z+/]{7}"
"""Matches texts that may be encoded: URL encoding, HTML entities, non-ASCII characters, dots in brackets, base64."""
_BASE64 = re.compile(r"[0-9A-Za-z+/]{12,}")
_TEXTS = {".md", ".csv", ".html", ".svg"}


def identifiers(text: str) -> set[str]:
    """Kinds of identifiers (ip, email, path) in a text, also in encoded form."""
    return {kind for each in {text, normalised(text).text, *_decoded(text)} for kind in _plain_identifiers(each)}


def _decoded(text: str) -> Iterator[str]:
    """Decoded base64 substrings that are printable ASCII."""
    for found in _BASE64.findall(text):
        with suppress(ValueError):
            if (decoded := base64.b64decode(found + "=" * (-len(found) % 4)).decode("ascii")).isprintable():
                yield decoded


def _plain_identifiers(text: str) -> set[str]:
    found = {"path"} if _PATH.search(text) else set()
    for kind, pattern in _ADDRESSES.items():
        matches = pattern.form.finditer(text) if kind != "email" or "@" in text else ()
        if any(pattern.confidence(match) is not None for match in matches):
            found.add(kind)
    return found


def identifiers_in(texts: pl.Series) -> dict[str, set[str]]:
    """Text -> `identifiers`, for the texts that have any."""
    hinted = texts.filter(texts.str.contains(f"{_HINT}|{_VEILED}")).unique(maintain_order=True)
    return {text: found for text in hinted if (found := identifiers(text))}


def identifiers_in_files(folder: Path, manifest: Manifest) -> Iterator[str]:
    """Problems of card, manifest, leaderboards and report with identifiers, except the policy's contact address."""
    contact = markdown_text(str(manifest.policy.get("contact") or ""))
    if found := identifiers(manifest.model_dump_json(exclude={"policy"})):
        yield f"{MANIFEST}: holds an identifier: {', '.join(sorted(found))}"
    for name in sorted(name for name in manifest.files if Path(name).suffix in _TEXTS):
        try:
            text = (folder / name).read_text(encoding="utf-8")
        except UnicodeDecodeError as error:
            yield f"{name}: not UTF-8 text, at byte {error.start}"
            continue
        if contact:
            text = text.replace(contact, "")
        if found := set().union(*identifiers_in(pl.Series(text.splitlines(), dtype=pl.String)).values()):
            yield f"{name}: holds an identifier: {', '.join(sorted(found))}"
