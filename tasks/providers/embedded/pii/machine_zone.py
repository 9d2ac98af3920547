"""The lines that a machine reads on passports, visas and identity cards (ICAO 9303), also as recognition spells them.

Recognition reads the letters O, I, S and B as 0, 1, 5 and 8, and the other way round. So both stand for each other in
every field; where that was needed, the zone's check digits decide whether it is one.
"""

import re

from tasks.providers.embedded.pii.numbers import CERTAIN

_LETTER, _DIGIT = "[A-Z0158]", "[0-9OISB]"
_AS_DIGIT = str.maketrans("OISB", "0158")
_FILLED = "[A-Z0-9<]"
_NEXT_LINE = r"\s{1,3}(?:>[^\S\n])?"
_NAME = f"{_LETTER}(?:<?{_LETTER}){{0,29}}<<[A-Z0158<]{{2,39}}"
_HOLDER = f"{_DIGIT}{{7}}[MFX<]{_DIGIT}{{7}}"
"""Birth date with its check digit, sex, and expiry date with its check digit."""
_DATA = f"{_FILLED}{{9}}{_DIGIT}[A-Z0158<]{{3}}{_HOLDER}{_FILLED}{{2,16}}"
"""Line 2 of a passport or visa: number with its check digit, nationality, holder, and more."""
_CARD_DATA = f"{_HOLDER}[A-Z0158<]{{3}}{_FILLED}{{9,12}}"
"""Line 2 of a card with three lines."""
_PASSPORT = f"P[A-Z0158<][A-Z0158<]{{3}}{_NAME}(?:{_NEXT_LINE}{_FILLED}{{28,46}})?"
_LONG = "<(?=[A-Z0-9]{2,14}<)"
"""In the place of the check digit of a number that goes on behind it."""
_CARD = (
    f"[I1ACV][A-Z0-9<][A-Z0158<]{{3}}(?:{_FILLED}{{9}}(?:{_DIGIT}|{_LONG}){_FILLED}{{10,15}}|{_NAME})"
    f"(?:{_NEXT_LINE}{_FILLED}{{28,46}}){{0,2}}"
)
MACHINE_READABLE = f"(?<![A-Z0-9<])(?:{_PASSPORT}|{_CARD}|{_DATA}|{_CARD_DATA}(?:{_NEXT_LINE}{_NAME})?)(?![A-Z0-9<])"
"""All lines of a zone that stand below each other, or one line alone."""
_HOLDERS = re.compile(f"(?=({_HOLDER}))")
"""Overlapping ones too: the letters of Somalia (SOM) are read as the end of a date and a sex."""
_FILLS, _LENGTH_MIN = "<<<<", 28
"""Signs that end a first line, which no check digit covers, and its fewest characters: code shifts capitals too."""


def machine_readable(match: re.Match[str]) -> float | None:
    """Certainty of a zone; None where letters are read as digits, or digits as letters, and no check digit agrees."""
    lines = re.split(_NEXT_LINE, match.group())
    holders = [holder for line in lines for holder in _HOLDERS.findall(line)]
    if any(_checks(holder) for holder in holders):
        return CERTAIN
    if "<" not in match.group():
        return None
    first = lines[0]
    if not holders or (first.startswith("P") and "<<" in first):
        is_long = len(first) >= _LENGTH_MIN or len(lines) > 1 or first[1] == "<"
        is_name = is_long and "<<" in first and not any(map(str.isdigit, first))
        return CERTAIN if is_name or _FILLS in first else None
    is_plain = all(holder.translate(_AS_DIGIT) == holder for holder in holders)
    return CERTAIN if is_plain else None


def _checks(holder: str) -> bool:
    """Whether the check digits of both dates agree."""
    digits = holder.translate(_AS_DIGIT)
    return all(check_digit(date[:6]) == date[6:] for date in (digits[:7], digits[8:]))


def check_digit(field: str) -> str:
    """The check digit of a field (ICAO 9303-3, 4.9): values of its characters by weights 7, 3, 1, modulo 10."""
    values = [0 if sign == "<" else int(sign, 36) for sign in field]
    return str(sum(value * (7, 3, 1)[place % 3] for place, value in enumerate(values)) % 10)
