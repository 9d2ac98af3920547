"""Telephone numbers: what is written as one, and what a text calls one.

A number counts when it carries a mark of telephones (+, 00, area code in brackets, extension), when it is grouped and
valid as in some country, or when a word beside it says what it is and its length is possible (ITU-T E.164).
"""

import re

import phonenumbers

from tasks.providers.embedded.pii_ids import beside_characters

NAMED, MARKED, SHAPED = 0.9, 0.8, 0.6
"""Confidence by what speaks for the number: a word beside it, a mark of telephones, its form alone."""

_GAP = r"[^\S\n]?[-./]?[^\S\n]?"
_EXTENSION = r"(?:[^\S\n]{0,2}(?:x|ext\.?|extension)[^\S\n]?\d{1,6})?"
_END = r"(?![\w@=]|[-./]\d|[/-][A-Za-z]{0,12}\d)"
FORM = re.compile(
    beside_characters(
        r"(?<![\w.@/=+-])(?<!\d[ \t])(?:"
        rf"\+\d(?:[^\S\n./()-]{{0,1}}[./()-]{{0,2}}[^\S\n]?\d){{6,15}}{_EXTENSION}{_END}"
        rf"|(?:\d{{1,4}}{_GAP})?\(\+?\d{{1,5}}\)(?:{_GAP}\d{{1,5}}){{1,5}}{_EXTENSION}{_END}"
        rf"|\d{{1,5}}(?:{_GAP}\(\d{{1,5}}\))?(?:(?:[^\S\n]|[-./]){{1,2}}\d{{2,8}}){{1,6}}{_EXTENSION}{_END}"
        rf"|00[1-9](?:[^\S\n./()-]{{0,1}}[./()-]{{0,2}}[^\S\n]?\d){{7,14}}{_EXTENSION}{_END}"
        rf"|06{_GAP}\d{{1,2}}{_GAP}\d{{3}}{_GAP}\d{{3,4}}{_END}"  # Hungary, whose capital has the area code 1
        rf"|0\d{{1,5}}(?:(?=\D){_GAP}\d{{2,8}}){{1,5}}{_EXTENSION}{_END}"
        rf"|\d{{7,13}}{_EXTENSION}{_END})"
    )
)
_BEFORE = re.compile(
    r"(?<![A-Za-z])(?:phones?|telephone|tel[eé]fono|telefon|t[eé]l|tel|mobiles?|m[oó]vil|cell(?:phone|ular)?|celular|fax|whatsapp|sms"
    r"|call(?:ing|ed|s)?|dial(?:ed)?|ring|reach|contact|hotline|landline|registered|answering"
    r"|(?:my|his|her|their|your|our)[^\S\n]number|t[eé]l[eé]phone|telefone|telefoon\w*|telefon\w*|puhelin|cellulare|portable|handy\w*|gsm"
    r"|r[uü]ckruf|anruf\w*|appel(?:er|ez|le[rz]?)|ll[aá]m(?:a|e|ar)(?:me)?|ligue|chiam\w{1,6}|bel|r[iu]f|dzwoni[cć]|komórk\w*"
    r"|my[^\S\n]digits|тел(?:ефон)?|هاتف\w?|هاتفي|جوال|موبايل|फ़ोन|फोन|मोबाइल)"
    r"(?:[^\S\n](?:number|num[eé]ro|nummer|numer|n[uú]mero|नंबर|no|nr|num|me|us|him|her|them|mich|is|ist|est(?:[^\S\n]le)?|es|é|to|was|at|on"
    r"|unter|pod|au|al|op|en|है))*[\s:.#,=()*_-]{0,6}\Z"
    r"|(?:电话|電話|手机|手機|携帯|联系方式|전화)(?:番号|号码|號碼|号|번호)?[は是为為는]?[\s:：]{0,2}\Z",
    re.I,
)
_OTHER = re.compile(
    r"(?:(?<![A-Za-z])(?:order|bestell\w*|pedido|commande|invoice|rechnung\w*|facture|ticket|serial|serie\w*|artikel\w*|article|item|sku|ref"
    r"|reference|tracking|offset|part|model|isbn|issn|doi|timestamp|epoch|id|case|build|commit|product|produit"
    r"|population|型号|订单号?|編號|编号|品番|型番)"
    r"(?:[^\S\n](?:number|num|no|nr|nummer|n°|code|is|was|lautet|ist|est|es))*[\s:.=\"'(-]{0,4}#?|#)\Z",
    re.I,
)
"""Words that say that a number is something else."""
_AFTER = re.compile(r"[^\S\n,;-]{0,2}-?\(?(?:office|home|work|mobile|cell|fax|desk|phone|tel|direct)\b", re.I)
_MARKS = re.compile(r"^\+|^00[1-9]|^06-\d\d?/|\(\+?\d{1,5}\)|\d[^\S\n]{0,2}(?:x|ext)")
_REGIONS = (
    "US",
    "GB",
    "DE",
    "FR",
    "IN",
    "IT",
    "ES",
    "AU",
    "JP",
    "CN",
    "BR",
    "ZA",
    "CH",
    "AT",
    "NL",
    "BE",
    "SE",
    "PL",
    "HU",
)
_WITHOUT_TRUNK = ("US", "IN", "ES", "IT", "PL", "CN", "BR")
"""Where a full number need not begin with 0."""
_DATE = re.compile(  # and the hour of a time that may follow
    r"(?:(?:19|20)\d\d[-/. ]\d{1,2}[-/. ]\d{1,2}|\d{1,2}[-/. ]\d{1,2}[-/. ](?:19|20)\d\d)(?: \d\d?)?"
)
_YEARS = re.compile(r"(?:1[5-9]|20)\d\d\s?[-–/]\s?(?:1[5-9]|20)\d\d")
_QUANTITY = re.compile(r"[1-9](?:[\s.]\d{3}){2,3}|[1-9]\d{0,2}(?:[\s.]\d{3})*(?:[\s.]000){2}")
"""Thousands set apart. Nobody's number is one digit and groups of three, or ends in six noughts."""
_DECIMAL = re.compile(r"\d{1,3}\.\d{3,}")
_SSN = re.compile(r"\d{3}-\d{2}-\d{4}")


