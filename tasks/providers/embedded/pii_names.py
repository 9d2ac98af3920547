"""Finds persons and addresses in texts of any length, from words labelled by a model (rampart.py).

Long texts are split into overlapping windows; sentences that cannot contain a name are skipped.
"""

import itertools
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np

from schemas.signals import PiiSpan
from tasks.providers.embedded.rampart import VERSION, Chances, Rampart

WINDOW_CHARACTERS, OVERLAP_CHARACTERS = 480, 64
TOKENS_MAX = 510
_LATIN = re.compile(r"[A-Za-z\u00c0-\u024f]")
_BREAK = re.compile(r"(?<=[.!?])[^\S\n]+|\n+")
_FIRST_WORD = re.compile(r"[^\S\n]*([A-Z][a-z]*)\b")
_SMALL = re.compile(r"(?<![\w'’-])[a-z]+")
_TELLING = re.compile(r"[A-Z0-9\u00c0-\u00de\u0100-\u1fff\u2c00-\U0010ffff]")

Stretch = tuple[int, int]


class Word(NamedTuple):
    """A word and its probabilities of being part of a person's name, of an address, and of a street name."""

    start: int
    end: int
    person: float
    address: float
    street: float


class NameFinder:
    """Finds persons, and addresses that contain at least a street."""

    version = f"6+{VERSION}"

    def __init__(self) -> None:
        self._model = Rampart()
        self._threads = ThreadPoolExecutor(os.cpu_count())

    def find_names(self, text: str) -> list[PiiSpan]:
        """Addresses, then persons, of the whole text."""
        pieces = [piece for stretch in telling(text) for piece in windows(*stretch)]
        found = self._threads.map(self._words, [text] * len(pieces), pieces)
        words = [word for of_window in found for word in of_window]
        return [*addresses(text, words), *persons(text, words)]

    def _words(self, text: str, window: "Window") -> list[Word]:
        start, end, own = window
        piece = text[start:end]
        if not _LATIN.search(piece):  # the model knows Latin script only
            return []
        ids, offsets = self._model.tokens(piece)
        if len(ids) > TOKENS_MAX + 2:
            middle = (start + end) // 2
            halves = ((start, middle, (own[0], min(own[1], middle))), (middle, end, (max(own[0], middle), own[1])))
            return [word for half in halves for word in self._words(text, half)]
        words = _joined(piece, offsets, self._model.chances(ids))
        return [
            Word(word.start + start, word.end + start, *word[2:])
            for word in words
            if own[0] <= word.start + start < own[1]
        ]


Window = tuple[int, int, Stretch]
"""Start and end of the model input, and the interval whose words are taken from this window."""


def windows(start: int, end: int) -> Iterator[Window]:
    """Overlapping windows; each character is assigned to the window with more context around it."""
    half = OVERLAP_CHARACTERS // 2
    first = start
    while True:
        last = min(end, first + WINDOW_CHARACTERS)
        yield first, last, (first + half * (first > start), last - half * (last < end))
        if last == end:
            return
        first = last - OVERLAP_CHARACTERS


def telling(text: str) -> list[Stretch]:
    """Intervals that may contain a name or address: all of a short text, and of a long one what is not plain.

    A plain sentence has a first word that occurs in lower case elsewhere in the text, and no other capital letter,
    digit or non-ASCII letter.
    """
    if len(text) <= WINDOW_CHARACTERS:
        return [(0, len(text))]
    small = set(_SMALL.findall(text))
    ends = [*(found.end() for found in _BREAK.finditer(text)), len(text)]
    sentences = itertools.pairwise([0, *ends])
    return list(_merged((start, end) for start, end in sentences if not _plain(text[start:end], small)))


def _plain(sentence: str, small: set[str]) -> bool:
    first = _FIRST_WORD.match(sentence)
    return first is not None and first[1].lower() in small and not _TELLING.search(sentence, first.end(1))


def _merged(stretches: Iterable[Stretch]) -> Iterator[Stretch]:
    """Merge adjacent intervals."""
    current: Stretch | None = None
    for start, end in stretches:
        if current and start == current[1]:
            current = (current[0], end)
        else:
            if current:
                yield current
            current = (start, end)
    if current:
        yield current


