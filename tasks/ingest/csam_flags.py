"""Whether a log line or dataset row says that the server flagged it as child abuse.

The flag is the key `has_csam_image`, wherever it stands: in the record, its states, nested objects and lists, twice in
one object, spelled with escapes, or in JSON that is itself a string. Any value but a plain false or null means yes.
What a user or a model writes about the flag does not count.
"""

import json
import re
from collections.abc import Iterator
from typing import Any

_FLAG = "has_csam_image"
_FLAG_SET = re.compile(rb'has_csam_image(?!\\*"\s*:\s*(?:false|null)\b)')
"""The flag, followed by anything but a plain no."""
_BACKSLASHES = re.compile(rb"\\+")
_ESCAPE = re.compile(rb"\\u00([3-7][0-9a-fA-F])")
_ESCAPED_AGAIN_MAX = 8
_NAME = re.compile(rb"[0-9a-f]{32}")
_NOTABLE = re.compile(rb"[0-9a-f]{32}|has_csam_image[^,}]{0,32}")
_TEXT_KEYS = frozenset({"messages", "conversation", "conversation_a", "conversation_b", "content", "text"})
"""Strings below these keys are what people and models wrote, not JSON of the server."""


def line_is_flagged(raw: bytes) -> bool:
    """Whether a flag is set anywhere in a line. Of a line that is not JSON, whether it looks as if one were."""
    if b"\\u00" not in raw and not _FLAG_SET.search(raw):
        return False
    try:
        return row_is_flagged(_parsed(raw))
    except (ValueError, RecursionError):
        return _looks_flagged(raw)


def row_is_flagged(row: Any) -> bool:
    """Whether a flag is set anywhere in a row of a table."""
    return any(value is not None and value is not False for value in _values(_FLAG, row))


def ids_in(raw: bytes) -> tuple[set[str], set[str]]:
    """(conversation ids, picture names) in a flagged line: too much is better than too little here.

    In a line too broken to tell its conversations, whatever looks like a name is both.
    """
    names = {name.decode() for name in _NAME.findall(_unescaped(raw))}
    try:
        conv_ids = {value for value in _values("conv_id", _parsed(raw)) if isinstance(value, str)}
    except (ValueError, RecursionError):
        return names, names
    return conv_ids, names - conv_ids


def notable(part: bytes) -> bytes:
    """What of a part of an overlong line has to be known of it: everything that may be a name or a flag."""
    return b" ".join([b"", *_NOTABLE.findall(_unescaped(part))])


def _parsed(raw: bytes) -> Any:
    """JSON with objects as lists of (key, value), so that a key that stands twice in one object is seen twice."""
    return json.loads(raw, object_pairs_hook=list)


def _values(key: str, value: Any, is_text: bool = False) -> Iterator[Any]:
    """Every value under a key, at any depth. Strings are looked into where they hold JSON, unless they `is_text`."""
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
    """Whether text that is not JSON holds the flag without a plain no behind it, or is escaped too often to tell."""
    plain = _unescaped(raw)
    return _FLAG_SET.search(plain) is not None or _ESCAPE.search(plain) is not None


def _unescaped(raw: bytes) -> bytes:
    """The bytes with escaped ASCII characters as themselves, also those in strings that hold JSON."""
    for _ in range(_ESCAPED_AGAIN_MAX):
        raw = _BACKSLASHES.sub(rb"\\", raw)
        if not _ESCAPE.search(raw):
            return raw
        raw = _ESCAPE.sub(lambda found: bytes([int(found[1], 16)]), raw)
    return raw
