"""Addresses among words that the model labelled: a street with a number or a corner, a box, or military post."""

import itertools
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from schemas.signals import PiiSpan

CharacterRange = tuple[int, int]
ADDRESS_SURE, MAYBE = 0.5, 0.25
"""Least probability of one word of an entity, and of every other word."""
MODEL_NAME = re.compile(
    r"(?:llama|mistral|mixtral|qwen|gemma|gemini|claude|gpt|phi|falcon|vicuna|alpaca|deepseek|yi|olmo|grok)"
    r"[ -]?(?:v?\d|opus|sonnet|haiku|pro\b|ultra|flash|nano|large|medium|small)",
    re.I,
)
"""Names of language models, whose sizes and versions look like house numbers."""


class Word(NamedTuple):
    """A word and its probabilities of being part of a person's name, of an address, and of a street name."""

    start: int
    end: int
    person: float
    address: float
    street: float


def runs(text: str, chances: Sequence[tuple[Word, float]], gap: re.Pattern[str]) -> Iterator[list[Word]]:
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
        sure = sure or chance >= ADDRESS_SURE
    if sure:
        yield run


def span(kind: str, start: int, end: int, chances: Sequence[float]) -> PiiSpan:
    """A span with the mean of the probabilities as its confidence."""
    return PiiSpan(type=kind, start=start, end=end, confidence=max(ADDRESS_SURE, sum(chances) / len(chances)))


SURE_STREET = 0.9
"""Least probability of a street whose name has no word such as `road`."""

SURE_UNLISTED = 0.97
"""Least probability of the words of an address that has no listed word."""

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
_HOUSE_BEHIND = re.compile(r"[,\s]{0,2}(?:#|n[oº°]\.?[º°]?|n[uú]m(?:ero)?\.?)[^\S\n]{0,2}\d{1,5}(?!\w)", re.I)
"""A house number that is called one, behind the name of a street."""
_CALLED_NUMBER = re.compile(r"(?<!\w)n[oº°]\.?[^\S\n]{0,2}\Z", re.I)
"""Words that call the number behind them one: `Shaleh No.98 Husein`."""
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
_HOUSE_NUMBER = re.compile(rf"{_NO_YEAR}\d{{1,4}}[A-Za-z]?")
_ROOM = re.compile(
    r"(?<![^\W\d_])(rooms?|units?|level|floor|hall|apt|apartment|suite|flat|plot|lot|stairs?|office|lab|gate|door|raum"
    r"|zimmer|salle|sala|aula|house|block|bldg|building)\b\.?[^\S\n]{0,2}#?\d{1,4}[A-Za-z]?(?!\w)",
    re.I,
)
"""A numbered room or part of a house."""
ROOM_CHARACTERS = 12
"""How far before a span the word of its first number may stand."""
_NUMBER = rf"(?<![\d.,:]){_NO_YEAR}\d{{1,6}}(?![.:]?\d|,\d)"
_NUMBERS = re.compile(rf"{_NUMBER}\D{{0,60}}?[^\W\d_]\D{{0,60}}?{_NUMBER}")
"""Two numbers with a word between them, such as house and postal code; neither is a year or a decimal."""
_NUMBERS_BEFORE = re.compile(r"(?:(?<![\w.,/-])\d{1,6}[A-Za-z]?[^\S\n]{1,2}){1,2}\Z")
_CORNER = re.compile(r"(?:\bthe[^\S\n])?\bcorner[^\S\n]of[^\S\n]\Z", re.I)
_OTHER_STREET = re.compile(r"\.?(?:[^\S\n]st\.?)?[^\S\n]and[^\S\n]\S+(?:[^\S\n][^\W\d_]+){1,2}", re.I)


def addresses(text: str, words: Sequence[Word]) -> Iterator[PiiSpan]:
    """Address spans: a street with a number or a corner, a box, or military post, with adjacent address words."""
    chances = [(word, word.address) for word in words if word.address > word.person]
    formed = [Word(*form.span(), 0, 0.8, 0.8 * bool(_WHOLE.search(form.group()))) for form in _PARTS.finditer(text)]
    formed += [Word(*form.span(), 0, 0.8, 0.8) for form in _STREETS.finditer(text)]
    for run in runs(text, sorted([*chances, *((part, 0.8) for part in formed)]), _ADDRESS_GAP):
        start, end = run[0].start, max(word.end for word in run)
        before, after = _NUMBERS_BEFORE.search(text, max(0, start - 16), start), text[start:end]
        start = before.start() if before else start
        corner = _CORNER.search(text, max(0, start - 16), start)
        if house := _HOUSE_BEHIND.match(text, end):
            end = house.end()
        if corner and (other := _OTHER_STREET.match(text, end)):
            start, end = corner.start(), other.end()
        numbered = before or any(char.isdigit() for char in after)
        street = max((word.street for word in run if _LETTERS.search(text, word.start, word.end)), default=0.0)
        nobodys = MODEL_NAME.match(text, start) or _NOBODYS.fullmatch(text, start, end)
        as_written = corner or (numbered and _has_form(text, (start, end), street, run))
        if street >= ADDRESS_SURE and as_written and not nobodys and not _is_plan(text, start, end):
            yield span("address", start, end, [word.address for word in run])


def _has_form(text: str, place: CharacterRange, street: float, run: Sequence[Word]) -> bool:
    """Whether a likely address is written as one: with a word such as `road`, two numbers, or a name and a number."""
    start, end = place
    if _NAMED_STREET.search(text, start, end) or _NUMBERS.search(text, start, end):
        return True
    if _SIGNED.search(text, max(0, start - 4), end):
        return False
    least = ADDRESS_SURE if _CALLED_NUMBER.search(text, max(0, start - 5), start) else SURE_STREET
    return (street >= least and bool(_HOUSE.search(text, start, end))) or _named_and_numbered(text, run)


def _named_and_numbered(text: str, run: Sequence[Word]) -> bool:
    """Whether a number follows a word that is surely of a street's name, in a name with a capital letter.

    So `Brīvības iela 45` is an address, though nobody has listed the word `iela`.
    """
    pairs = itertools.pairwise(run)
    return any(text[word.start].isupper() for word in run if word.street >= SURE_UNLISTED) and any(
        name.street >= SURE_UNLISTED and number.address >= SURE_UNLISTED and _is_house(text, name, number)
        for name, number in pairs
    )


def _is_house(text: str, name: Word, number: Word) -> bool:
    word, house_number = text[name.start : name.end], text[number.start : number.end]
    return (
        word.isalpha()
        and len(word) > 2
        and bool(_HOUSE_NUMBER.fullmatch(house_number))
        and number.start - name.end <= 2
    )


def _is_plan(text: str, start: int, end: int) -> bool:
    """Whether the only numbers are those of rooms of one kind, as on a plan: `Unit 201, Unit 202, Lobby`."""
    rooms = list(_ROOM.finditer(text, max(0, start - ROOM_CHARACTERS), end))
    if len({room[1].lower() for room in rooms}) == len(rooms):
        return False
    outside = set(range(start, end)).difference(*(range(*room.span()) for room in rooms))
    return not any(text[place].isdigit() for place in outside)