def _joined(text: str, offsets: Sequence[Stretch], chances: Chances) -> Iterator[Word]:
    """Words with the mean probabilities of their tokens; `chances` is float32 (tokens, 3)."""
    shown = [index for index, (start, end) in enumerate(offsets) if end > start]
    firsts = [at for at, index in enumerate(shown) if not at or _apart(text, offsets[shown[at - 1]], offsets[index])]
    if not firsts:
        return
    ends = [*firsts[1:], len(shown)]
    means = np.add.reduceat(chances[shown], firsts) / np.diff([*firsts, len(shown)])[:, None]
    for first, end, (person, address, street) in zip(firsts, ends, means.tolist(), strict=True):
        yield Word(offsets[shown[first]][0], offsets[shown[end - 1]][1], person, address, street)


def _apart(text: str, left: Stretch, right: Stretch) -> bool:
    return left[1] < right[0] or not (text[left[1] - 1].isalnum() and text[right[0]].isalnum())


SURE, MAYBE, SURE_SMALL = 0.5, 0.25, 0.8
"""Least probability of one word of an entity, of every other word, and of a name of a single lower-case word."""
SURE_STREET = 0.9
"""Least probability of a street whose name has no word such as `road`."""

_INITIAL = r"[^\W\d_]\.?"
_PERSON_GAP = re.compile(rf"[^\S\n]?['.\u2019-]?[^\S\n]?(?:{_INITIAL}[^\S\n]){{0,2}}")
_CAPITALISED = r"[^\S\n](?=[^\W\d_a-z])[^\W\d_]+(?:[-'’][^\W\d_]+)*"
_AFTER_INITIAL = re.compile(rf"\.?{_CAPITALISED}")
_WITH_INITIALS = re.compile(rf"(?:[^\S\n]{_INITIAL}){{1,2}}{_CAPITALISED}")

