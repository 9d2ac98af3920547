"""Finds persons and addresses in texts of any length, from words labelled by a model (rampart.py).

Long texts are split into overlapping windows; sentences that cannot contain a name are skipped.
"""

import itertools
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from schemas.signals import PiiSpan
from tasks.providers.embedded.pii.addresses import addresses
from tasks.providers.embedded.pii.rampart import VERSION, Chances, Rampart
from tasks.providers.embedded.pii.words import MODEL_NAME, SURE, Stretch, Word, runs, span

WINDOW_CHARACTERS, OVERLAP_CHARACTERS = 480, 64
TOKENS_MAX = 510
_LATIN = re.compile(r"[A-Za-z\u00c0-\u024f]")
_BREAK = re.compile(r"(?<=[.!?])[^\S\n]+|\n+")
_FIRST_WORD = re.compile(r"[^\S\n]*([A-Z][a-z]*)\b")
_SMALL = re.compile(r"(?<![\w'’-])[a-z]+")
_TELLING = re.compile(r"[A-Z0-9\u00c0-\u00de\u0100-\u1fff\u2c00-\U0010ffff]")


class NameFinder:
    """Finds persons, and addresses that contain at least a street."""

    version = f"11+{VERSION}"

    def __init__(self) -> None:
        self._model = Rampart()
        self._threads = ThreadPoolExecutor(os.cpu_count())

    def find_names(self, text: str) -> list[PiiSpan]:
        """Addresses, then persons, of the whole text."""
        pieces = [piece for stretch in telling(text) for piece in name_windows(*stretch)]
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


def name_windows(start: int, end: int) -> Iterator[Window]:
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


SURE_SMALL = 0.8
"""Least probability of a name of a single lower-case word."""

_INITIAL = r"[^\W\d_]\.?"
_PERSON_GAP = re.compile(rf"[^\S\n]?['.\u2019-]?[^\S\n]?(?:{_INITIAL}[^\S\n]){{0,2}}")
_CAPITALISED = r"[^\S\n](?=[^\W\d_a-z])[^\W\d_]+(?:[-'’][^\W\d_]+)*"
_AFTER_INITIAL = re.compile(rf"\.?{_CAPITALISED}")
_WITH_INITIALS = re.compile(rf"(?:[^\S\n]{_INITIAL}){{1,2}}{_CAPITALISED}")

_CAPITALISED_ANYWHERE = re.compile(r"[A-Z][a-z]")
_INTRODUCES = re.compile(
    r"(?<![^\W_])(?:name|names|named|name['’]s|is|am|i['’]?m|call|called|calls|me|hi|hey|hello|dear|thanks|friend|wife|husband|son"
    r"|daughter|sister|brother|mother|father|boss|mr|mrs|ms|dr)[\s:,.]{1,3}\Z",
    re.I,
)
"""Words before a name that somebody writes small."""


def persons(text: str, words: Sequence[Word]) -> Iterator[PiiSpan]:
    """Person spans: adjacent words on one line, with initials between and after them."""
    likely = [word for word in words if word.person > word.address]
    written_small = not _CAPITALISED_ANYWHERE.search(text)
    chances = [(word, word.person) for word in likely if word.person >= SURE or text[word.start].isupper()]
    for run in runs(text, chances, _PERSON_GAP):
        first, last = run[0], run[-1]
        small = first is last and text[first.start : first.end].islower()
        if MODEL_NAME.match(text, first.start) or (small and not _may_be_small(text, first, written_small)):
            continue
        rest = (_AFTER_INITIAL if last.end - last.start == 1 else _WITH_INITIALS).match(text, last.end)
        yield span("person", run[0].start, rest.end() if rest else last.end, [word.person for word in run])


def _may_be_small(text: str, word: Word, written_small: bool) -> bool:
    """Whether one lower-case word is a name: in a text without capitals, or where a phrase introduces it."""
    introduced = _INTRODUCES.search(text, max(0, word.start - 16), word.start)
    return word.person >= SURE_SMALL and (written_small or introduced is not None)
