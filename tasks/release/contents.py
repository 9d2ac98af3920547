"""Checks released rows: impossible values, identifiers, personal data, image metadata, changed images."""

import hashlib
import math
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import polars as pl
from pydantic import ValidationError

from schemas.policy import Action, Over, Policy
from schemas.release import CONFIGS, KEYS
from tasks.images.decode import ImageRejected, decode_stored
from tasks.images.rebuild import is_pixels_alone
from tasks.providers.embedded.pii.patterns import PATTERNS, find_patterns
from tasks.providers.embedded.pii.text_pii import without_overlaps
from tasks.release.declared import READ_ERRORS, identifiers_in, sound_groups
from tasks.release.gather import WINNERS
from tasks.release.registered import path_in_release
from tasks.release.shards import released_prompts
from tasks.runtime.parallel import map_ordered
from tasks.storage.content_id import Distinct, image_id

_PEOPLE = {"user_id", "judge"}
_ROLES = {"chat": {"user", "assistant"}, "battle": {"user", "assistant"}, "bench": {"user"}, "failures": {"user"}}
_FIRST_SIDE = {"chat": "conversation", "battle": "conversation_a"}
_TURNS = ("conversation", "conversation_a", "conversation_b", "turns")
_WORDS = ("vote_reason",)
"""Columns with what users wrote, beside the messages."""
_USER = r"^[0-9a-f]{24}$"
IMAGE_NAME = re.compile(r"[0-9a-f]{32}\.(?:png|jpeg)")
"""Name of a released image: content id and format."""
CONTENT_ID_DIGITS = 32
_Row = Mapping[str, Any]


def forbidden_data(policy: Policy) -> frozenset[str]:
    """Types of personal data in messages that a policy drops or redacts."""
    found: set[str] = set()
    for rule in policy.rules:
        stops = rule.action in (Action.DROP, Action.REDACT)
        if stops and (rule.signal, rule.over) == ("text_pii.types", Over.MESSAGES):
            found |= set(rule.contains_any or (pattern.type for pattern in PATTERNS))
    return frozenset(found)


def wrong_groups(config: str, forbidden: frozenset[str], shard: Path) -> list[list[str]]:
    """Problems of the rows of each row group of a shard, up to one that cannot be read."""
    found: list[list[str]] = []
    with suppress(*READ_ERRORS):
        found.extend([*wrong_rows(config, group, forbidden)] for group in sound_groups(shard))
    return found


def wrong_rows(config: str, group: pl.DataFrame, forbidden: frozenset[str]) -> Iterator[str]:
    """Problems of some rows; `forbidden` are the types of personal data that no message may contain."""
    yield from _texts(group, forbidden)
    for row in group.iter_rows(named=True):
        try:
            CONFIGS[config].model_validate(row)
        except ValidationError as error:
            wrong = error.errors()[0]
            column = ".".join(str(part) for part in wrong["loc"])
            yield f"row {row[KEYS[config]]!r}: {column} is not what it must be ({wrong['msg']})"
            continue
        yield from _values(config, row)


def _values(config: str, row: _Row) -> Iterator[str]:
    """Problems of values that have the right type and are still impossible."""
    named = f"row {row[KEYS[config]]!r}"
    if row.get("winner", "tie") not in WINNERS.values():
        yield f"{named}: the winner is {row['winner']!r}; it is one of {', '.join(WINNERS.values())}"
    if not math.isfinite(row.get("tstamp") or 0):
        yield f"{named}: tstamp is no time"
    for column in (each for each in _TURNS if each in row):
        other = {turn["role"] for turn in row[column]} - _ROLES[config]
        if other:
            yield f"{named}: {column} has messages by {', '.join(sorted(repr(role) for role in other))}"
        shown = [(each, len(turn["content"])) for turn in row[column] for each in turn["images"] or ()]
        if not all(0 <= each["image"] < len(row["images"]) and 0 <= each["character"] <= end for each, end in shown):
            yield f"{named}: {column} shows an image that the row has not, or places one beyond the text"
    if "num_turns" in row and row["num_turns"] != sum(t["role"] == "user" for t in row[_FIRST_SIDE[config]]):
        yield f"{named}: num_turns is {row['num_turns']}, which is not the number of its user messages"