def phone_confidence(match: re.Match[str]) -> float | None:
    """How sure a match of `FORM` is a telephone number; None when it is something else."""
    text = match.group()
    number = re.sub(r"\D", "", re.sub(r"(?:x|ext).*", "", text))
    if not 6 <= len(number) <= 15 or len(set(number)) < 3 or _something_else(text, number):
        return None
    if _named(match):
        return NAMED
    if len(number) < 7:
        return None
    if _MARKS.search(text):
        return MARKED
    if _OTHER.search(match.string, max(0, match.start() - 40), match.start()):
        return None
    return SHAPED if _shaped(text, number) else None


def _something_else(text: str, number: str) -> bool:
    return any(form.fullmatch(text) for form in (_DATE, _YEARS, _QUANTITY, _DECIMAL, _SSN)) or _isbn(number)


def _named(match: re.Match[str]) -> bool:
    before = match.string[max(0, match.start() - 40) : match.start()]
    return bool(_BEFORE.search(before) or _AFTER.match(match.string, match.end()))


def _shaped(text: str, number: str) -> bool:
    """Whether the digits are a valid number somewhere, and stand as numbers stand there."""
    groups = re.findall(r"\d+", text)
    if max(map(len, groups)) < 3 and not number.startswith("0"):  # times and coordinates
        return False
    if number.startswith("0"):
        return any(_valid(text, region) for region in _REGIONS)
    if [len(group) for group in groups] in ([2, 3, 3], [4, 4, 4]):  # a quantity, or the number of a thing
        return False
    if len(groups) == 2 and len(groups[0]) != len(groups[1]):  # a house number and another, or a postal code
        return False
    if len(groups) <= 2:
        return len(number) >= 9 and not text.endswith("000") and any(_valid(text, region) for region in ("US", "IN"))
    return any(_valid(text, region) for region in (*_WITHOUT_TRUNK, "GB", "DE", "FR"))


def _valid(text: str, region: str) -> bool:
    try:
        return phonenumbers.is_valid_number(phonenumbers.parse(text, region))
    except phonenumbers.NumberParseException:
        return False


def _isbn(number: str) -> bool:
    if len(number) != 13 or not number.startswith(("978", "979")):
        return False
    return sum(int(d) * (3 if index % 2 else 1) for index, d in enumerate(number)) % 10 == 0