_ADDRESS_GAP = re.compile(r"(?:(?!\.\s)[\s,.;:'’>?#|()/-]){0,8}")
_LETTERED = r"[^\W_][^\n,]{0,30}"
_PARTS = re.compile(
    r"\b(?:psc|unit)[^\S\n]\d{1,5},?[^\S\n]box[^\S\n]\d{1,5}\s{1,2}[afd]po[^\S\n]a[aep][^\S\n]\d{5}\b"
    rf"|\bus(?:ns|nv|cgc|s)[^\S\n]{_LETTERED}\s{{1,2}}[afd]po[^\S\n]a[aep][^\S\n]\d{{5}}\b"
    r"|\b(?:apt|apartment|suite|ste|unit|flat|floor|room|bldg|building)\b\.?[^\S\n]{0,2}#?\d{1,5}[A-Za-z]?\b"
    r"|\bp\.?[^\S\n]?o\.?[^\S\n]?box[^\S\n]{0,2}\d{1,6}\b",
    re.I,
)
"""Units, boxes and military post, which the model often misses."""
_LETTERS = re.compile(r"[^\W\d_]{2}")
"""A street name must have two letters in a row; the model takes scores and populations for streets."""
_MODEL = re.compile(
    r"(?:llama|mistral|mixtral|qwen|gemma|gemini|claude|gpt|phi|falcon|vicuna|alpaca|deepseek|yi|olmo|grok)"
    r"[ -]?(?:v?\d|opus|sonnet|haiku|pro\b|ultra|flash|nano|large|medium|small)",
    re.I,
)
"""Names of language models, whose sizes and versions look like house numbers."""
_WHOLE = re.compile(r"box|[afd]po", re.I)
_STREET_WORDS = (
    r"street|st|road|rd|avenue|ave|boulevard|blvd|lane|ln|drive|dr|court|ct|square|sq|terrace|crescent|highway|hwy"
)
_STREETS = re.compile(
    rf"\b\d{{1,5}}[A-Za-z]?,?[^\S\n](?:[A-Z][\w'’.-]{{0,20}}[^\S\n]){{1,3}}(?i:{_STREET_WORDS})\b"
    r"|\b[^\W\d_]{3,20}(?:stra(?:ß|ss)e|gata|gatan|gade|vägen|veien|vej|katu|laan|straat|gasse|utca)[^\S\n]\d{1,4}[A-Za-z]?\b"
)
_DAY = (
    r"\d{1,2}º?[^\S\n]de[^\S\n](?:enero|febrero|marzo|abril|mayo|junio|julio|agosto|septiembre|octubre|noviembre|diciembre"
    r"|janeiro|fevereiro|março|maio|junho|julho|setembro|outubro|novembro|dezembro)"
    r"|[^\W\d][^\d,]{2,40}[^\S\n]\d{1,2}\.?[^\S\n](?:janvier|février|mars|avril|mai|juin|juillet|août|septembre|octobre"
    r"|novembre|décembre|gennaio|febbraio|marzo|aprile|maggio|giugno|luglio|agosto|settembre|ottobre|dicembre|märz|juni)"
)
"""A day that streets are named after; in front of the number stands no house."""
_NOBODYS = re.compile(
    rf"(?:(?:the|route|gleis|platform|track|gate|terminal|{_STREET_WORDS})[^\S\n]\d{{1,3}}[a-z]?|[^a-z]*\bpH[^\S\n]\d.*"
    rf"|[a-z]{{1,2}}-?\d{{1,4}}[^\S\n](?:{_STREET_WORDS}|motorway|freeway|interstate|expressway)"
    rf"|\d{{1,3}}(?:st|nd|rd|th)[^\S\n](?:{_STREET_WORDS})"
    rf"|[^\d,]{{0,40}}(?:{_DAY})\b\D*"
    r"|\d{1,4}\t.*|.*(?:\d:\d|[^\S\n]-{1,2}[a-z]+[^\S\n]|[{}=;<\\]|::|\(\)).*)",
    re.I | re.S,
)
"""Roads, squares and platforms that are only counted (`Square 8`, `A21 road`), a street with the name of a day and no
house number (`9 de Julio Avenue`), a row of a table, a pH, and code."""
_STREET_TYPES = (
    r"way|place|pl|plaza|parkway|pkwy|circle|cir|trail|close|row|walk|hill|gardens?|mews|route|rue|av|all[ée]e|chemin|quai"
    r"|impasse|cours|via|viale|piazz(?:a|etta)|corso|largo|strada|vicolo|calle|avenida|avda|carrera|paseo|camino|r[uú]a"
    r"|travessa|praça|estrada|rodovia|str|weg|platz|ulica|ul|aleja|plac|osiedle|ulice|utca|u|út|útja|rkp|trg|tér|bulevardul"
    r"|cad|caddesi|sok|sokak|mah|jalan|jl|đường|phố|box|apt|apartment|suite|ste|unit|flat|floor|room|bldg|building|[afd]po"
    r"|nr|g|pr"
)
_STREET_ENDINGS = (
    r"stra(?:ß|ss)e|str\.|weg|platz|gasse|allee|damm|ufer|straat|laan|plein|gracht|kade|gata|gatan|vägen|gade|vej|veien"
    r"|gate|katu|kuja|polku|utca"
)
_NAMED_STREET = re.compile(
    rf"(?<![^\W\d_])(?:{_STREET_WORDS}|{_STREET_TYPES}|[^\W\d_]{{2,}}(?:{_STREET_ENDINGS}))(?![^\W\d_])", re.I
)
"""A word that names of streets and parts of houses have, in European languages and some others."""
_NO_YEAR = r"(?!(?:1[5-9]|20)\d\d\b)"
_CAPITALISED_WORD = r"(?=[A-Z\u00c0-\u00de])[A-Za-z\u00c0-\u024f]{3,}"
_HOUSE = re.compile(
    rf"(?<![^\W_])(?<!\d[.,:])(?:{_NO_YEAR}\d{{1,5}}[A-Za-z]?(?:[/-]\d{{1,4}})?,?[^\S\n]{_CAPITALISED_WORD}"
    rf"|{_CAPITALISED_WORD},?[^\S\n]{_NO_YEAR}\d{{1,5}}[A-Za-z]?(?![.,:]?\d|[^\W_]))"
)
"""A number, no year, beside a capitalised word in Latin script, as the model reads no other."""
_SIGNED = re.compile(r"(?<!\w)[A-Z]\.[^\S\n]?[A-Z][\w-]+[^\S\n]['’]?\d\d\Z")
"""A painter's signature: an initial, a surname, two digits of the year, and nothing behind them."""
_NUMBER = rf"(?<![\d.,:]){_NO_YEAR}\d{{1,6}}(?![.:]?\d|,\d)"
_NUMBERS = re.compile(rf"{_NUMBER}\D{{0,60}}?[^\W\d_]\D{{0,60}}?{_NUMBER}")
"""Two numbers with a word between them, such as house and postal code; neither is a year or a decimal."""
_NUMBERS_BEFORE = re.compile(r"(?:(?<![\w.,/-])\d{1,6}[A-Za-z]?[^\S\n]{1,2}){1,2}\Z")
_CORNER = re.compile(r"(?:\bthe[^\S\n])?\bcorner[^\S\n]of[^\S\n]\Z", re.I)
_OTHER_STREET = re.compile(r"\.?(?:[^\S\n]st\.?)?[^\S\n]and[^\S\n]\S+(?:[^\S\n][^\W\d_]+){1,2}", re.I)


