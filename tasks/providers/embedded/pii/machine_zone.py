"""The lines that a machine reads on passports, visas and identity cards (ICAO 9303), also as recognition spells them.

In: text in capitals. Out: `MACHINE_READABLE`, a pattern of whole zones, and the certainty of a match of it. Recognition
reads the letters O, I, S and B as 0, 1, 5 and 8, and the other way round. So both stand for each other in every field;
where that was needed, the zone's check digits decide whether it is one. `<` fills what a name or number leaves free. A
further kind of document is a pattern of its lines, and a term of `MACHINE_READABLE`.
"""

import re

from tasks.providers.embedded.pii.numbers import CERTAIN

_LETTER, _DIGIT = "[A-Z0158]", "[0-9OISB]"
"""A letter or digit, also as recognition misreads it."""
_DIGIT_OF_LETTER = str.maketrans("OISB", "0158")
_FILLED = "[A-Z0-9<]"
"""Any character of a zone."""
_NEXT_LINE = r"\s{1,3}(?:>[^\S\n])?"
"""The end of a line; in Markdown, the next one may be quoted."""
_HOLDER_NAME = f"{_LETTER}(?:<?{_LETTER}){{0,29}}<<[A-Z0158<]{{2,39}}"
"""Surname << given names, with < for blanks."""
_DATES = f"{_DIGIT}{{7}}[MFX<]{_DIGIT}{{7}}"
"""Birth date (yymmdd) with its check digit, sex, and expiry date with its check digit: 15 characters."""
_PASSPORT_LINE_2 = f"{_FILLED}{{9}}{_DIGIT}[A-Z0158<]{{3}}{_DATES}{_FILLED}{{2,16}}"
"""Line 2 of a passport or visa: number with its check digit, nationality, dates, and more."""
_CARD_LINE_2 = f"{_DATES}[A-Z0158<]{{3}}{_FILLED}{{9,12}}"
"""Line 2 of a card with three lines."""
_PASSPORT = f"P[A-Z0158<][A-Z0158<]{{3}}{_HOLDER_NAME}(?:{_NEXT_LINE}{_FILLED}{{28,46}})?"
"""Line 1 of a passport, and the line below it if there is one."""
_NUMBER_GOES_ON = "<(?=[A-Z0-9]{2,14}<)"
"""In the place of the check digit of a number that is longer than its field and goes on behind it."""
_CARD = (
    f"[I1ACV][A-Z0-9<][A-Z0158<]{{3}}(?:{_FILLED}{{9}}(?:{_DIGIT}|{_NUMBER_GOES_ON}){_FILLED}{{10,15}}|{_HOLDER_NAME})"
    f"(?:{_NEXT_LINE}{_FILLED}{{28,46}}){{0,2}}"
)
"""Line 1 of a card or visa, with a number or a name, and up to two lines below it."""
MACHINE_READABLE = (
    f"(?<![A-Z0-9<])(?:{_PASSPORT}|{_CARD}|{_PASSPORT_LINE_2}|{_CARD_LINE_2}(?:{_NEXT_LINE}{_HOLDER_NAME})?)"
    "(?![A-Z0-9<])"
)
"""All lines of a zone that stand below each other, or one line alone."""
HINT = f"<|{_DATES}"
"""A sign of every zone: a filler, or the dates of a line 2 whose other fields are full."""
_OVERLAPPING_DATES = re.compile(f"(?=({_DATES}))")
"""`_DATES` at every position: the letters of Somalia (SOM) before them are also read as the end of a date and a sex."""
_FILLERS, _NAME_LINE_MIN = "<<<<", 28
"""The end of a line with a name, and its fewest characters: no check digit covers it, and code shifts capitals too."""


def machine_readable(match: re.Match[str]) -> float | None:
    """Certainty of a zone; None where letters are read as digits, or digits as letters, and no check digit agrees."""
    lines = re.split(_NEXT_LINE, match.group())
    dates = [candidate for line in lines for candidate in _OVERLAPPING_DATES.findall(line)]
    if any(_check_digits_agree(candidate) for candidate in dates):
        return CERTAIN
    # Without check digits that agree, a number without fillers may be any code of capitals and digits.
    if "<" not in match.group():
        return None
    # A line 1 has no dates: it is a name if it is as long as one or ends in fillers. Code shifts capitals, too.
    first = lines[0]
    if not dates or (first.startswith("P") and "<<" in first):
        is_long = len(first) >= _NAME_LINE_MIN or len(lines) > 1 or first[1] == "<"
        is_name = is_long and "<<" in first and not any(map(str.isdigit, first))
        return CERTAIN if is_name or _FILLERS in first else None
    # Plain digits are enough as dates; letters in their place would need check digits that agree.
    has_letters = any(candidate.translate(_DIGIT_OF_LETTER) != candidate for candidate in dates)
    return None if has_letters else CERTAIN


def _check_digits_agree(dates: str) -> bool:
    """Whether the check digits of both of `_DATES` agree, with letters read as digits."""
    digits = dates.translate(_DIGIT_OF_LETTER)
    birth, expiry = digits[:7], digits[8:]
    return check_digit(birth[:6]) == birth[6] and check_digit(expiry[:6]) == expiry[6]


def check_digit(field: str) -> str:
    """The check digit of a field (ICAO 9303-3, 4.9): values of its characters by weights 7, 3, 1, modulo 10."""
    # 0 to 9 for digits, 10 to 35 for letters, 0 for fillers
    values = [0 if character == "<" else int(character, 36) for character in field]
    return str(sum(value * (7, 3, 1)[place % 3] for place, value in enumerate(values)) % 10)
