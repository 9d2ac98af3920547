"""Finds log lines that the server flagged as child abuse, and removes those that share anything with one.

A flag is a key with the letters `csam`, in any case and with any separators, whose value is not a plain no; a key
`sexual/minors` that is true; or a string that names one of the two. It is found at any depth: in the record, its
states, nested objects and lists, as a repeated key, spelled with escapes, or in JSON inside a string. What people and
models wrote names no flag, except in lines that are not JSON, in which it cannot be told apart.

Lines are also removed that share a conversation or image with one that is on a hash list, or taken down. In:
conversation ids and image names. Out: the `quarantine` table, parts of `sightings` without the lines, and their
rejects.
"""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any

import orjson
import polars as pl

from schemas.items.conversation import RecordType
from schemas.items.reject import QuarantineCause, Quarantined, Reject, RejectReason, TakenDownKind
from tasks.storage.keyed_ids import Tombstones, note_unfinished
from tasks.storage.parts import rows_without
from tasks.storage.tables import Store, frame_of

_LETTERS = [b"c", b"s", b"a", b"m"]
_ANYHOW = rb"[^0-9a-z]{0,32}(?:(?<=\\)(?:u[0-9a-f]{4}|[bfnrt])[^0-9a-z]{0,32}){0,4}"
"""Separators of letters, also escaped. All patterns are for lower-case bytes."""
_QUOTE = rb"""\\*["']"""
_NO_BEHIND = rb"%s\s*:\s*(?:(?:false|null|none)\b|0(?![.\d])|%s(?:false|no|null|none|0)?%s)" % (_QUOTE, _QUOTE, _QUOTE)
"""The end of a key, and a plain no."""
_IN_NO_KEY = rb"""[^"'\\:]{0,64}""" + _NO_BEHIND
_PERHAPS = re.compile(_ANYHOW.join([rb"c(?![0-9a-rt-z])", *_LETTERS[1:]]) + b"(?!%s)" % _IN_NO_KEY)
"""The letters with any separators, unless their key has a plain no. What follows `c` is looked at first, for speed."""
_IN_TEXT = re.compile(
    b"(?:%s|%s)(?!%s)" % (rb"[^0-9a-z\s]{0,8}".join(_LETTERS), rb"[^0-9a-z]{1,8}".join(_LETTERS), _IN_NO_KEY)
)
"""Spaces stand between all of the letters or none: `topics among` is not meant."""
_IN_FILE_NAME = re.compile(b"csam|" + rb"[^0-9a-z]+".join(_LETTERS))
_MINORS = re.compile(
    rb"sexual[^0-9a-z]{0,32}minor(?!s?(?:%s|%s\s*:\s*-?(?:\d*\.\d|\d+e)))" % (_NO_BEHIND, _QUOTE)  # no score
)
_NO = frozenset({"", "0", "false", "f", "no", "n", "off", "none", "null"})
_YES = frozenset({"1", "true", "t", "yes", "y", "on"})
_FLAG_CHARACTERS_MAX = 200
"""Longer strings, such as encoded images, name no flag."""
_BACKSLASHES = re.compile(rb"\\+")
_ESCAPE = re.compile(rb"\\u00([3-7][0-9a-fA-F])")
"""An escaped letter, digit or backslash."""
_OTHER_ESCAPE = re.compile(rb"\\(?:u[0-9a-f]{4}|[bfnrt])")
_ESCAPED_AGAIN_MAX = 8
_NAME = re.compile(rb"[0-9a-f]{32}")
_NAME_IN_ANY_CASE = re.compile(rb"[0-9a-fA-F]{32}")
_CONV_ID = re.compile(rb"conv_id%s\s*:\s*%s([0-9A-Za-z_-]{8,64})" % (_QUOTE, _QUOTE))
_NOTABLE = re.compile(rb"[0-9a-f]{32}|(?:%s|sexual[^0-9a-z]{0,32}minor)[^,}]{0,48}" % _ANYHOW.join(_LETTERS))
_TEXTS = {
    "messages", "conversation", "conversation_a", "conversation_b", "full_conversation", "turns", "content", "text",
    "system_message", "prompt", "question", "instruction", "answer", "response", "captions", "vote_reason",
    "thinking", "reasoning", "reasoning_content", "refusal", "conversations", "parts", "title", "response_a",
    "response_b", "response_1", "response_2", "messages_a", "messages_b", "comment",
}  # fmt: skip
"""Strings below these keys were written by people and models; they name no flag and are not searched as JSON."""
_OF_SERVER = re.compile("flag|label|tag|categor|moderat", re.IGNORECASE).search
"""Strings below such a key were written by the server, also when the key is in a message."""
_WITH_WORDS = frozenset({kind.value for kind in RecordType} - {RecordType.CHAT.value})
"""Types of records whose `reason` is what a visitor wrote."""


