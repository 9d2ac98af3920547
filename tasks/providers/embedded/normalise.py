"""Undoes spellings that hide personal data, and maps what is found back to the text as it was written."""

import html
import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterable
from functools import cache
from itertools import accumulate
from typing import NamedTuple
from urllib.parse import unquote

from schemas.signals import PiiSpan

_REMOVED = frozenset("\u034f\u20e3\u115f\u1160\u17b4\u17b5\u3164\uffa0")
"""Characters without width that Unicode does not count as format characters, and the keycap around a digit."""
_COMPATIBLE = ("<wide>", "<narrow>", "<small>", "<font>", "<compat>", "<noBreak>")
"""Compatibility forms that are undone; exponents, fractions and numbers in circles stay, as mathematics needs them."""
_HYPHENS = "\u2010\u2011\u2012\u2212\ufe58\ufe63\uff0d"
_SIGN = re.compile(
    r"[&%\\\[({\x80-\xad\u0300-\u036f\u0530-\u3040\u3099-\u309c\u30fb-\u30ff\u3300-\u33ff\ua000-\uabff\ud7a4-\U0010ffff]"
)
"""Where a replaced part begins, but for one blank: leaves out letters of common scripts, which stay as they are."""
_CHANGED = re.compile(
    r"(?P<escape>&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z]{2,8});"
    r"|%[2-7][0-9A-Fa-f]|%[C-Fc-f][0-9A-Fa-f](?:%[89ABab][0-9A-Fa-f]){1,3}"
    r"|\\(?:u[0-9a-fA-F]{4}|u\{[0-9a-fA-F]{1,6}\}|x[0-9a-fA-F]{2}|U000[0-9a-fA-F]{5}|[nrt](?=[\d+])))"
    r"|(?P<dot>(?:(?<=\w)|(?<=\w ))(?:\[ ?(?:\.|(?i:dot)) ?\]|[({] ?\. ?[)}]) ?(?=\w)"
    r"|(?<=[0-9A-Za-z])[\u3002\uff61](?=[0-9A-Za-z]))"
    r"|(?P<at>(?:(?<=\w)|(?<=\w ))(?:\[ ?@ ?\]|\( ?@ ?\)|\{ ?@ ?\}) ?(?=\w))"
    r"|(?P<dash>(?:(?<=[\dA-Z)])|(?<=[\dA-Z)] ))[\u2013\u2014\u2015\u30fc] ?(?=[\dA-Z(]))"
    r"|(?P<character>[^\x00-\x7f])"
)
_FOR = {"dot": ".", "at": "@", "dash": "-"}


class Normalised(NamedTuple):
    """A normalised text, and where each replaced part begins and ends in it and in the original."""

    text: str
    starts: list[int]
    ends: list[int]
    original_starts: list[int]
    original_ends: list[int]

    def original(self, span: PiiSpan) -> PiiSpan:
        """The span with its offsets in the original text."""
        if not self.starts:
            return span
        return span.model_copy(update={"start": self._at(span.start)[0], "end": self._at(span.end - 1)[1]})

    def _at(self, place: int) -> tuple[int, int]:
        """Start and end in the original of one character."""
        part = bisect_right(self.starts, place) - 1
        if part < 0:
            return place, place + 1
        if place < self.ends[part]:
            return self.original_starts[part], self.original_ends[part]
        moved = self.original_ends[part] - self.ends[part]
        return place + moved, place + moved + 1


def normalised(text: str) -> Normalised:
    """The text with digits, blanks, hyphens and letters in their plain form, and one level of escapes undone.

    Format characters go; HTML entities, percent and backslash escapes, and dots in brackets become what they stand for.
    """
    parts: list[tuple[int, int, str]] = []
    end = 0
    for sign in _SIGN.finditer(text):
        found = _CHANGED.match(text, sign.start()) if sign.start() >= end else None
        plain = _undone(found) if found else None
        if found is None or plain is None or plain == found.group():
            continue
        start, mark = found.start(), not plain and unicodedata.category(text[sign.start()])[0] == "M"
        if mark and parts and start == end:  # belongs to the character before, which is replaced already
            parts[-1] = (parts[-1][0], found.end(), parts[-1][2])
        else:
            before = start > end and (mark or (found.lastgroup in _FOR and text[start - 1] == " "))
            parts.append((start - before, found.end(), text[start - 1] if before and mark else plain))
        end = found.end()
    return replaced(text, parts)


def replaced(text: str, parts: Iterable[tuple[int, int, str]]) -> Normalised:
    """The text with something else from each start to each end, in order and without overlaps."""
    pieces: list[str] = []
    spans: list[tuple[int, int]] = []
    end = 0
    for start, stop, plain in parts:
        pieces += (text[end:start], plain)
        spans.append((start, stop))
        end = stop
    edges = list(accumulate(map(len, pieces)))
    originals = [start for start, _ in spans], [end for _, end in spans]
    return Normalised("".join([*pieces, text[end:]]), edges[::2], edges[1::2], *originals)


def _undone(found: re.Match[str]) -> str:
    kind = found.lastgroup or ""
    if kind == "escape":
        return "".join(map(_plain, _unescaped(found.group())))
    return _FOR.get(kind) or _plain(found.group())


def _unescaped(found: str) -> str:
    """The characters of an escape; itself where it stands for none."""
    if found[0] in "&%":
        return html.unescape(found) if found[0] == "&" else unquote(found)
    if found[1] in "nrt":
        return "\n" if found[1] == "n" else " "
    code = int(found[2:].strip("{}"), 16)
    return chr(code) if code < 0x110000 and not 0xD800 <= code < 0xE000 else found


@cache
def _plain(char: str) -> str:
    """One character in its plain form; empty for what has no width, and for accents that stand alone."""
    kind = unicodedata.category(char)
    if kind == "Cf" or char in _REMOVED or "\u0300" <= char <= "\u036f" or "\ufe00" <= char <= "\ufe0f":
        return ""
    if kind in ("Zs", "Zl", "Zp"):
        return " " if kind == "Zs" else "\n"
    if char.isdecimal():
        return str(unicodedata.decimal(char))
    if char in _HYPHENS:
        return "-"
    form, plain = unicodedata.decomposition(char).partition(" ")[0], unicodedata.normalize("NFKC", char)
    undone = form in _COMPATIBLE and (form != "<compat>" or plain.isalnum() or plain == ".")
    return plain if undone else char
