"""Personal data that has a form: patterns, and checksums where the form has one."""

import ipaddress
import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

import phonenumbers

from schemas.signals import PiiSpan

CERTAIN, LIKELY = 1.0, 0.8


class Pattern(NamedTuple):
    """A form, and how sure a match is; None when the match is something else after all."""

    type: str
    form: re.Pattern[str]
    confidence: Callable[[str], float | None]


def _always(confidence: float) -> Callable[[str], float | None]:
    return lambda _: confidence


def _digits(text: str) -> str:
    return re.sub(r"\D", "", text)


def luhn(text: str) -> bool:
    """Whether the digits pass the checksum of payment cards (ISO/IEC 7812)."""
    doubled = [int(d) * (2 if index % 2 else 1) for index, d in enumerate(reversed(_digits(text)))]
    return sum(value - 9 if value > 9 else value for value in doubled) % 10 == 0


def iban(text: str) -> bool:
    """Whether the text passes the checksum of an account number (ISO 13616)."""
    compact = re.sub(r"[\s-]", "", text).upper()
    return 15 <= len(compact) <= 34 and int("".join(str(int(c, 36)) for c in compact[4:] + compact[:4])) % 97 == 1


def _card(text: str) -> float | None:
    number = _digits(text)
    return (
        CERTAIN if 13 <= len(number) <= 19 and number[0] in "23456" and len(set(number)) > 1 and luhn(number) else None
    )


def _ip(text: str) -> float | None:
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return None
    return None if address.is_unspecified or address.is_loopback else CERTAIN


_DATE = re.compile(  # and the hour of a time that may follow
    r"(?:(?:19|20)\d\d[-/. ]\d{1,2}[-/. ]\d{1,2}|\d{1,2}[-/. ]\d{1,2}[-/. ](?:19|20)\d\d)(?: \d\d?)?"
)
_QUANTITY = re.compile(r"[1-9](?:[\s.]\d{3}){2,3}|[1-9]\d{0,2}(?:[\s.]\d{3})*(?:[\s.]000){2}")
"""Thousands set apart. Nobody's number is one digit and groups of three, or ends in six noughts."""
_SSN = re.compile(r"\d{3}-\d{2}-\d{4}")
_PHONE_MARKS = re.compile(r"^\+|^\(|^00[1-9]|\(\d{2,5}\)|x\s?\d|ext")


def _phone(text: str) -> float | None:
    number = _digits(text)
    if not 7 <= len(number) <= 15 or len(set(number)) < 3:
        return None
    if any(form.fullmatch(text) for form in (_DATE, _QUANTITY, _SSN)) or _isbn(number):
        return None
    if _PHONE_MARKS.search(text):
        return LIKELY
    return LIKELY if any(_valid_phone(text, region) for region in ("US", "GB", "DE", "FR", "IN")) else None


def _valid_phone(text: str, region: str) -> bool:
    try:
        return phonenumbers.is_valid_number(phonenumbers.parse(text, region))
    except phonenumbers.NumberParseException:
        return False


def _isbn(number: str) -> bool:
    if len(number) != 13 or not number.startswith(("978", "979")):
        return False
    return sum(int(d) * (3 if index % 2 else 1) for index, d in enumerate(number)) % 10 == 0


_EMAIL = r"[\w.!#$%&'*+/=?^`{|}~-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,8}"
_IPV4 = r"(?<![\d.])(?:\d{1,3}\.){3}\d{1,3}(?![\d]|\.\d)"
_IPV6 = r"(?<![\w:])(?:[0-9a-fA-F]{0,4}:){2,7}[0-9a-fA-F]{0,4}(?![\w:])"
_LOOSE_PHONE = (
    r"(?<![\w.@/=-])\+\d(?:[\s./()-]{0,3}\d){6,15}(?!\w)"
    r"|(?<![\w.@/=-])(?:\+?\d{1,3}[\s.-]?)?(?:\(\d{1,5}\)[\s.-]?)?\d{2,5}(?:[\s.-]\(?\d{2,5}\)?){1,5}"
    r"(?:\s?(?:x|ext\.?)\s?\d{1,6})?(?![\w@/=-]|\.\d)|(?<![\w.@/=-])\+?\d{9,12}(?![\w@/=-]|\.\d)"
)
_API_KEY = (
    r"\b(?:sk-(?:proj-|ant-)?[A-Za-z0-9_-]{20,}|gh[pousr]_[A-Za-z0-9]{36,}|AKIA[0-9A-Z]{16}|AIza[0-9A-Za-z_-]{35}"
    r"|xox[abprs]-[0-9A-Za-z-]{10,}|hf_[A-Za-z0-9]{30,}|glpat-[0-9A-Za-z_-]{20,})"
)

_URL_CREDENTIALS = r"\b[A-Za-z][A-Za-z0-9+.-]{1,20}://[^\s/:@]{1,64}:[^\s/@]{1,64}@\S{1,200}"
_IBAN = r"\b[A-Z]{2}\d{2}(?:[ -]?[A-Z0-9]{4}){2,7}(?:[ -]?[A-Z0-9]{1,4})?\b"
_CARD = r"(?<![\w.-])\d(?:[ -]?\d){12,18}(?![\w-]|\.\d)"
_CARD_NAMED = r"(?i)(?<=\bcard )(?:number |no\.? )?(?:is )?\d(?:[ -]?\d){11,18}\b"
_US_SSN = r"(?<![\w-])(?!000|666|9\d\d)\d{3}-(?!00)\d{2}-(?!0000)\d{4}(?![\w-])"
_ID_NAMED = (
    r"(?i)\b(?:ssn|social security(?: number)?|national id(?: number)?|tax id|nino|aadhaar)"
    r"\W{0,12}(?:is\W+)?(?=[\w -]{0,17}\d)[0-9A-Z][0-9A-Z -]{6,16}"
)
_PASSPORT = r"(?i)\bpassport(?:\s+(?:number|no\.?|nr\.?|#))?\W{0,6}(?:is\W+)?(?=\w*\d)[A-Z0-9]{6,10}\b"

PATTERNS = (
    Pattern("url_credentials", re.compile(_URL_CREDENTIALS), _always(CERTAIN)),
    Pattern("email", re.compile(_EMAIL), _always(CERTAIN)),
    Pattern("api_key", re.compile(_API_KEY), _always(CERTAIN)),
    Pattern("iban", re.compile(_IBAN), lambda text: CERTAIN if iban(text) else None),
    Pattern("card", re.compile(_CARD), _card),
    Pattern("card", re.compile(_CARD_NAMED), _always(LIKELY)),
    Pattern("ip", re.compile(f"{_IPV4}|{_IPV6}"), _ip),
    Pattern("national_id", re.compile(_US_SSN), _always(LIKELY)),
    Pattern("national_id", re.compile(_ID_NAMED), _always(LIKELY)),
    Pattern("passport", re.compile(_PASSPORT), _always(LIKELY)),
    Pattern("phone", re.compile(_LOOSE_PHONE), _phone),
)
"""In the order of precedence: a stretch of text belongs to the first pattern that claims it."""


def find_patterns(text: str) -> Iterator[PiiSpan]:
    """Every stretch of the text that has one of the forms, in the order of the patterns; stretches may overlap."""
    for kind, form, confidence in PATTERNS:
        for match in form.finditer(text):
            sure = confidence(match.group())
            if sure is not None:
                yield PiiSpan(type=kind, start=match.start(), end=match.end(), confidence=sure)