def line_is_flagged(raw: bytes) -> bool:
    """Whether a flag is set anywhere in a line. Lines that are not JSON are searched as text."""
    if not _may_be_flagged(raw):
        return False
    try:
        return _is_flagged(_parsed(raw))
    except (ValueError, RecursionError):
        return _looks_flagged(raw)


def row_is_flagged(row: Any) -> bool:
    """Whether a flag is set anywhere in a row of a table."""
    try:
        if not _may_be_flagged(orjson.dumps(row, default=str, option=orjson.OPT_NON_STR_KEYS)):
            return False
    except TypeError:  # a number, a text or a depth that orjson does not write
        pass
    try:
        return _is_flagged(row)
    except RecursionError:  # a flag whose value is too deep to be a plain no
        return True


def _may_be_flagged(raw: bytes) -> bool:
    """Whether a line has the letters of a flag, or escapes that may hide them; most lines end here."""
    lower = raw.lower().replace(b"\0", b"")  # UTF-16 has a zero byte beside every letter
    if _PERHAPS.search(lower) or (b"sexual" in lower and _MINORS.search(lower)):
        return True
    return b"\\u00" in lower and _ESCAPE.search(lower) is not None


def _is_flagged(row: Any) -> bool:
    """Whether a flag is set anywhere in a row, or in a line as `_parsed` returns it."""
    fields = _items(row)
    if any(key == "winner" or (key == "type" and str(value) in _WITH_WORDS) for key, value in fields):
        row = [(key, value) for key, value in fields if key != "reason" or not isinstance(value, str)]
    return any(_is_flag(*field) for field in _everything(row))


def name_is_flagged(name: str) -> bool:
    """Whether a file's name, or its path, says that it holds flagged conversations."""
    return _IN_FILE_NAME.search(_lower(name)) is not None


def ids_in(raw: bytes) -> tuple[set[str], set[str]]:
    """(conversation ids, image names) in a flagged line. Everything that looks like an image name is taken as one.

    In a line that cannot be parsed, every such name is taken as a conversation id too.
    """
    plain = _unescaped(raw)
    # a name is 32 hex digits as they are spelled; those in any case may begin elsewhere than those in small letters
    spelled = {name.decode() for name in (*_NAME.findall(plain), *_NAME_IN_ANY_CASE.findall(plain))}
    names = {name.lower() for name in spelled}
    try:
        fields = _everything(_parsed(raw))
    except (ValueError, RecursionError):
        return spelled | {name.decode() for name in _CONV_ID.findall(plain)}, names
    # an id is a value of a key conv_id; all other runs of 32 digits may be names of images
    conv_ids = {value for key, value, _ in fields if key == "conv_id" and isinstance(value, str)}
    return conv_ids, names - conv_ids


def notable(part: bytes) -> bytes:
    """Everything that may be an image name or a flag in a piece of an overlong line."""
    return b" ".join([b"", *_NOTABLE.findall(_unescaped(part).lower())])


def _parsed(raw: bytes) -> Any:
    """JSON with objects as lists of (key, value), so that repeated keys are all kept."""
    return json.loads(raw, object_pairs_hook=list)


