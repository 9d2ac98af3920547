"""Persons and addresses, put together from the words that a model labelled and from what addresses are made of."""

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from schemas.signals import PiiSpan

SURE, MAYBE, SURE_SMALL = 0.5, 0.25, 0.8
"""Probability of a word that starts an entity, of one that only continues it, and of a name of one small word."""


class Word(NamedTuple):
    """A word, and the probability that it belongs to a person's name, to an address, and to the name of a street."""

    start: int
    end: int
    person: float
    address: float
    street: float


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
"""Units, boxes and military post, which the model knows badly."""
_LETTERS = re.compile(r"[^\W\d_]{2}")
"""What the name of a street has; the model takes scores and populations for streets."""
_MODEL = re.compile(
    r"(?:llama|mistral|mixtral|qwen|gemma|gemini|claude|gpt|phi|falcon|vicuna|alpaca|deepseek|yi|olmo|grok)"
    r"[ -]?(?:v?\d|opus|sonnet|haiku|pro\b|ultra|flash|nano|large|medium|small)",
    re.I,
)
"""Language models; their size and version look like house numbers."""
_WHOLE = re.compile(r"box|[afd]po", re.I)
_STREET_WORDS = (
    r"street|st|road|rd|avenue|ave|boulevard|blvd|lane|ln|drive|dr|court|ct|square|sq|terrace|crescent|highway|hwy"
)
_STREETS = re.compile(
    rf"\b\d{{1,5}}[A-Za-z]?,?[^\S\n](?:[A-Z][\w'’.-]{{0,20}}[^\S\n]){{1,3}}(?i:{_STREET_WORDS})\b"
    r"|\b[^\W\d_]{3,20}(?:stra(?:ß|ss)e|gata|gatan|gade|vägen|veien|vej|katu|laan|straat|gasse|utca)[^\S\n]\d{1,4}[A-Za-z]?\b"
)
_NUMBERS_BEFORE = re.compile(r"(?:(?<![\w.,/-])\d{1,6}[A-Za-z]?[^\S\n]{1,2}){1,2}\Z")
_CORNER = re.compile(r"(?:\bthe[^\S\n])?\bcorner[^\S\n]of[^\S\n]\Z", re.I)
_OTHER_STREET = re.compile(r"\.?(?:[^\S\n]st\.?)?[^\S\n]and[^\S\n]\S+(?:[^\S\n][^\W\d_]+){1,2}", re.I)


def persons(text: str, words: Sequence[Word]) -> Iterator[PiiSpan]:
    """Names: neighbouring words on one line, with the initials between and behind them."""
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
    """Stretches that hold a street with something else, a box or a military post, with all that belongs to them."""
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
        street = any(word.street >= SURE and _LETTERS.search(text, word.start, word.end) for word in run)
        if street and (numbered or corner) and not _MODEL.match(text, start):
            yield _span("address", start, end, [word.address for word in run])


def _runs(text: str, chances: Sequence[tuple[Word, float]], gap: re.Pattern[str]) -> Iterator[list[Word]]:
    """Neighbours of which one at least is sure; the ends are never less likely than MAYBE."""
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
