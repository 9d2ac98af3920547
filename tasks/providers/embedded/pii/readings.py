"""Readings of one text: in its plain form without escapes, without marks, and with data undone that somebody hid.

Each reading is made from the one before, so that two ways of hiding are undone too, and maps every place back to the
text as it was written.
"""

import base64
import html
import re
import unicodedata
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cache
from itertools import accumulate, pairwise
from typing import NamedTuple
from urllib.parse import unquote

from schemas.signals import PiiSpan
from tasks.providers.embedded.pii.sieve import Sieve

_REMOVED = re.compile(
    r"[\u0300-\u036f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2065\u20e3\u3164\ufe00-\ufe0f\uffa0\ufff0-\ufff8"
    r"\U000e0000-\U000e0fff]"
)
"""Accents that stand alone, the keycap around a digit, and what Unicode says not to show (Default_Ignorable_Code_Point)
and does not count as format characters: fillers of Hangul, vowels of Khmer, and selectors of variants."""
_COMPATIBLE = ("<wide>", "<narrow>", "<small>", "<font>", "<compat>", "<noBreak>")
"""Compatibility forms that are undone; exponents, fractions and numbers in circles stay, as mathematics needs them."""
_HYPHENS = "\u2010\u2011\u2012\u2212\ufe58\ufe63\uff0d"
_SIGN = re.compile(
    r"[&%\\\[({\x80-\xad\u0300-\u036f\u0530-\u3040\u3099-\u309c\u30fb-\u30ff\u3164\u3300-\u33ff\ua000-\uabff\ud7a4-\U0010ffff]"
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

    def _at(self, offset: int) -> tuple[int, int]:
        """Start and end in the original of one character."""
        part = bisect_right(self.starts, offset) - 1
        if part < 0:
            return offset, offset + 1
        if offset < self.ends[part]:
            return self.original_starts[part], self.original_ends[part]
        moved = self.original_ends[part] - self.ends[part]
        return offset + moved, offset + moved + 1


def normalised(text: str) -> Normalised:
    """The text with digits, blanks, hyphens and letters in their plain form, and one level of escapes undone.

    Format characters go; HTML entities, percent and backslash escapes, and dots in brackets become what they stand for.
    """
    return replaced(text, _escapes(text))


def _escapes(text: str) -> list[tuple[int, int, str]]:
    """Escapes, and characters that are not in their plain form, each with what it stands for."""
    parts: list[tuple[int, int, str]] = []
    end = 0
    for candidate in _SIGN.finditer(text):
        escape = _CHANGED.match(text, candidate.start()) if candidate.start() >= end else None
        plain = _undone(escape) if escape else None
        if escape is None or plain is None or plain == escape.group():
            continue
        start = escape.start()
        is_accent = not plain and unicodedata.category(text[start])[0] == "M"
        if is_accent and parts and start == end:  # belongs to the character before, which is replaced already
            parts[-1] = (parts[-1][0], escape.end(), parts[-1][2])
        else:
            # an accent is replaced with its letter; a dot or at sign in brackets, with the blank before it
            with_previous = start > end and (is_accent or (escape.lastgroup in _FOR and text[start - 1] == " "))
            instead = text[start - 1] if with_previous and is_accent else plain
            parts.append((start - with_previous, escape.end(), instead))
        end = escape.end()
    return parts


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


def _undone(escape: re.Match[str]) -> str:
    kind = escape.lastgroup or ""
    if kind == "escape":
        return "".join(map(_plain, _characters(escape.group())))
    return _FOR.get(kind) or _plain(escape.group())


def _characters(escape: str) -> str:
    """The characters of an escape; itself where it stands for none."""
    if escape[0] in "&%":
        return html.unescape(escape) if escape[0] == "&" else unquote(escape)
    if escape[1] in "nrt":
        return "\n" if escape[1] == "n" else " "
    code = int(escape[2:].strip("{}"), 16)
    return chr(code) if code < 0x110000 and not 0xD800 <= code < 0xE000 else escape


@cache
def _plain(char: str) -> str:
    """One character in its plain form; empty for what has no width, and for accents that stand alone."""
    kind = unicodedata.category(char)
    if kind == "Cf" or _REMOVED.match(char):
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


ESCAPES_MAX = 3
"""Most levels of escapes that are undone."""
Parts = Iterable[tuple[int, int, str]]
ReadingStep = Callable[[str], Parts]
"""Function that gives the parts of a text that a reading replaces, each with what stands there instead."""


class Reading(NamedTuple):
    """A text as it may be read."""

    text: str
    steps: tuple[Normalised, ...]
    """Changes that led to it, the first of them of the text as it was written."""
    strict: bool
    """Whether only matches of a strict form count here: a step may have joined numbers that do not belong together."""
    altering: tuple[ReadingStep, ...]
    """Steps that may change it."""

    def original(self, span: PiiSpan) -> PiiSpan:
        """The span with its offsets in the text as it was written."""
        for step in reversed(self.steps):
            span = step.original(span)
        return span

    def then(self, parts: Parts, strict: bool = False) -> "Reading":
        """The reading after one more change; itself where nothing changed. `strict` if the change makes it strict."""
        changed = replaced(self.text, parts)
        return Reading(changed.text, (*self.steps, changed), self.strict or strict, ()) if changed.starts else self


def readings(texts: Sequence[str]) -> list[list[Reading]]:
    """For each text: without escapes, without marks (the same object where there are none), and further readings."""
    written = _sieved([Reading(text, (), strict=False, altering=()) for text in texts])
    altered = iter(_altered([reading for reading in written if reading.altering]))
    return [next(altered) if reading.altering else [reading] for reading in written]


def _altered(written: list[Reading]) -> list[list[Reading]]:
    """The readings of texts that some step may change."""
    plain = _unescaped(written)
    unmarked = _after(plain, _marks)
    decoded = _after(plain, _decoded, strict=True)
    # what stood in base64 may hold escapes and marks itself; a text without base64 goes on as it is without marks
    pairs = zip(plain, decoded, strict=True)
    of_decoded = iter(_after(_unescaped([after for before, after in pairs if after is not before]), _marks))
    latest = [
        without_marks if after is before else next(of_decoded)
        for before, without_marks, after in zip(plain, unmarked, decoded, strict=True)
    ]
    of_texts = [[*of_text] for of_text in zip(plain, unmarked, latest, strict=True)]
    # indices of the texts in which somebody may have hidden something, which go through all steps of `_HIDDEN`
    hiding = [index for index, reading in enumerate(latest) if reading.altering and _MAY_HIDE.search(reading.text)]
    latest = [latest[index] for index in hiding]
    for hidden in _HIDDEN:
        latest = _unescaped(_after(latest, hidden, strict=True))
        for index, reading in zip(hiding, latest, strict=True):
            of_texts[index].append(reading)
    # the first reading of each text, and every further one that differs from the one before it
    return [
        [of_text[0], *(after for before, after in pairwise(of_text) if after is not before)] for of_text in of_texts
    ]


@cache
def _sieve() -> Sieve[ReadingStep]:
    return Sieve(_STEPS)


def _sieved(unsieved: Sequence[Reading]) -> list[Reading]:
    """Readings with the steps that may change them."""
    passing = _sieve().passing([reading.text for reading in unsieved])
    return [reading._replace(altering=altering) for reading, altering in zip(unsieved, passing, strict=True)]


def _after(earlier_readings: Sequence[Reading], step: ReadingStep, strict: bool = False) -> list[Reading]:
    """Readings after one more step, each itself where that changes nothing; `strict` as in `Reading.then`."""
    # index -> new reading, where the step may change a reading and does
    changed = {
        index: after
        for index, before in enumerate(earlier_readings)
        if step in before.altering and (after := before.then(step(before.text), strict)) is not before
    }
    sieved = dict(zip(changed, _sieved([*changed.values()]), strict=True))
    return [sieved.get(index, before) for index, before in enumerate(earlier_readings)]


_BESIDE_WORDS = re.compile(
    r"[^\S\n]{0,3}(?:[|>$\u2022\u00b7\t]|\n[^\S\n]{0,4}(?:[*+>-]|\d{1,2}[.)])[^\S\n]|\{\"\w{1,12}\":\s?\"|\"\}"
    r"|(?<=[\u0900-\u9fff])_(?=[\u0900-\u9fff])|\n(?=さん|様|씨|님))[^\S\n]{0,3}"
)


def in_one_line(reading: Reading) -> Reading:
    """The text with a blank for each cell, list item, quote or sign of JSON that may part a name from its phrase."""
    parts = ((*separator.span(), " ") for separator in _BESIDE_WORDS.finditer(reading.text))
    return reading.then(_changes(reading.text, parts))


def _unescaped(latest: list[Reading]) -> list[Reading]:
    for _ in range(ESCAPES_MAX):
        latest = _after(latest, _escapes)
    return latest


_TAG = r"</?[A-Za-z][A-Za-z0-9:-]{0,20}(?:\s[^<>@\n]{0,300})?/?>"
_CELL = r"</?(?:td|th|tr|li|ul|ol|p|div|br|table|h\d)\b[^<>@\n]{0,300}>"
_COMMANDS = r"text[a-z]{0,6}|math[a-z]{1,4}|mbox|hbox|emph|underline|verb|url|num|uline"
_MARKS = re.compile(
    r"(?P<removed><!--.{0,500}?-->|\*{2,4}(?!\()|(?<![\w)*])\*(?=\S)|(?<=\S)\*(?![\w(*])|_{2,4}|(?<!\w)_(?=\S)"
    r"|(?<=\S)_(?!\w)|~~|==|`{1,3}"
    r"|[\"']\s{0,3}\+\s{0,3}[\"']|\\(?=[_&%#@$.+(){}*-]))"
    rf"|(?P<cell>{_CELL})"
    rf"|(?P<pair></[A-Za-z][^<>\n]{{0,20}}>\s{{0,2}}<[A-Za-z][^<>@\n]{{0,300}}>)"
    rf"|(?P<tag>{_TAG})"
    r"|(?P<blank>(?<=[\w,.:])(?:[ ]{2,4}|\t)(?=[^\W\d_])|\\[,;:!> ]|\\q?quad\b|(?<=[^\s~])~(?=[^\s~])"
    r"|[^\S\n]?[\u00b7\u2022\u2219\u2027\u30fb\u25aa\u25cf][^\S\n]?(?=\S))",
    re.S,
)
_ENCLOSED = re.compile(
    rf"(?P<open>!?\[)(?P<shown>[^\[\]\n]{{1,200}})(?P<close>\]\([^()\s]{{1,500}}(?:[^\S\n]\"[^\"\n]{{0,200}}\")?\))"
    rf"|(?P<command>\\(?:{_COMMANDS})\{{)(?P<inner>[^{{}}\n]{{1,200}})(?P<end>\}})"
)
_INSTEAD = {"cell": "\n", "pair": " ", "blank": " "}


def _marks(text: str) -> Parts:
    """Marks of markdown, HTML and LaTeX; what parts cells and list items becomes the end of a line."""
    return _changes(text, _every_mark(text))


def _every_mark(text: str) -> Iterator[tuple[int, int, str]]:
    enclosing: list[tuple[int, int, str]] = []
    for mark in _ENCLOSED.finditer(text) if "](" in text or "\\" in text else ():
        names = ("open", "close") if mark["open"] else ("command", "end")
        enclosing += [(*mark.span(name), "") for name in names]
    yield from enclosing
    reached = 0  # enclosing parts before it end before the mark; both stand in order
    for mark in _MARKS.finditer(text):
        start, end = mark.span()
        while reached < len(enclosing) and enclosing[reached][1] <= start:
            reached += 1
        if reached == len(enclosing) or end <= enclosing[reached][0]:
            yield start, end, _INSTEAD.get(mark.lastgroup or "", "")


_BASE64 = re.compile(r"(?<![A-Za-z0-9+/=_-])[A-Za-z0-9+/]{12,4000}={0,2}(?![A-Za-z0-9+/=_-])")


def _decoded(text: str) -> Parts:
    """Base64 of a printable text."""
    for encoded in _BASE64.finditer(text):
        with suppress(ValueError):
            plain = base64.b64decode(encoded.group() + "=" * (-len(encoded.group()) % 4)).decode()
            if plain.replace("\n", "").isprintable() or not plain.isascii():
                yield *encoded.span(), plain


_LATIN = "aeopcxyisjhdlABEHKMOPCTXYISJaeopuvikABEZHIKMNOPTYX"
_LOOKS = dict(zip("аеорсхуіѕјһԁӏАВЕНКМОРСТХУІЅЈαεορυνικΑΒΕΖΗΙΚΜΝΟΡΤΥΧ", _LATIN, strict=True))
"""Letters of Cyrillic and Greek that look like Latin ones (Unicode TR 39)."""
_MIXED = re.compile(r"(?<!\S)(?=\S{0,60}[A-Za-z0-9@])\S{0,60}[\u0370-\u04ff]\S{0,60}")
_AMONG_FIGURES = re.compile(r"(?<![A-Za-z])[+(]?[\dOoIl|](?:[ ./,()_|-]{0,3}[\dOoIl]){6,30}(?![A-Za-z])")
_AS_FIGURE = str.maketrans("OoIl", "0011")
_RAISED = re.compile(r"[\u2070\u2074-\u2079\u00b9\u00b2\u00b3\u2080-\u2089\u2460-\u2468\u24ea]")


def _look_alikes(text: str) -> Parts:
    """Letters of other scripts in words that have Latin ones, letters among digits, and digits raised or in circles."""
    words = _MIXED.finditer(text)
    parts = [(*word.span(), "".join(_LOOKS.get(char, char) for char in word.group())) for word in words]
    for number in _AMONG_FIGURES.finditer(text):
        if 2 * sum(map(str.isdigit, number.group())) >= sum(map(str.isalnum, number.group())):
            parts.append((*number.span(), number.group().translate(_AS_FIGURE)))
    parts += [(*digit.span(), str(unicodedata.digit(digit.group()))) for digit in _RAISED.finditer(text)]
    return _changes(text, parts)


def _changes(text: str, parts: Parts) -> Parts:
    """Parts that change something, in order, without those that overlap an earlier one."""
    reached = 0
    for start, end, plain in sorted(parts):
        if start >= reached and text[start:end] != plain:
            yield start, end, plain
            reached = end


_SAID = {
    word: str(value)
    for language in (
        "zero one two three four five six seven eight nine",
        "null eins zwei drei vier fünf sechs sieben acht neun",
        "zéro un deux trois quatre cinq six sept huit neuf",
        "cero uno dos tres cuatro cinco seis siete ocho nueve",
    )
    for value, word in enumerate(language.split())
} | {"oh": "0", "plus": "+", "dash": "-", "hyphen": "-", "minus": "-", "underscore": "_"}
_SAID_WORD = f"(?:{'|'.join(_SAID)})"
_MAY_HIDE = re.compile(
    rf"\d|@|(?i:\bdot\b)|[A-Za-z0-9+/]{{16}}|[\u2070-\u2089\u2460-\u2473\u24ea]|(?i:\b{_SAID_WORD}[\s,./|_-]{{1,5}}{_SAID_WORD}\b)"
)
"""A text without any of these goes through no step of `_HIDDEN`."""
_COUNTED = re.compile(
    rf"(?i)(?<!\w)(?:{_SAID_WORD}|\d{{1,4}})(?:[\s,./|_-]{{1,5}}(?:{_SAID_WORD}|\d{{1,4}})){{6,40}}(?!\w)"
)
_TOP_LEVEL = "com|org|net|edu|gov|info|io|ai|app|dev|de|fr|es|it|nl|uk|us|eu|ch|at|se|pl|ru|jp"
_ENDING = re.compile(rf"(?i)\sdot\s(?:{_TOP_LEVEL})(?!\w)|@[\w.-]{{1,60}}\.[a-z]")
_SAID_SIGN = re.compile(
    rf"(?i)[^\S\n]{{1,2}}{_SAID_WORD}(?:[^\S\n]{{1,2}}{_SAID_WORD}){{0,8}}(?!\w)(?:[^\S\n]{{1,2}}(?!at\b|dot\b)(?=[\w@]))?"
)
SPELT_CHARACTERS_MAX = 100
"""How far before its last part a spelt-out e-mail address is looked for."""


def _in_words(text: str) -> Parts:
    """Numbers and e-mail addresses that are spelt out in words."""
    parts = []
    for spelt_part in _COUNTED.finditer(text):
        plain = _signs(spelt_part.group())
        if sum(map(str.isdigit, plain)) >= 7 and any(map(str.isalpha, spelt_part.group())):
            parts.append((*spelt_part.span(), plain))
    for spelt_part in _ENDING.finditer(text):
        start = max(0, spelt_part.start() - SPELT_CHARACTERS_MAX)
        parts += [
            (*sign_words.span(), _signs(sign_words.group()))
            for sign_words in _SAID_SIGN.finditer(text, start, spelt_part.end())
        ]
    return _changes(text, parts)


def _signs(words: str) -> str:
    return "".join(_SAID.get(word.lower(), word) for word in re.findall(r"\w+", words))


_ONE = r"(?!(?P=sign))(?:[^\W_](?:[.@:+-](?!(?P=sign))[^\W_])?|[.@:_+。-])"
_SPACED = re.compile(
    rf"(?<!\w)[^\W_+]?[+@]?(?<=[\w+@])(?P<sign>[ ._/*-])(?P=sign){{0,2}}(?:{_ONE}(?P=sign){{1,3}}){{5,80}}[^\W_](?!\w)"
)


def _spaced(text: str) -> Parts:
    """Characters one by one with the same sign between them: `l e n a @ e x a m p l e . c o m`."""
    return (
        (*characters.span(), characters.group().replace(characters["sign"], ""))
        for characters in _SPACED.finditer(text)
    )


_GAP = (
    r"(?:(?<!\b10\.\d{4})\s{0,3}[|/,;_\[\]()]{1,2}[^\S\n]{0,3}|[^\S\n]{2,9}|\t"
    r"|[^\S\n]{0,3}\n(?!\s{0,8}(?:[*+-]|\d{1,3}[.)])\s)[>\s]{0,8})"
)
_BETWEEN = re.compile(
    rf"(?<=[0-9]){_GAP}(?=[0-9(+A-Z])|(?<=[A-Z)]){_GAP}(?=[0-9])"
    r"|(?P<mail>(?<=@)[^\S\n]{0,3}\n[>\s]{0,8})"
)


def _joined(text: str) -> Parts:
    """Groups of digits with more between them than a blank: cells, lines, commas. List items are not joined."""
    return ((*gap.span(), "" if gap["mail"] else " ") for gap in _BETWEEN.finditer(text))


_BACKWARDS = re.compile(
    r"(?<!\S)(?:moc|gro|ten|ude|vog|oi|ed|rf|ku[.\]\[]{1,3}oc)[.\]\[]{1,3}\S{1,60}@\S{1,60}"
    r"|(?<![\d-])\d{4}(?:[ -]\d{4}){3}(?![\d-])|(?<![\d-])\d{5} \d{6} \d{4}(?![\d-])"
)


def _backwards(text: str) -> Parts:
    """E-mail addresses and cards' numbers from their end to their beginning."""
    return ((*backwards_text.span(), backwards_text.group()[::-1]) for backwards_text in _BACKWARDS.finditer(text))


_HIDDEN: dict[ReadingStep, tuple[re.Pattern[str], ...]] = {
    _look_alikes: (_MIXED, _AMONG_FIGURES, _RAISED),
    _in_words: (_COUNTED, _ENDING),
    _spaced: (_SPACED,),
    _joined: (_BETWEEN,),
    _backwards: (_BACKWARDS,),
}
"""Ways of hiding, in the order in which they are undone, and the patterns of which one matches where they were used.

They are undone only where `_MAY_HIDE` matches, too.
"""
_STEPS = {_escapes: (_SIGN,), _marks: (_MARKS, _ENCLOSED), _decoded: (_BASE64,)} | _HIDDEN
"""All steps; only the steps of which a pattern matches in a text are tried on it."""