def _everything(value: Any) -> Iterator[tuple[str, Any, bool]]:
    """(key, value, whether people or models wrote it) of a value and all that is inside it; a list's items have no key.

    JSON in strings of the server is searched, too.
    """
    waiting: list[tuple[str, Any, bool]] = [("", value, False)]
    while waiting:
        key, value, is_written = waiting.pop()
        yield key, value, is_written
        if not (is_written and isinstance(value, str)):
            # what is inside a field; people and models wrote it if its key says so, or by what is around it
            waiting += [(name, inner, _are_texts(name, is_written)) for name, inner in _items(value)]


def _items(value: Any) -> list[tuple[str, Any]]:
    """(key, value) of an object or a column's map; of a list, and of JSON in a string, with an empty key."""
    if isinstance(value, dict):
        return [(key if isinstance(key, str) else str(key), inner) for key, inner in value.items()]
    if isinstance(value, list):
        return [(str(element[0]), element[1]) if isinstance(element, tuple) else ("", element) for element in value]
    if isinstance(value, str) and _may_be_json(value):
        try:
            return [("", _parsed(value.encode("utf-8", "surrogatepass")))]
        except (ValueError, RecursionError):
            return []
    return [("", value.decode("utf-8", "replace"))] if isinstance(value, bytes) else []


def _are_texts(key: str, around: bool) -> bool:
    """Whether people and models wrote the strings below a key; `around`: whether they wrote those around it."""
    return key in _TEXTS or (around and not _OF_SERVER(key))


def _is_flag(key: str, value: Any, written: bool) -> bool:
    """Whether a key with this value is a flag, or a string of the server names one."""
    of_csam, of_minors = _kind(key)
    if (of_csam and not _is_no(value)) or (of_minors and _is_yes(value)):
        return True
    if written or not isinstance(value, str):
        return False
    if _may_be_json(value):
        return not _items(value) and _looks_flagged(value.encode("utf-8", "surrogatepass"))
    is_id = key.lower().endswith("id") and any(map(str.isdigit, value))  # a random one may hold any letters
    return len(value) <= _FLAG_CHARACTERS_MAX and not is_id and _names_flag(_lower(value))


@lru_cache(maxsize=4096)
def _kind(key: str) -> tuple[bool, bool]:
    """Whether a key is a flag of the server, and whether it is the category of a moderation service."""
    lower = _lower(key)
    return _PERHAPS.search(lower) is not None, _MINORS.search(lower) is not None


def _is_no(value: Any) -> bool:
    """Whether the value of a flag, and all that is inside it, is a plain no. What is not known is none."""
    if isinstance(value, (dict, list)):
        return all(_is_no(inner) for _, inner in _items(value))
    if isinstance(value, str):
        return value.strip().lower() in _NO
    return value is None or value == 0 or value != value  # NaN, as pandas writes null


def _is_yes(value: Any, inside: bool = False) -> bool:
    """Whether a category is true, or something `inside` it. Fractions are scores; so are numbers in objects."""
    if isinstance(value, (dict, list)):
        return any(_is_yes(nested, inside=True) for _, nested in _items(value))
    if isinstance(value, str):
        word = value.strip().lower()
        return word in _YES or not (inside or word in _NO or _is_number(word))
    return value is True or (isinstance(value, int) and value != 0 and not inside)


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


def _may_be_json(value: str) -> bool:
    return value.lstrip()[:1] in ("{", "[", '"')


def _lower(text: str) -> bytes:
    return text.lower().encode("utf-8", "surrogatepass")


def _names_flag(lower: bytes) -> bool:
    return _IN_TEXT.search(lower) is not None or _MINORS.search(lower) is not None


def _looks_flagged(raw: bytes) -> bool:
    """Whether text that is not JSON names a flag, or is escaped too many times to tell."""
    plain = _unescaped(raw)
    return _names_flag(_OTHER_ESCAPE.sub(b" ", plain.lower())) or _ESCAPE.search(plain) is not None