def _texts(group: pl.DataFrame, forbidden: frozenset[str]) -> Iterator[str]:
    """Users that are no keyed hashes, identifiers outside of messages, and personal data of forbidden types in them."""
    for people in group.select(_PEOPLE & {*group.columns}):
        if not people.drop_nulls().str.contains(_USER).all():
            yield f"{people.name} holds something that is not a keyed hash"
    for column in group.select(pl.col(pl.String).exclude(*_PEOPLE, *_WORDS)):
        for found in identifiers_in(column).values():
            yield f"{column.name} holds an identifier: {', '.join(sorted(found))}"
    for name in (column for column in (*_TURNS, *_WORDS) if column in group.columns):
        said = group[name] if name in _WORDS else group[name].explode().struct.field("content")
        for text in said.drop_nulls().unique(maintain_order=True):
            if kinds := personal_data(text) & forbidden:
                yield f"a message in {name} holds personal data: {', '.join(sorted(kinds))}"


def personal_data(text: str) -> set[str]:
    """Types of personal data that patterns find in a text."""
    return {span.type for span in without_overlaps(find_patterns(text))}


def wrong_texts(path: str, texts: pl.Series, forbidden: frozenset[str], named: str = "a text") -> Iterator[str]:
    """Problems of texts of a file that hold personal data of forbidden types."""
    for text in texts.drop_nulls().unique(maintain_order=True):
        if kinds := personal_data(text) & forbidden:
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
    known = pl.Series(list(released_prompts(folder)), dtype=pl.String)
    strangers = rows.filter(~pl.col("question_id").is_in(known.implode()))["question_id"]
    problems = [f"{path}: {name!r} is no prompt of the benchmark" for name in strangers]
    if rows["question_id"].is_duplicated().any():
        problems.append(f"{path}: a prompt is there more than once")
    return rows, problems


def wrong_identifiers(path: str, texts: pl.Series) -> Iterator[str]:
    """Problems of texts of a file that hold an identifier."""
    for found in identifiers_in(texts).values():
        yield f"{path}: a text holds an identifier: {', '.join(sorted(found))}"


def _image(image: Mapping[str, Any]) -> list[str]:
    """Problems of an image: its name, broken content, other pixels than it is named by, or more than them."""
    name, content = image["path"], image["bytes"]
    problems = [] if IMAGE_NAME.fullmatch(name) else [f"an image path is not a content id: {name!r}"]
    try:
        pixels = decode_stored(content, "", "").rgb
    except ImageRejected as error:
        return [*problems, f"{name} does not open as an image ({error})"]
    if not is_pixels_alone(content):
        problems.append(f"{name} carries more than its pixels")
    if not problems and image_id(pixels) != name[:CONTENT_ID_DIGITS]:
        problems.append(f"{name} has other pixels than it is named by")
    return problems


class ImageLists:
    """SHA-256 over the id of every row and the content ids of its images, in order."""

    def __init__(self, config: str) -> None:
        self._key = KEYS[config]
        self._digest = hashlib.sha256()

    def add(self, rows: pl.DataFrame) -> None:
        """Add the next rows: gathered ones, with `image_ids`, or those of a shard, with `images`."""
        name = pl.element().struct.field("path").str.head(CONTENT_ID_DIGITS)
        ids = pl.col("image_ids") if "image_ids" in rows.columns else pl.col("images").list.eval(name)
        key = pl.col(self._key)
        lines = rows.select(pl.format("{} {} {}\n", key.str.len_bytes(), key, ids.list.join(" "))).to_series()
        self._digest.update(lines.str.join().item().encode())

    def hexdigest(self) -> str:
        """64 hex digits."""
        return self._digest.hexdigest()


class ImageContents:
    """Checks every image once, however many rows show it. Memory: 8 bytes for each image."""

    def __init__(self) -> None:
        self._seen = Distinct()

    def wrong(self, rows: pl.DataFrame) -> Iterator[str]:
        """Problems of the images of some rows that no earlier row showed."""
        shown = rows["images"].explode().drop_nulls().struct.unnest().drop_nulls().unique(maintain_order=True)
        known = shown.select(pl.col("path").hash(), pl.col("bytes").hash()).to_struct()
        new = shown.filter(~self._seen.has(known))
        self._seen.add(known)
        for problems in map_ordered(_image, new.iter_rows(named=True), min(4, os.cpu_count() or 1)):
            yield from problems
