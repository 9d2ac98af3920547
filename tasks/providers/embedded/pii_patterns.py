"""Personal data that has a form: patterns, and checksums where the form has one."""

import ipaddress
import re
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import polars as pl

from schemas.signals import PiiSpan
from tasks.providers.embedded import pii_hints, pii_ids, pii_phones
from tasks.providers.embedded.pii_ids import CERTAIN, LIKELY, digits_of, iban, luhn

Confidence = Callable[[re.Match[str]], float | None]


class Pattern(NamedTuple):
    """A form, and how sure a match is; None when the match is something else after all."""

    type: str
    form: re.Pattern[str]
    """The group `data`, where there is one, is the personal part of a match."""
    confidence: Confidence
    hint: str
    """What every text with a match holds (pii_hints.py)."""


def _form(form: str) -> re.Pattern[str]:
    return re.compile(pii_ids.beside_characters(form))


def _called(match: re.Match[str]) -> float | None:
    return pii_ids.named(match["data"])


def _always(confidence: float) -> Confidence:
    return lambda _: confidence


def _checked(check: pii_ids.Check | None) -> Confidence:
    return lambda match: LIKELY if check is None else CERTAIN if check(match.group()) else None


def _card(match: re.Match[str]) -> float | None:
    number = digits_of(match.group())
    return (
        CERTAIN if 13 <= len(number) <= 19 and number[0] in "23456" and len(set(number)) > 1 and luhn(number) else None
    )


def _ip(match: re.Match[str]) -> float | None:
    try:
        address = ipaddress.ip_address(match.group())
    except ValueError:
        return None
    logged_in = match.string[match.start() - 1 : match.start()] == "@"
    section = not logged_in and re.fullmatch(r"\d(?:\.\d){3}", match.group())  # of a manual; of addresses 1 in 400,000
    version = _VERSION.search(match.string, max(0, match.start() - 40), match.start())
    return None if section or version or address.is_unspecified or address.is_loopback else CERTAIN


_EMAIL = r"[\w.!#$%&'*+/=?^`{|}~-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){0,7}\.[^\W\d_][\w-]{1,62}"
"""The last label begins with a letter: `deploy@1.2.3.4` is a machine, `lodash@4.17.21` a version."""
_VERSION = re.compile(
    r"(?:(?<![A-Za-z])(?:versions?|ver|releases?d?|builds?|firmware|drivers?|kernel|sections?|chapters?|§)"
    r"(?: (?:is|to|from|of|no\.?|number))?\s?[:=]?\s?v?|(?<![A-Za-z])v\.?|[A-Za-z]/|==|>=|<=|~=)\s?\Z",
    re.I,
)
"""What stands before four numbers that say how new a program is, or which part of a book is meant."""
_SPELT_AT = r"(?:\[ ?at ?\]|\( ?at ?\)|\{ ?at ?\}|<at>)"
_SPELT_DOT = r"(?: ?[.] ?| ?[\[({] ?dot ?[\])}] ?| dot )"
_EMAIL_SPELT = (
    rf"(?i)(?<![\w.+-])[\w+-]{{1,40}}(?:{_SPELT_DOT}[\w+-]{{1,40}}){{0,3}} ?{_SPELT_AT} ?"
    rf"[\w-]{{1,63}}(?:{_SPELT_DOT}(?!at\b)[\w-]{{1,63}}){{1,4}}"
    r"|(?<![\w.+-])(?!(?:us|me|you|we|them|him|her|it|are|is|look|meet|visit|here|there|site|website|page|blog|online)\b)"
    r"[\w+-]{2,40}(?:(?:\.| dot )[\w+-]{1,40}){0,3} at (?!(?:the|a|an|my|our|this)\b)[\w-]{1,63}"
    r"(?:(?:\.| dot )[\w-]{1,63}){0,3} dot (?:com|org|net|edu|gov|info|app|dev|[a-z]{2})\b"
)
"""An address spelt out so that machines pass it by: (at), [at], or `at` with `dot`."""
_IPV4 = r"(?<![\d.])(?:\d{1,3}\.){3}\d{1,3}(?![\d]|\.\d)"
_IPV6 = r"(?<![\w:])(?:[0-9a-fA-F]{0,4}:){2,7}[0-9a-fA-F]{0,4}(?![\w:])"
_API_KEY = (
    r"\b(?:sk-(?:proj-|ant-)?[A-Za-z0-9_-]{20,}|gh[pousr]_[A-Za-z0-9]{36,}|AKIA[0-9A-Z]{16}|AIza[0-9A-Za-z_-]{35}"
    r"|xox[abprs]-[0-9A-Za-z-]{10,}|hf_[A-Za-z0-9]{30,}|glpat-[0-9A-Za-z_-]{20,}|github_pat_[0-9A-Za-z_]{30,}|[sr]k_(?:live|test)_[0-9A-Za-z]{16,}"
    r"|npm_[0-9A-Za-z]{36}|pypi-[0-9A-Za-z_-]{50,}|SG\.[0-9A-Za-z_-]{16,32}\.[0-9A-Za-z_-]{30,}"
    r"|eyJ[0-9A-Za-z_-]{10,2000}\.eyJ[0-9A-Za-z_-]{10,4000}\.[0-9A-Za-z_-]{20,1000})"
)
_URL_CREDENTIALS = r"\b[A-Za-z][A-Za-z0-9+.-]{1,20}://[^\s/:@]{0,64}:[^\s/@]{1,64}@\S{1,200}"
_IBAN = r"\b(?:[A-Z]{2}\d{2}(?:[ -]?[A-Z0-9]{4}){2,7}(?:[ -]?[A-Z0-9]{1,4})?|[a-z]{2}\d{2}[a-z0-9]{11,30})\b"
_CARD_DIGIT = r"(?:(?:[ -](?!\d\d?/\d))?\d)"  # an expiry date behind the number is not part of it
_CARD = rf"(?<![\w.-])\d{_CARD_DIGIT}{{12,18}}(?![\w-]|\.\d)"
_CARD_NAMED = (
    r"(?i)\b(?:card|cc|visa|mastercard|amex|maestro)(?: (?:number|no\.?|nr\.?|details))?[\s:#=-]{1,4}(?:is |was )?"
    rf"(?P<data>\d{_CARD_DIGIT}{{11,18}})(?![\w-])"
)
_PASSPORT = (
    r"(?i)(?:\b(?:passport|reisepass|passeport|pasaporte|passaport[eo]|paspoort|paszport|pass)[- ]{0,2}"
    r"(?:number|nummer|num[eé]ro|no\.?|nr\.?|n[°º.]|#)?\W{0,6}(?:(?:is|ist|lautet|est|es|é|to)\W+)?|护照号?码?\W?|パスポート(?:番号)?[は:：]?)"
    r"(?P<data>(?=[A-Z]{0,3}\d|[A-Z0-9]{9}\b)(?=[A-Z]{0,9}\d)[A-Z0-9]{6,10})\b"
)

