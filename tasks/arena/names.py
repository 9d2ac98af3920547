"""Names of models in what models say: where they stand as a page shows them, and what may become one.

A name is found in any case, with other separators or none, between marks of Markdown, with characters written as
entities or in compatible forms (NFKC), and only as words of its own: `command-r` is not in `the command rm`.
"""

import html
import re
import unicodedata
from collections.abc import Iterable, Sequence
from functools import lru_cache

from schemas.asked_model import ArenaModel

HIDDEN_NAME = "(name hidden)"
_CHARACTERS_MIN = 2
_HELD_BACK_MAX = 1_000
_UNSEEN = "\0"
"""Stands for a character that is not shown, such as a zero-width one."""
_DASHES = "\u2010\u2011\u2012\u2013\u2014\u2015\u2212\u02d7\u2043\ufe58\ufe63\uff0d"
_ZERO_WIDTH = "\u00ad\u034f\u061c\u180e\u200b\u200c\u200d\u200e\u200f\u2060\u2061\u2062\u2063\u2064\ufeff"
_FOLDED = str.maketrans(dict.fromkeys(_DASHES, "-") | dict.fromkeys(_ZERO_WIDTH, _UNSEEN))
_ENTITY = re.compile(r"&(?:#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,30});")
_UNIT = re.compile(rf"{_ENTITY.pattern}|.", re.S)
"""An entity, or one character."""
_BEGUN_MARK = re.compile(r"(?:&[#A-Za-z0-9]{0,31}|</?[A-Za-z]{0,6}\s?/?)\Z")
_TAG = r"</?[A-Za-z]{1,6}\s?/?>"
_MARKS = rf"(?:[*~`\\\0]|{_TAG}){{0,8}}"
_BETWEEN = rf"{_MARKS}(?:\s?[-_]{{1,4}}\s?|[./:]|\s{{1,2}})?{_MARKS}"
_NO_LETTER = re.compile(rf"{_TAG}|[\s*~`\\\0_./:-]+")
_WORDS = re.compile(r"[\s_./:-]+")
_LETTERS_AND_DIGITS = re.compile(r"(?<=[a-z])(?=[0-9])|(?<=[0-9])(?=[a-z])")
_LOOSE_CHARACTERS_MIN = 4
"""Names of fewer characters are not found with a separator between letters and digits: `o1` is not `o 1`."""


def names_of(models: Iterable[ArenaModel]) -> frozenset[str]:
    """Names of models: in logs, by their servers, and the last part of a path."""
    return frozenset[str]().union(*(_names_in(model.name, model.asked_as) for model in models))


@lru_cache(maxsize=1024)
def _names_in(*called: str) -> frozenset[str]:
    names = {*called, *(name.rstrip("/").rpartition("/")[2] for name in called)}
    return frozenset(name for name in names if len(_letters(_decoded(name)[0])) >= _CHARACTERS_MIN)


def holds_name(text: str, names: frozenset[str]) -> bool:
    """Whether one of the names is in a text."""
    return bool(names) and _pattern(names).search(_decoded(text)[0]) is not None


def without_names(text: str, names: frozenset[str], done: bool) -> str:
    """The text with the names hidden; while it is still coming, without an end that may become one."""
    if not names:
        return text
    if not done:
        text = _BEGUN_MARK.sub("", text)
    read, places = _decoded(text)
    spans = [match.span() for match in _pattern(names).finditer(read)]
    end = len(read) if done else _sure_end(read, spans, names)
    pieces, last = [], 0
    for start, stop in spans:
        if stop <= end:
            pieces += [text[_at(places, last) : _at(places, start)], HIDDEN_NAME]
            last = stop
    return "".join(pieces) + text[_at(places, last) : _at(places, end)]


def _at(places: Sequence[int] | None, place: int) -> int:
    return place if places is None else places[place]


def _sure_end(read: str, spans: Sequence[tuple[int, int]], names: frozenset[str]) -> int:
    """Where the end begins that may become a name, or a longer one. What is in a whole name is sure."""
    first, starts = _begins(names)
    inside = 0
    for begun in first.finditer(read, max(0, len(read) - _HELD_BACK_MAX)):
        place = begun.start()
        while inside < len(spans) and spans[inside][1] <= place:
            inside += 1
        if inside < len(spans) and spans[inside][0] < place:
            continue
        letters = _letters(read[place:])
        if any(name[0] == read[place] and name.startswith(letters) for name in starts):
            return place
    return len(read)


@lru_cache(maxsize=1024)
def _begins(names: frozenset[str]) -> tuple[re.Pattern[str], tuple[str, ...]]:
    """The first characters of names where a word may begin in a decoded text, and the letters of each name."""
    starts = tuple(_letters(_decoded(name)[0]) for name in names)
    # a letter or a digit inside a word begins no name; before any other character may stand what likes
    firsts = [(r"(?<![A-Za-z0-9])" if re.match("[A-Za-z0-9]", name) else "") + re.escape(name[0]) for name in starts]
    return re.compile("|".join(sorted({*firsts}))), starts


def _letters(read: str) -> str:
    return _NO_LETTER.sub("", read)


@lru_cache(maxsize=1024)
def _pattern(names: frozenset[str]) -> re.Pattern[str]:
    """The names, longest first, in a decoded text."""
    longest = sorted(names, key=lambda name: (-len(_letters(_decoded(name)[0])), name))
    return re.compile("(?<![a-z0-9])(?:" + "|".join(map(_spelled, longest)) + ")(?![a-z0-9])")


def _spelled(name: str) -> str:
    words = [word for word in _WORDS.split(_decoded(name)[0].replace(_UNSEEN, "")) if word]
    if sum(map(len, words)) >= _LOOSE_CHARACTERS_MIN:
        words = [part for word in words for part in _LETTERS_AND_DIGITS.split(word)]
    return _BETWEEN.join(_MARKS.join(re.escape(character) for character in word) for word in words)


def _decoded(text: str) -> tuple[str, list[int] | None]:
    """A text as it is read, in lower case, and the place in the text of each character of it (None: the same one)."""
    if not _ENTITY.search(text) and unicodedata.is_normalized("NFKC", text):
        read = text.translate(_FOLDED).lower()
        if len(read) == len(text):
            return read, None
    pieces, places = list[str](), list[int]()
    for unit in _UNIT.finditer(text):
        pieces.append(unicodedata.normalize("NFKC", html.unescape(unit[0])).translate(_FOLDED).lower())
        places += [unit.start()] * len(pieces[-1])
    return "".join(pieces), [*places, len(text)]
