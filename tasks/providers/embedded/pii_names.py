"""Names and addresses in texts of any length: which stretches may hold one, window after window, word by word."""

import itertools
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from schemas.signals import PiiSpan
from tasks.providers.embedded.pii_entities import Word, addresses, persons
from tasks.providers.embedded.rampart import VERSION, Chances, Rampart

WINDOW_CHARACTERS, OVERLAP_CHARACTERS = 480, 64
TOKENS_MAX = 510
_LATIN = re.compile(r"[A-Za-z\u00c0-\u024f]")
_BREAK = re.compile(r"(?<=[.!?])[^\S\n]+|\n+")
_FIRST_WORD = re.compile(r"[^\S\n]*([A-Z][a-z]*)\b")
_SMALL = re.compile(r"(?<![\w'’-])[a-z]+")
_TELLING = re.compile(r"[A-Z0-9\u00c0-\u00de\u0100-\u1fff\u2c00-\U0010ffff]")

Stretch = tuple[int, int]


class NameFinder:
    """Persons, and addresses that hold at least a street."""

    version = f"3+{VERSION}"

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
"""Start and end of what the model sees, and the stretch of it whose words are taken from this window."""


def windows(start: int, end: int) -> Iterator[Window]:
    """Overlapping windows; each character belongs to the one that sees more of what stands around it."""
    half = OVERLAP_CHARACTERS // 2
    first = start
    while True:
        last = min(end, first + WINDOW_CHARACTERS)
        yield first, last, (first + half * (first > start), last - half * (last < end))
        if last == end:
            return
        first = last - OVERLAP_CHARACTERS


def telling(text: str) -> list[Stretch]:
    """The stretches that may name somebody or some place: all of a short text, and of a long one what is not plain.

    A sentence is plain when it is written with a capital, holds no other capital, digit or letter beyond ASCII, and
    the text writes its first word small elsewhere.
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
    """Stretches that touch, as one."""
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
    """Words of the text, each with the mean of its tokens; `chances` is float32 (tokens, 3)."""
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
