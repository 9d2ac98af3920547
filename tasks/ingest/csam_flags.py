"""Whether a line says that the server flagged it as child abuse. What is not a plain no is a yes."""

import json
import re
from contextlib import suppress
from typing import Any

_FLAG = "has_csam_image"
_FLAG_SET = re.compile(rb'has_csam_image(?!\\*"\s*:\s*(?:false|null)\b)')
"""The flag, followed by anything but a plain no."""


def flagged(record: dict[str, Any], states: list[Any]) -> bool:
    """Whether a record, or one of the states that it shows, is flagged."""
    for each in (record, *states):  # noqa: SIM110 (a generator takes twice as long)
        if type(each) is dict and _is_yes(each.get(_FLAG)):
            return True
    return False


def flagged_elsewhere(raw: bytes, record: dict[str, Any], states: list[Any]) -> bool:
    """Whether a flag stands anywhere else in the JSON: in one more state, deeper, or twice in one object.

    Only what a text says of the flag is none.
    """
    told = sum(type(each) is dict and _FLAG in each for each in (record, *states))
    return raw.count(_FLAG.encode()) > told and any(map(_is_yes, _flags(raw)))


def looks_flagged(raw: bytes) -> bool:
    """Whether a line that is not JSON, or no record, has a flag."""
    return _FLAG_SET.search(raw) is not None


def _is_yes(flag: object) -> bool:
    return flag is not None and flag is not False


def _flags(raw: bytes) -> list[Any]:
    """The value of every flag in the JSON of a line, stringified states included; yes where that is not to be known."""
    found: list[Any] = []

    def look(pairs: list[tuple[str, Any]]) -> None:
        found.extend(value for key, value in pairs if key == _FLAG)
        look_into([value for key, value in pairs if key in ("state", "states")])

    def look_into(value: Any) -> None:
        for each in value if type(value) is list else ():
            look_into(each)
        if type(value) is str:
            with suppress(ValueError):
                look_into(json.loads(value, object_pairs_hook=look))

    try:
        json.loads(raw, object_pairs_hook=look)
    except (ValueError, RecursionError):  # stricter than the parser that read the line
        found.append(True)
    return found
