"""Checks the files of a release, and their rows.

Files: declared columns, readable pages, no data beside the rows, no identifiers in them (network addresses, e-mail
addresses and machine paths in the parts that are not messages). Rows: impossible values, identifiers, personal data,
image metadata, changed images. `verify.py` calls the checks in order: a further one of a file is called there, one of
rows from `wrong_rows`.
"""

import base64
import hashlib
import json
import math
import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from importlib.metadata import version as installed_version
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import ValidationError

from schemas.errors import BadInput, problem_in_words
from schemas.policy import Action, Over, Policy, Rule, Scope
from schemas.release import CONFIGS, ROW_KEYS, Manifest, ReleasedColumn
from schemas.row import arrow_schema
from tasks.images.coefficients import are_reached
from tasks.images.decode import ImageRejected, decode_stored
from tasks.images.rebuild import is_pixels_alone
from tasks.providers.embedded.pii.patterns import PATTERNS, any_address, find_patterns
from tasks.providers.embedded.pii.readings import normalised
from tasks.providers.embedded.pii.text_pii import without_overlaps
from tasks.release.build import CROISSANT, MANIFEST
from tasks.release.fetched import maker
from tasks.release.gather import PUBLISHED_WINNERS
from tasks.release.registered import RELEASED_TABLES, path_in_release, released_columns, table_of, without_later
from tasks.release.shards import (
    METADATA_KEY,
    RELEASE_LAYOUT,
    feature_schema,
    features_of,
    released_prompts,
    shard_schema,
)
from tasks.runtime.parallel import map_ordered
from tasks.runtime.untrusted import markdown_text, one_line
from tasks.storage.content_id import image_id
from tasks.storage.parquet import read_parquet_schema

READ_ERRORS = (pa.ArrowException, OSError, ValueError, pl.exceptions.PolarsError)
"""Errors that readers raise for broken pages."""
_METADATA = {b"ARROW:schema", METADATA_KEY}
_MAGIC_BYTES, _FOOTER_BYTES = 4, 8


def declared_columns(layout: int = RELEASE_LAYOUT) -> dict[str, list[ReleasedColumn]]:
    """The columns that this version writes, by name of the table; of those that a release of this layout has."""
    # a name is a table that releases of this layout have already
    tables = [name for name, table in RELEASED_TABLES.items() if table.since_layout <= layout]
    return {name: released_columns(schema_of_layout(name, layout)) for name in tables}


def schema_of_layout(name: str, layout: int) -> pa.Schema:
    """Arrow schema of a released table in a release of this layout: without columns and fields that came later."""
    schema = shard_schema(name) if name in CONFIGS else arrow_schema(RELEASED_TABLES[name].row)
    return without_later(name, schema, layout)


def unlike_declared(folder: Path, manifest: Manifest) -> Iterator[str]:
    """Problems of files that are not Parquet, have other columns, or lack the metadata that `datasets` needs.

    Raises BadInput when the manifest declares other columns than this version writes in a release of its layout.
    """
    written_columns = declared_columns(manifest.layout)
    if manifest.columns != written_columns:
        raise BadInput(
            f"{str(folder)!r} cannot be verified by arena-curation {installed_version('arena-curation')}: it declares "
            f"other columns ({', '.join(_differing(manifest, written_columns))}); verify it with the version that made "
            f"it, {maker(manifest.software)}"
        )
    # a name is a Parquet file that the manifest lists, of rows or of a part
    for name in sorted(name for name in manifest.files if name.endswith(".parquet")):
        table = table_of(name)
        try:
            schema = read_parquet_schema(folder / name)
        except (pa.ArrowException, OSError) as error:
            yield f"{name}: not a Parquet file that can be read ({type(error).__name__})"
            continue
        if released_columns(schema) != written_columns.get(table):
            yield f"{name}: columns or their types differ from the declared ones"
        elif table in CONFIGS and not _has_features(schema):
            yield f"{name}: its metadata does not tell `datasets` what the columns are"
        elif table not in CONFIGS and METADATA_KEY in (schema.metadata or {}):
            yield f"{name}: its metadata is for `datasets`, which reads configurations alone"