PATTERNS = (
    Pattern("url_credentials", re.compile(_URL_CREDENTIALS), _always(CERTAIN), pii_hints.AT),
    Pattern("email", re.compile(_EMAIL), _always(CERTAIN), pii_hints.AT),
    Pattern("email", re.compile(_EMAIL_SPELT), _always(LIKELY), pii_hints.SPELT_AT),
    Pattern("api_key", _form(_API_KEY), _always(CERTAIN), pii_hints.KEY),
    Pattern("iban", _form(_IBAN), lambda match: CERTAIN if iban(match.group()) else None, pii_hints.IBAN),
    Pattern("card", _form(_CARD), _card, pii_hints.CARD),
    Pattern("card", _form(_CARD_NAMED), _always(LIKELY), pii_hints.CARD),
    Pattern("ip", _form(f"{_IPV4}|{_IPV6}"), _ip, pii_hints.IP),
    *(Pattern("national_id", _form(form), _checked(check), pii_hints.NATIONAL_ID) for form, check in pii_ids.FORMS),
    Pattern("national_id", _form(pii_ids.NAMED), _called, pii_hints.NAMED),
    Pattern("passport", _form(_PASSPORT), _always(LIKELY), pii_hints.PASSPORT),
    Pattern("phone", pii_phones.FORM, pii_phones.phone_confidence, pii_hints.PHONE),
)
"""In the order of precedence: a stretch of text belongs to the first pattern that claims it."""


_HINTS = tuple(dict.fromkeys(pattern.hint for pattern in PATTERNS))


def find_patterns(text: str, patterns: Sequence[Pattern] = PATTERNS) -> Iterator[PiiSpan]:
    """Every stretch of the text that has one of the forms, in the order of the patterns; stretches may overlap."""
    for kind, form, confidence, _ in patterns:
        part = "data" if "data" in form.groupindex else 0
        for match in form.finditer(text):
            sure = confidence(match)
            if sure is not None:
                yield PiiSpan(type=kind, start=match.start(part), end=match.end(part), confidence=sure)


def find_patterns_in(texts: pl.Series) -> dict[str, list[PiiSpan]]:
    """`find_patterns` of each text that has any; a pattern searches the texts that hold its hint, each of them once."""
    distinct = texts.unique().alias("text").to_frame()
    hinted = distinct.with_columns(pl.col("text").str.contains(hint).alias(hint) for hint in _HINTS)
    found = {}
    for text, *holds in hinted.filter(pl.any_horizontal(_HINTS)).iter_rows():
        held = {hint for hint, there in zip(_HINTS, holds, strict=True) if there}
        if spans := list(find_patterns(text, [pattern for pattern in PATTERNS if pattern.hint in held])):
            found[text] = spans
    return found