def persons(text: str, words: Sequence[Word]) -> Iterator[PiiSpan]:
    """Person spans: adjacent words on one line, with initials between and after them."""
    likely = [word for word in words if word.person > word.address]
    chances = [(word, word.person) for word in likely if word.person >= SURE or text[word.start].isupper()]
    for run in _runs(text, chances, _PERSON_GAP):
        first, last = run[0], run[-1]
        small = first is last and text[first.start : first.end].islower()
        if _MODEL.match(text, first.start) or (small and first.person < SURE_SMALL):
            continue
        rest = (_AFTER_INITIAL if last.end - last.start == 1 else _WITH_INITIALS).match(text, last.end)
        yield _span("person", run[0].start, rest.end() if rest else last.end, [word.person for word in run])


def addresses(text: str, words: Sequence[Word]) -> Iterator[PiiSpan]:
    """Address spans: a street with a number or a corner, a box, or military post, with adjacent address words."""
    chances = [(word, word.address) for word in words if word.address > word.person]
    formed = [Word(*found.span(), 0, 0.8, 0.8 * bool(_WHOLE.search(found.group()))) for found in _PARTS.finditer(text)]
    formed += [Word(*found.span(), 0, 0.8, 0.8) for found in _STREETS.finditer(text)]
    for run in _runs(text, sorted([*chances, *((part, 0.8) for part in formed)]), _ADDRESS_GAP):
        start, end = run[0].start, max(word.end for word in run)
        before, after = _NUMBERS_BEFORE.search(text, max(0, start - 16), start), text[start:end]
        start = before.start() if before else start
        corner = _CORNER.search(text, max(0, start - 16), start)
        if corner and (other := _OTHER_STREET.match(text, end)):
            start, end = corner.start(), other.end()
        numbered = before or any(char.isdigit() for char in after)
        street = max((word.street for word in run if _LETTERS.search(text, word.start, word.end)), default=0.0)
        nobodys = _MODEL.match(text, start) or _NOBODYS.fullmatch(text, start, end)
        as_written = corner or (numbered and _has_form(text, start, end, street))
        if street >= SURE and as_written and not nobodys:
            yield _span("address", start, end, [word.address for word in run])


def _has_form(text: str, start: int, end: int, street: float) -> bool:
    """Whether a likely address is written as one: with a word such as `road`, two numbers, or a name and a number."""
    if _NAMED_STREET.search(text, start, end) or _NUMBERS.search(text, start, end):
        return True
    return (
        street >= SURE_STREET
        and bool(_HOUSE.search(text, start, end))
        and not _SIGNED.search(text, max(0, start - 4), end)
    )


def _runs(text: str, chances: Sequence[tuple[Word, float]], gap: re.Pattern[str]) -> Iterator[list[Word]]:
    """Runs of adjacent words with at least MAYBE each, of which at least one has SURE."""
    run: list[Word] = []
    sure = False
    for word, chance in chances:
        if chance < MAYBE:
            continue
        reach = max((other.end for other in run), default=0)
        if run and word.start > reach and not gap.fullmatch(text, reach, word.start):
            if sure:
                yield run
            run, sure = [], False
        run.append(word)
        sure = sure or chance >= SURE
    if sure:
        yield run


def _span(kind: str, start: int, end: int, chances: Sequence[float]) -> PiiSpan:
    return PiiSpan(type=kind, start=start, end=end, confidence=max(SURE, sum(chances) / len(chances)))