def _differing(manifest: Manifest, written_columns: dict[str, list[ReleasedColumn]]) -> list[str]:
    """Tables whose columns the manifest declares otherwise, each with the names that only one side has, or `types`."""
    declared = manifest.columns
    # table -> names of the columns that the manifest declares, and of those that this version writes
    names_of_table = {
        table: ({column.name for column in declared.get(table, [])}, {column.name for column in written_columns[table]})
        for table in written_columns
    }
    # a text is one table whose columns are not the same; a table that the manifest lacks is named alone
    return [
        f"{table}: {', '.join(sorted(stated_names ^ written_names)) or 'types'}" if table in declared else table
        for table, (stated_names, written_names) in names_of_table.items()
        if declared.get(table) != written_columns[table]
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
    # a column is one of one row group, which has its own statistics and bytes
    groups = [described.row_group(number) for number in range(described.num_row_groups)]
    columns = [group.column(number) for group in groups for number in range(described.num_columns)]
    texts = [described.created_by or "", *comments, *_extremes(columns)]
    if kinds_by_text := identifiers_in(pl.Series(texts, dtype=pl.String)):
        yield f"its metadata holds an identifier: {', '.join(sorted(set().union(*kinds_by_text.values())))}"
    accounted_bytes = sum(column.total_compressed_size for column in columns) + described.serialized_size
    if path.stat().st_size != _MAGIC_BYTES + accounted_bytes + _FOOTER_BYTES:
        yield "it has bytes that belong to no column"


def _extremes(columns: list[pq.ColumnChunkMetaData]) -> Iterator[str]:
    """Minimum and maximum texts in the column statistics, except of what people and models wrote."""
    for column in columns:
        is_written = column.path_in_schema.rpartition(".")[2] in _WRITTEN
        statistics = None if is_written else column.statistics
        if statistics is not None and statistics.has_min_max:
            yield from (value for value in (statistics.min, statistics.max) if isinstance(value, str))


_ADDRESSES = {pattern.type: pattern for pattern in reversed(PATTERNS) if pattern.type in ("ip", "email")}
"""The first pattern of each type; the others find spelt-out forms, which programs do not write."""
_ADDRESSES["ip"] = _ADDRESSES["ip"]._replace(confidence=any_address)  # a server's users may have private addresses
_ROOTS = (
    "home|root|Users|Volumes|mnt|media|tmp|var|srv|opt|usr|etc|data|workspace|scratch|nfs|private|afs|app|beegfs|ceph"
    "|cluster|dbfs|efs|exports?|fsx|gpfs|kaggle|lustre|net|projects?|run|shared|storage|work"
)
_PATH = re.compile(
    rf"(?<![\w./~-])/(?:{_ROOTS})/[\w.-]"
    r"|\b(?:(?:s3[an]?|gs|az|abfss?|wasbs?|hdfs|smb|nfs)://|(?:file|dbfs):/)/{0,2}[\w.~-]"
    r"|\b[A-Za-z]:\\{1,2}\w|\b[A-Z]:/\w|\\{2,4}[\w.-]+\\{1,2}\w|(?<![\w./~])~/[\w.-]"
)
"""Absolute paths of a server or disk: below roots where people, jobs and clusters keep files, in a home folder, on a
drive of Windows, a share or a bucket. What every machine has alike (`/dev/null`, `/bin/sh`) tells of none, and a path
below a root that one site alone has is not told from a list such as `/yes/no`. Web addresses and `org/model` do not
match."""
_HINT = rf"/(?:{_ROOTS})/|:/|\\|~/|@|\d ?\. ?\d{{1,3}} ?\. ?\d{{1,3}} ?\. ?\d|:[0-9A-Fa-f]{{0,4}}:"
"""Matches every text that may contain an identifier; a linear-time filter before the exact patterns."""
_HINTED = re.compile(_HINT)
_VEILED = (
    r"%[0-9A-Fa-f]{2}|&#?\w+;|[^\x00-\x7f]|[\[({] ?(?:\.|(?i:dot)) ?[\])}]"
    r"|[A-Z][0-9A-Za-z+/]{7}|[0-9a-z+/]{4}[A-Z]"
)
"""Matches texts that may be encoded: URL encoding, HTML entities, non-ASCII characters, dots in brackets, base64.

The last two forms match each twelve signs of base64 that have a capital, wherever it stands; without any, an address in
base64 looks like a hash, of which rows are full.
"""
_BASE64 = re.compile(r"[0-9A-Za-z+/]{12,}")
_TEXTS = {".md", ".csv", ".html", ".svg", ".cff", ".json"}


def identifiers(text: str) -> set[str]:
    """Kinds of identifiers (ip, email, path) in a text, also in encoded form."""
    # a kind is one found in the text as it stands, in its plain spelling, or in what it holds in base64
    spellings = {spelling for spelling in (text, normalised(text).text, *_decoded(text)) if _HINTED.search(spelling)}
    return {kind for spelling in spellings for kind in _plain_identifiers(spelling)}


def _decoded(text: str) -> Iterator[str]:
    """Decoded base64 substrings that are printable text, in one line or in several."""
    for substring in _BASE64.findall(text):
        with suppress(ValueError):
            decoded = base64.b64decode(substring + "=" * (-len(substring) % 4)).decode()
            if " ".join(decoded.split()).isprintable():
                yield decoded


def _plain_identifiers(text: str) -> set[str]:
    kinds = {"path"} if _PATH.search(text) else set()
    for kind, pattern in _ADDRESSES.items():
        matches = pattern.form.finditer(text) if kind != "email" or "@" in text else ()
        if any(pattern.confidence(match) is not None for match in matches):
            kinds.add(kind)
    return kinds


def masked(name: str) -> str:
    """A name without its identifiers: each becomes `…`; of one that holds them in another form, the beginning stays.

    The beginning is a quarter of the name, of at most eight characters.
    """
    masked_name = re.sub(rf"(?:{_PATH.pattern})\S*", "…", name)
    for pattern in _ADDRESSES.values():
        masked_name = pattern.form.sub("…", masked_name)
    is_masked = masked_name != name and not identifiers(masked_name)
    beginning = name[: min(8, len(name) // 4)]
    return one_line(masked_name if is_masked else f"{'' if identifiers(beginning) else beginning}…", 80)


def identifiers_in(texts: pl.Series) -> dict[str, set[str]]:
    """Text -> `identifiers`, for the texts that have any."""
    # a row is one distinct text that may hold an identifier, so that the slow patterns see few
    hinted = texts.filter(texts.str.contains(f"{_HINT}|{_VEILED}")).unique(maintain_order=True)
    return {text: kinds for text in hinted if (kinds := identifiers(text))}


def identifiers_in_files(folder: Path, manifest: Manifest) -> Iterator[str]:
    """Problems of card, manifest, leaderboards and report with identifiers.

    The policy in the manifest is not searched, nor its contact address in the other files: an operator wrote them to be
    read, and a released policy names no banned users (`released_policy`). Nor is croissant.json, which holds that
    policy's words and nothing that the manifest does not: `wrong_stated` compares it with the manifest.
    """
    contact = markdown_text(str(manifest.policy.get("contact") or ""))
    stated = pl.Series([*_strings(manifest.model_dump(mode="json", exclude={"policy"}))], dtype=pl.String)
    if kinds := set().union(*identifiers_in(stated).values()):
        yield f"{MANIFEST}: holds an identifier: {', '.join(sorted(kinds))}"
    # a name is a file of plain text or JSON that the manifest lists; one line or value of it is one text
    for name in sorted(name for name in manifest.files if Path(name).suffix in _TEXTS and name != CROISSANT):
        try:
            text = (folder / name).read_text(encoding="utf-8")
            texts = _json_texts(text) if name.endswith(".json") else text.splitlines()
        except UnicodeDecodeError as error:
            yield f"{name}: not UTF-8 text, at byte {error.start}"
            continue
        except (ValueError, RecursionError):
            yield f"{name}: not JSON"
            continue
        if contact:  # a card and pages write it escaped, JSON as the policy does
            texts = [line.replace(contact, "").replace(str(manifest.policy["contact"]), "") for line in texts]
        if kinds := set().union(*identifiers_in(pl.Series(texts, dtype=pl.String)).values()):
            yield f"{name}: holds an identifier: {', '.join(sorted(kinds))}"


def _json_texts(text: str) -> list[str]:
    """All keys and texts of JSON, also of a key that is there twice. Raises ValueError, RecursionError."""
    return [*_strings(json.loads(text, object_pairs_hook=list))]


def _strings(value: object) -> Iterator[str]:
    """All texts in lists and mappings, their keys too, in no order."""
    waiting = [value]
    while waiting:
        part = waiting.pop()
        if isinstance(part, str):
            yield part
        elif isinstance(part, list | tuple):
            waiting += part
        elif isinstance(part, dict):
            waiting += part.items()


_PEOPLE = {"user_id", "judge"}
_ROLES = {"chat": {"user", "assistant"}, "battle": {"user", "assistant"}, "bench": {"user"}, "failures": {"user"}}
_FIRST_SIDE = {"chat": "conversation", "battle": "conversation_a"}
_TURNS = ("conversation", "conversation_a", "conversation_b", "turns")
_WORDS = ("vote_reason",)
"""Columns with what users wrote, beside the messages."""
_WRITTEN = {"content", "thinking", *_WORDS}
"""Columns of any file with what people and models wrote in conversations: it may hold paths."""
_NAMES = ("model", "model_a", "model_b", "models", "preset_dataset", "typed_by")
"""Columns with names that operators, and not machines, gave."""
_USER = r"^[0-9a-f]{24}$"
IMAGE_NAME = re.compile(r"[0-9a-f]{32}\.(?:png|jpeg)")
"""Name of a released image: content id and format."""
CONTENT_ID_DIGITS = 32
_Row = Mapping[str, Any]


_OVER = {
    "user": {Over.MESSAGES, Over.USER_MESSAGES},
    "assistant": {Over.MESSAGES, Over.ASSISTANT_MESSAGES},
}
"""Role -> parts that its messages are."""


class Forbidden(NamedTuple):
    """Types of personal data that some texts of the rows of a configuration may not hold."""

    messages: Mapping[str, frozenset[str]]
    """Role -> types in its messages."""
    words: frozenset[str]
    """In what voters wrote."""
    names: frozenset[str]
    """In names of models and datasets."""


def forbidden_data(policy: Policy, roles: Collection[str] = tuple(_OVER), in_battles: bool = False) -> frozenset[str]:
    """Types of personal data that a policy drops or redacts in messages by any of these roles.

    `in_battles`: also those for which it drops a battle alone. Rules about the models of a conversation are left out: a
    row does not have the name that a renamed model had in the log.
    """
    # parts of a conversation that any of these roles writes
    parts = set().union(*(_OVER[role] for role in roles))
    return _types(
        rule
        for rule in policy.rules
        if rule.over in parts
        and rule.action in (Action.DROP, Action.REDACT)
        and (in_battles or rule.scope is Scope.CONVERSATION)
        and rule.models is None
    )


def forbidden_in(policy: Policy, config: str) -> Forbidden:
    """Types of personal data that the policy forbids in the rows of a configuration.

    What voters wrote is withheld by every rule over users' messages that does more than tag, whatever it drops.
    """
    words = (rule for rule in policy.rules if rule.over in _OVER["user"] and rule.action is not Action.TAG)
    # role -> types of personal data that no message of it may hold
    by_role = {role: forbidden_data(policy, [role], config == "battle") for role in _OVER}
    return Forbidden(by_role, _types(words), forbidden_data(policy))


def _types(rules: Iterable[Rule]) -> frozenset[str]:
    """Types of personal data on which any of these rules fires."""
    types: set[str] = set()
    for rule in (rule for rule in rules if rule.signal == "text_pii.types"):
        types |= set(rule.contains_any or {pattern.type for pattern in PATTERNS} - {*(rule.other_than or ())})
    return frozenset(types)


def wrong_groups(config: str, forbidden: Forbidden, shard: Path) -> list[list[str]]:
    """Problems of the rows of each row group of a shard, up to one that cannot be read or checked.

    The caller reads every group itself, and tells of a shard for which it got the problems of fewer.
    """
    problems_of_groups: list[list[str]] = []
    with suppress(*READ_ERRORS):
        problems_of_groups.extend([*wrong_rows(config, group, forbidden)] for group in sound_groups(shard))
    return problems_of_groups


def wrong_rows(config: str, group: pl.DataFrame, forbidden: Forbidden) -> Iterator[str]:
    """Problems of some rows; `forbidden` are the types of personal data that their texts may not contain."""
    yield from _texts(group, forbidden)
    for row in group.iter_rows(named=True):
        try:
            CONFIGS[config].model_validate(row)
        except ValidationError as error:
            wrong = error.errors()[0]
            column = ".".join(str(part) for part in wrong["loc"])
            yield f"row {row[ROW_KEYS[config]]!r}: {column} is not what it must be ({problem_in_words(wrong)})"
            continue
        yield from _values(config, row)


def _values(config: str, row: _Row) -> Iterator[str]:
    """Problems of values that have the right type and are still impossible."""
    named = f"row {row[ROW_KEYS[config]]!r}"
    if row.get("winner", "tie") not in PUBLISHED_WINNERS.values():
        yield f"{named}: the winner is {row['winner']!r}; it is one of {', '.join(PUBLISHED_WINNERS.values())}"
    if not math.isfinite(row.get("tstamp") or 0):
        yield f"{named}: tstamp is no time"
    for column in (name for name in _TURNS if name in row):
        other = {turn["role"] for turn in row[column]} - _ROLES[config]
        if other:
            yield f"{named}: {column} has messages by {', '.join(sorted(repr(role) for role in other))}"
        # a spot is a place of an image in one message, beside the length of that message, which bounds it
        spots = [(spot, len(turn["content"])) for turn in row[column] for spot in turn["images"] or ()]
        if not all(0 <= spot["image"] < len(row["images"]) and 0 <= spot["character"] <= end for spot, end in spots):
            yield f"{named}: {column} shows an image that the row has not, or places one beyond the text"
    if "num_turns" in row and row["num_turns"] != sum(t["role"] == "user" for t in row[_FIRST_SIDE[config]]):
        yield f"{named}: num_turns is {row['num_turns']}, which is not the number of its user messages"


def _texts(group: pl.DataFrame, forbidden: Forbidden) -> Iterator[str]:
    """Users that are no keyed hashes, identifiers outside of messages, and personal data of forbidden types in them."""
    for people in group.select(_PEOPLE & {*group.columns}):
        if not people.drop_nulls().str.contains(_USER).all():
            yield f"{people.name} holds something that is not a keyed hash"
    for column, names in wrong_names(group, forbidden.names).items():
        for kinds in names.values():
            yield f"{column} holds an identifier: {', '.join(sorted(kinds))}"
    for name, texts, types in _written(group, forbidden):
        for kinds in personal_data_in(texts, types).values():
            yield f"a message in {name} holds personal data: {', '.join(sorted(kinds))}"


def _written(group: pl.DataFrame, forbidden: Forbidden) -> Iterator[tuple[str, pl.Series, frozenset[str]]]:
    """Column, what people and models wrote in it, and the types of personal data that may not be there."""
    for name in (column for column in _TURNS if column in group.columns):
        # a row is one message
        messages = group[name].explode().drop_nulls().struct.unnest()
        # messages with the same types forbidden are searched together, so that each distinct text is searched once
        for types in sorted(set(forbidden.messages.values()), key=sorted):
            # roles with the same types: their messages are searched together
            roles = [role for role, of_role in forbidden.messages.items() if of_role == types]
            yield name, messages.filter(pl.col("role").is_in(roles))["content"], types
    for name in (column for column in _WORDS if column in group.columns):
        yield name, group[name], forbidden.words


def wrong_names(rows: pl.DataFrame, forbidden: frozenset[str]) -> dict[str, dict[str, set[str]]]:
    """Column -> name or id in it -> what identifies in it. Names of models and datasets hold no forbidden data either.

    Messages, what voters wrote and keyed hashes are left out.
    """
    # name -> values of a column of texts that are neither messages, nor words of voters, nor hashes of people
    texts = {column.name: column for column in rows.select(pl.col(pl.String).exclude(*_PEOPLE, *_WORDS))}
    texts |= {"models": rows["models"].explode()} if "models" in rows.columns else {}
    wrong_by_column: dict[str, dict[str, set[str]]] = {}
    for name, column in texts.items():
        kinds = identifiers_in(column.drop_nulls())
        for text, data in personal_data_in(column, forbidden).items() if name in _NAMES else ():
            kinds[text] = kinds.get(text, set()) | data
        wrong_by_column |= {name: kinds} if kinds else {}
    return wrong_by_column


def personal_data(text: str) -> set[str]:
    """Types of personal data that patterns find in a text."""
    # a type is that of a match of the patterns; of overlapping ones of several types the first given counts
    return {span.type for spans in find_patterns([text]) for span in without_overlaps(spans)}


def personal_data_in(texts: pl.Series, forbidden: frozenset[str]) -> dict[str, set[str]]:
    """Text -> types of personal data in it that are forbidden, for the texts that have any."""
    distinct_texts = texts.drop_nulls().unique(maintain_order=True).to_list() if forbidden else []
    # a set is the forbidden types in one text, in the order of the texts
    types = ({span.type for span in without_overlaps(spans)} & forbidden for spans in find_patterns(distinct_texts))
    return {text: kinds for text, kinds in zip(distinct_texts, types, strict=True) if kinds}


def wrong_texts(path: str, texts: pl.Series, forbidden: frozenset[str], named: str = "a text") -> Iterator[str]:
    """Problems of texts of a file that hold personal data of forbidden types."""
    for kinds in personal_data_in(texts, forbidden).values():
        yield f"{path}: {named} holds personal data: {', '.join(sorted(kinds))}"


def sound_items(folder: Path, table: str) -> tuple[pl.DataFrame | None, list[str]]:
    """Rows of a table about prompts of `bench`, None without a readable file; and problems of the file and the ids."""
    path = path_in_release(table)
    if not (folder / path).is_file():
        return None, []
    try:
        rows = pl.concat(sound_groups(folder / path))
    except READ_ERRORS as error:
        return None, [f"{path}: its pages cannot be read ({type(error).__name__})"]
    bench_ids = pl.Series(list(released_prompts(folder)), dtype=pl.String)
    # a row is a prompt of the table that `bench` does not have
    strangers = rows.filter(~pl.col("question_id").is_in(bench_ids.implode()))["question_id"]
    problems = [f"{path}: {name!r} is no prompt of the benchmark" for name in strangers]
    if rows["question_id"].is_duplicated().any():
        problems.append(f"{path}: a prompt is there more than once")
    return rows, problems


def wrong_identifiers(path: str, texts: pl.Series) -> Iterator[str]:
    """Problems of texts of a file that hold an identifier."""
    for kinds in identifiers_in(texts).values():
        yield f"{path}: a text holds an identifier: {', '.join(sorted(kinds))}"


def _image(image: Mapping[str, Any]) -> list[str]:
    """Problems of an image: its name, broken content, other pixels than it is named by, or more than them."""
    name, content = image["path"], image["bytes"]
    problems = [] if IMAGE_NAME.fullmatch(name) else [f"an image path is not a content id: {name!r}"]
    try:
        pixels = decode_stored(content, "", "").rgb
    except ImageRejected as error:
        return [*problems, f"{name} does not open as an image ({error})"]
    if not is_pixels_alone(content):
        unseen = content.startswith(b"\xff\xd8") and not are_reached()
        problems.append(
            f"{name} cannot be looked into: a JPEG needs the libjpeg of Pillow's wheel; reinstall Pillow"
            if unseen
            else f"{name} carries more than its pixels"
        )
    if not problems and image_id(pixels) != name[:CONTENT_ID_DIGITS]:
        problems.append(f"{name} has other pixels than it is named by")
    return problems


class ImageLists:
    """SHA-256 over the id of every row and the content ids of its images, in order."""

    def __init__(self, config: str) -> None:
        self._key = ROW_KEYS[config]
        self._digest = hashlib.sha256()

    def add(self, rows: pl.DataFrame) -> None:
        """Add the next rows: gathered ones, with `image_ids`, or those of a shard, with `images`."""
        name = pl.element().struct.field("path").str.head(CONTENT_ID_DIGITS)
        ids = pl.col("image_ids") if "image_ids" in rows.columns else pl.col("images").list.eval(name)
        key = pl.col(self._key)
        # a line is one row: its id after the length of it, so that two lists never give one text, and its images
        lines = rows.select(pl.format("{} {} {}\n", key.str.len_bytes(), key, ids.list.join(" "))).to_series()
        self._digest.update(lines.str.join().item().encode())

    def hexdigest(self) -> str:
        """64 hex digits."""
        return self._digest.hexdigest()


class ImageContents:
    """Checks every image once, however many rows show it. Memory: about 100 bytes for each image."""

    def __init__(self) -> None:
        self._checked = set[int]()
        """64-bit hashes of the paths and contents of images."""

    def wrong(self, rows: pl.DataFrame) -> Iterator[str]:
        """Problems of the images of some rows that no earlier row showed."""
        # A row is one distinct image, its path and bytes: many rows show the same.
        images = rows["images"].explode().drop_nulls().struct.unnest().drop_nulls().unique(maintain_order=True)
        hashes = images.select(pl.struct(pl.col("path").hash(), pl.col("bytes").hash()).hash()).to_series()
        # a row is one image of which no earlier row group had the path and bytes
        new = images.filter(pl.Series([image_hash not in self._checked for image_hash in hashes], dtype=pl.Boolean))
        self._checked.update(hashes)
        for problems in map_ordered(_image, new.iter_rows(named=True), min(4, os.cpu_count() or 1)):
            yield from problems