def _unescaped(raw: bytes) -> bytes:
    """The bytes without zero bytes and with escaped ASCII characters decoded, also in JSON inside strings."""
    raw = raw.replace(b"\0", b"")
    for _ in range(_ESCAPED_AGAIN_MAX):
        raw = _BACKSLASHES.sub(rb"\\", raw)
        if not _ESCAPE.search(raw):
            return raw
        raw = _ESCAPE.sub(lambda match: bytes([int(match[1], 16)]), raw)
    return raw


PRESET = "preset:"
"""Prefix of the name of a preset image."""
EMBEDDED_SUFFIX = ".embedded"
"""Suffix of the name of an image that a row of a dataset holds."""
_KEYS = ["source", "line", "conv_id", "images"]
EVIDENCE = "taken down on request"
_REASONS: dict[QuarantineCause, tuple[RejectReason, str]] = {
    QuarantineCause.FLAGGED: (RejectReason.CSAM_FLAGGED, "shares a conversation or image with a flagged one"),
    QuarantineCause.KNOWN_HASH: (RejectReason.KNOWN_HASH, "shares a conversation or image with a known one"),
}


def quarantine_key(name: str) -> str:
    """The key of an image in `quarantine`: its logged name without extension, or its preset path as it is."""
    if name.startswith(PRESET):
        return name
    return name.removesuffix(EMBEDDED_SUFFIX) if name.endswith(EMBEDDED_SUFFIX) else name.rpartition(".")[0] or name


def hold(
    store: Store,
    earlier: list[str],
    new: list[str],
    earlier_ids: pl.DataFrame,
    cause: QuarantineCause,
    conversations: Iterable[str] = (),
    images: Iterable[str] = (),
) -> tuple[list[str], list[str], pl.DataFrame, pl.DataFrame]:
    """Remove quarantined lines from parts of `sightings`; from `earlier` parts only when something new is quarantined.

    `earlier_ids` is the `quarantine` table so far; `conversations` and `images` are conv_ids and image names to add.

    Returns:
        (earlier parts, new parts, rows of `quarantine` for the cause, rejects of removed lines)
    """
    earlier_ids = earlier_ids.filter(cause=cause.value)
    keys = {kind: set(earlier_ids.filter(kind=kind)["key"]) for kind in ("conversation", "image")}
    # conv_ids and image names: those of earlier runs and the new ones
    held_keys = (keys["conversation"].union(conversations), keys["image"].union(images))
    quarantine_rows = quarantined(store, new, *held_keys, cause)
    rejects = [frame_of(Reject, [])]
    if quarantine_rows.height != earlier_ids.height:  # otherwise earlier runs have removed their lines
        quarantine_rows = quarantined(store, earlier + new, *held_keys, cause)
        earlier, line_rejects = withdraw(store, earlier, quarantine_rows, *_REASONS[cause])
        rejects.append(line_rejects)
    new, line_rejects = withdraw(store, new, quarantine_rows, *_REASONS[cause])
    return earlier, new, quarantine_rows, pl.concat([*rejects, line_rejects])


def quarantined(
    store: Store,
    parts: Sequence[str],
    conversations: Iterable[str],
    images: Iterable[str],
    cause: QuarantineCause = QuarantineCause.FLAGGED,
) -> pl.DataFrame:
    """Rows of the `quarantine` table for these conv_ids and image names, and every conversation that shares a line.

    If one side of a vote is quarantined, so is the other, and then every line of the other, and so on.
    """
    held_conv_ids, image_names = set(conversations), set(images)
    grown = bool(held_conv_ids or image_names)
    while grown:
        # each round adds the conversations of the lines that the last one touched, until a round adds none
        touched_conv_ids: set[str] = set()
        for part in parts:
            rows = store.read_part("sightings", part, _KEYS)
            # a row is one line with a sighting that is held; all sightings of these lines are touched
            lines = rows.filter(touches(held_conv_ids, image_names)).select("source", "line").unique()
            touched_conv_ids.update(rows.join(lines, on=["source", "line"], how="semi")["conv_id"])
        grown = not touched_conv_ids <= held_conv_ids
        held_conv_ids |= touched_conv_ids
    # a key is one conversation or one image, in order
    keys = [("conversation", key) for key in sorted(held_conv_ids)] + [("image", key) for key in sorted(image_names)]
    return frame_of(Quarantined, [Quarantined(kind=kind, key=key, cause=cause) for kind, key in keys])


