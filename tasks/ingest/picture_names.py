"""Picture names as logged -> names that are safe to look up, or the reason why not."""

import re
from collections.abc import Iterable

from schemas.reject import RejectReason

_HASH = re.compile(r"[0-9a-f]{32}")
_BUCKET_URL = re.compile(r"https?://[^\s\\]+/([0-9a-f]{32})(?:\.[a-z]{3,4})?")


def picture_names(logged: Iterable[object]) -> tuple[list[str], list[str]]:
    """(names of 32 hex digits in order of first use, reject reasons of the others).

    A name is the MD5 of the decoded pixels; an early-era line may hold the bucket's address instead.
    """
    names: dict[str, None] = {}
    problems: list[str] = []
    for value in logged:
        match = isinstance(value, str) and (_HASH.fullmatch(value) or _BUCKET_URL.fullmatch(value))
        if match:
            names[match.group(match.lastindex or 0)] = None
        elif isinstance(value, str) and any(mark in value for mark in ("/", "\\", "..")):
            problems.append(RejectReason.IMAGE_PATH_ESCAPE)
        else:
            problems.append(RejectReason.IMAGE_NAME_INVALID)
    return list(names), problems
