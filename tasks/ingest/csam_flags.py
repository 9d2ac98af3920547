"""Whether a log line or dataset row says that the server flagged it as child abuse.

The flag is the key `has_csam_image`. It is found at any depth: in the record, its states, nested objects and lists, as
a repeated key, spelled with escapes, or in JSON inside a string. Any value except false and null counts as flagged.
Message texts that mention the flag do not count.
"""

import json
import re
from collections.abc import Iterator
from typing import Any

_FLAG = "has_csam_image"
_FLAG_SET = re.compile(rb'has_csam_image(?!\\*"\s*:\s*(?:false|null)\b)')
"""The flag with any value except false and null."""
_BACKSLASHES = re.compile(rb"\\+")
_ESCAPE = re.compile(rb"\\u00([3-7][0-9a-fA-F])")
"""An escaped letter, digit or backslash. Others, such as \\u00e9, cannot hide the flag."""
_ESCAPED_AGAIN_MAX = 8
_NAME = re.compile(rb"[0-9a-f]{32}")
_NOTABLE = re.compile(rb"[0-9a-f]{32}|has_csam_image[^,}]{0,32}")
_TEXT_KEYS = frozenset({"messages", "conversation", "conversation_a", "conversation_b", "content", "text", "reason"})
"""Strings below these keys were written by people and models; they are not searched as JSON."""


def line_is_flagged(raw: bytes) -> bool:
    """Whether a flag is set anywhere in a line. Lines that are not JSON are searched as text."""
    if not _ESCAPE.search(raw) and not _FLAG_SET.search(raw):
        return False
    try:
        return row_is_flagged(_parsed(raw))
    except (ValueError, RecursionError):
        return _looks_flagged(raw)


def row_is_flagged(row: Any) -> bool:
    """Whether a flag is set anywhere in a row of a table."""
    return any(value is not None and value is not False for value in _values(_FLAG, row))


def ids_in(raw: bytes) -> tuple[set[str], set[str]]:
    """(conversation ids, image names) in a flagged line. Everything that looks like an image name is taken as one.

    In a line that cannot be parsed, every such name is taken as a conversation id too.
    """
    names = {name.decode() for name in _NAME.findall(_unescaped(raw))}
    try:
        conv_ids = {value for value in _values("conv_id", _parsed(raw)) if isinstance(value, str)}
    except (ValueError, RecursionError):
        return names, names
    return conv_ids, names - conv_ids


def notable(part: bytes) -> bytes:
    """Everything that may be an image name or a flag in a piece of an overlong line."""
    return b" ".join([b"", *_NOTABLE.findall(_unescaped(part))])


def _parsed(raw: bytes) -> Any:
    """JSON with objects as lists of (key, value), so that repeated keys are all kept."""
    return json.loads(raw, object_pairs_hook=list)


def _values(key: str, value: Any, is_text: bool = False) -> Iterator[Any]:
    """Every value under a key, at any depth, also in strings that hold JSON; with `is_text`, strings are skipped."""
    if isinstance(value, dict):
        value = list(value.items())
    if isinstance(value, list):
        for each in value:
            name, inner = each if isinstance(each, tuple) else (None, each)
            if name == key:
                yield inner
            yield from _values(key, inner, is_text or name in _TEXT_KEYS)
    elif isinstance(value, str) and not is_text and value.lstrip()[:1] in ("{", "[", '"'):
        try:
            inner = _parsed(value.encode("utf-8", "surrogatepass"))
        except (ValueError, RecursionError):
            if key == _FLAG and _looks_flagged(value.encode("utf-8", "surrogatepass")):
                yield True
        else:
            yield from _values(key, inner)


def _looks_flagged(raw: bytes) -> bool:
    """Whether text that is not JSON holds a set flag, or is escaped too many times to tell."""
    plain = _unescaped(raw)
    return _FLAG_SET.search(plain) is not None or _ESCAPE.search(plain) is not None


def _unescaped(raw: bytes) -> bytes:
    """The bytes with escaped ASCII characters decoded, also in JSON inside strings."""
    for _ in range(_ESCAPED_AGAIN_MAX):
        raw = _BACKSLASHES.sub(rb"\\", raw)
        if not _ESCAPE.search(raw):
            return raw
        raw = _ESCAPE.sub(lambda found: bytes([int(found[1], 16)]), raw)
    return raw