def touches(conversations: Iterable[str], images: Iterable[str]) -> pl.Expr:
    """Whether a sighting belongs to one of the conversations or shows one of the images."""
    image_names = pl.lit(pl.Series(sorted(images), dtype=pl.String).implode())
    has_image = pl.col("images").list.set_intersection(image_names).list.len() > 0
    return pl.col("conv_id").is_in(sorted(conversations)) | has_image


def withdraw(
    store: Store, parts: Sequence[str], held_ids: pl.DataFrame, reason: RejectReason, evidence: str
) -> tuple[list[str], pl.DataFrame]:
    """(parts without the lines that share a conversation or image with `held_ids`, rejects of those lines)."""
    if held_ids.is_empty():
        return list(parts), frame_of(Reject, [])  # unread
    keys = {kind: set(held_ids.filter(kind=kind)["key"]) for kind in ("conversation", "image")}
    is_held = touches(keys["conversation"], keys["image"])
    withdrawn_lines: set[tuple[str, int]] = set()
    for part in parts:
        # A row is one line: all its sightings go, also those of a side that is not quarantined itself.
        withdrawn_lines.update(
            store.read_part("sightings", part, _KEYS).filter(is_held).select("source", "line").iter_rows()
        )
    rejects = [
        Reject(source=source, line=line, reason=reason, evidence=evidence) for source, line in sorted(withdrawn_lines)
    ]
    kept_parts = rows_without(store, "sightings", parts, is_held) if withdrawn_lines else list(parts)
    return kept_parts, frame_of(Reject, rejects)


def withdraw_taken_down(
    store: Store, parts: list[str], new: Iterable[str], tombstones: Tombstones, now: datetime
) -> tuple[list[str], pl.DataFrame]:
    """(parts of `sightings` without lines that were taken down, rejects of those lines). Only `new` parts are searched.

    A conversation that shares a new line with one that was taken down is taken down too.
    """
    touched = taken_down_in(store, list(new), tombstones) if tombstones else set()
    if not touched:
        return parts, frame_of(Reject, [])
    quarantine_rows = quarantined(store, parts, touched, ())
    if set(quarantine_rows["key"]) != touched:
        note_unfinished(store)  # signals and images of the other one are removed when ingest ends
    tombstones.add({TakenDownKind.CONVERSATION: quarantine_rows["key"]}, now)
    return withdraw(store, parts, quarantine_rows, RejectReason.TAKEN_DOWN, EVIDENCE)


def keep_names_out(store: Store, names: Iterable[str], tombstones: Tombstones, now: datetime) -> None:
    """Take down new names of images that were taken down, and the lines that show them, when ingest ends."""
    keys = {quarantine_key(name) for name in names}
    if keys - tombstones.holds(TakenDownKind.IMAGE, keys):
        note_unfinished(store)
        conv_ids = quarantined(store, store.parts("sightings"), (), keys).filter(kind="conversation")["key"]
        tombstones.add({TakenDownKind.IMAGE: keys, TakenDownKind.CONVERSATION: conv_ids}, now)


def taken_down_in(store: Store, parts: Sequence[str], tombstones: Tombstones) -> set[str]:
    """conv_ids in some parts of `sightings` whose conversation, image or user was taken down."""
    conv_ids: set[str] = set()
    for part in parts:
        rows = store.read_part("sightings", part, ["conv_id", "images", "user_id"])
        conversations = tombstones.holds(TakenDownKind.CONVERSATION, rows["conv_id"].unique())
        images = tombstones.holds(TakenDownKind.IMAGE, rows["images"].explode().unique())
        users = tombstones.holds(TakenDownKind.USER, rows["user_id"].unique())
        is_of_user = pl.col("user_id").is_in(sorted(users)).fill_null(False)
        # an id is a conversation of which a sighting, an image or the user was taken down
        conv_ids |= set(rows.filter(touches(conversations, images) | is_of_user)["conv_id"])
    return conv_ids
