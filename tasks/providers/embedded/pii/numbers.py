"""Patterns and checks of account numbers and telephone numbers; check digits by python-stdnum.

A telephone number is accepted if it carries a mark of telephones (+, 00, area code in brackets, extension), if it is
valid and grouped as in some country, or if a word beside it names it and its length is possible (ITU-T E.164).
"""

import math
import re
import unicodedata
from collections.abc import Callable

import phonenumbers
import stdnum.iban
import stdnum.isbn
import stdnum.luhn
import stdnum.numdb

CERTAIN, LIKELY = 1.0, 0.8
NAMED, MARKED, SHAPED = 0.9, 0.8, 0.6
"""Confidence of a telephone number: a word beside it, a mark of telephones, its form alone."""

DigitCheck = Callable[[str], bool]

WORD_CHARACTERS = r"0-9A-Za-z_\u00c0-\u1fff"
"""Word characters. Chinese and Japanese are left out: they use no space next to a number."""


def beside_characters(form: str) -> str:
    """The pattern with word boundaries that allow Chinese and Japanese characters next to a match."""
    edge = f"(?:(?<![{WORD_CHARACTERS}])(?=[{WORD_CHARACTERS}])|(?<=[{WORD_CHARACTERS}])(?![{WORD_CHARACTERS}]))"
    return (
        form.replace(r"[\w", f"[{WORD_CHARACTERS}").replace(r"(?!\w)", f"(?![{WORD_CHARACTERS}])").replace(r"\b", edge)
    )


def ascii_digits(text: str) -> str:
    """The text with every decimal digit, of whatever script, as 0 to 9."""
    return "".join(str(unicodedata.digit(char)) if char.isdecimal() else char for char in text)


def digits_of(text: str) -> str:
    """The decimal digits of a text."""
    return re.sub(r"\D", "", ascii_digits(text))


def luhn(text: str) -> bool:
    """Whether the digits pass the checksum of payment cards (ISO/IEC 7812)."""
    return bool(stdnum.luhn.is_valid(digits_of(text)))


def iban(text: str) -> bool:
    """Whether the text has the checksum and the structure of an account number (ISO 13616)."""
    return bool(stdnum.iban.is_valid(re.sub(r"[\W_]", "", ascii_digits(text)), check_country=False))


def ibans(separator: str) -> str:
    """Pattern of the account numbers of every country: as many letters and digits as the country has (ISO 13616)."""
    of_length: dict[int, list[str]] = {}
    for _, country, _, structure, _ in stdnum.numdb.get("iban").prefixes:
        size = sum(int(part) for part in re.findall(r"\d+(?=!)", structure["bban"]))
        of_length.setdefault(size, []).append(country)
    forms = (rf"(?:{'|'.join(sorted(c))})\d{{2}}(?:{separator}[A-Z0-9]){{{size}}}" for size, c in of_length.items())
    return "|".join(forms)


OVER_A_LINE = r"[ \t]{0,3}\r?\n[ \t]{0,8}"
_GAP = r"[^\S\n]?[-./]?[^\S\n]?"
_EXTENSION = r"(?:[^\S\n]{0,2}(?:x|ext\.?|extension)[^\S\n]?\d{1,6}(?![\d^]|\*\*))?"
"""An extension; a power of ten behind the `x` is a number in scientific notation."""
_END = r"(?![\w@=]|[-./]\d|[/-][A-Za-z]{0,12}\d)"
PHONE_PATTERN = re.compile(
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
PHONE_BROKEN = re.compile(
    beside_characters(
        r"(?<![\w.@/=+-])(?<!\d[ \t])(?:\+\d(?:[ .()-]{0,2}\d){2,11}|\(?\d{3}\)?[ .-]{1,2}\d{3}|\(?\d{3}\)?)"
        rf"[ .-]{{0,2}}{OVER_A_LINE}\d(?:[ .-]?\d){{1,10}}(?![ \t]?\d){_END}"
    )
)
"""A telephone number over two lines, with + and country, or as in the United States."""
_COUNTRY = "|".join(sorted({*phonenumbers.SUPPORTED_REGIONS, "UK", "USA"} - {"ID", "SO", "PR"}))
"""Codes of countries, which may stand before the word for a number: `my CN number`; not what else they abbreviate."""
_MY_NUMBER = (
    rf"(?:my|his|her|their|your|our)[^\S\n](?:(?-i:{_COUNTRY})[^\S\n])?number|(?:mon|ton|son|notre|votre|leur)[^\S\n]num[ée]ro"
    r"|(?:mein|dein|sein|ihr|unser|euer)e?r?[^\S\n](?:nummer|nr\.?)|(?:mi|tu|su|nuestro|vuestro)[^\S\n]n[úu]mero"
    r"|(?:mio|tuo|suo|nostro|vostro)[^\S\n]numero|(?:meu|teu|seu|nosso|vosso)[^\S\n]n[úu]mero"
    r"|(?:mijn|jouw|je|uw|zijn|haar|onze?)[^\S\n]nummer|(?:mój|twój|jego|jej|nasz|wasz)[^\S\n]numer"
    r"|(?:мой|твой|его|её|наш|ваш)[^\S\n]номер|(?:mitt|ditt|hans|hennes)[^\S\n]nummer"
)
"""A number that is somebody's, without a word for telephones."""
_BEFORE = re.compile(
    r"(?<![A-Za-z])(?:phones?|telephone|tel[eé]fono|telefon|t[eé]l|tel|mobiles?|m[oó]vil|cell(?:phone|ular)?|celular|fax|whatsapp|sms"
    r"|call(?:ing|ed|s)?|dial(?:ed)?|ring|reach|contact|hotline|landline|registered|answering"
    rf"|{_MY_NUMBER}|t[eé]l[eé]phone|telefone|telefoon\w*|telefon\w*|puhelin|cellulare|portable|handy\w*|gsm"
    r"|r[uü]ckruf|anruf\w*|appel(?:er|ez|le[rz]?)|ll[aá]m(?:a|e|ar)(?:me)?|ligue|chiam\w{1,6}|bel|r[iu]f|dzwoni[cć]|komórk\w*"
    r"|my[^\S\n]digits|тел(?:ефон)?|هاتف\w?|هاتفي|جوال|موبايل|फ़ोन|फोन|मोबाइल)"
    r"(?:[^\S\n](?:number|num[eé]ro|nummer|numer|n[uú]mero|नंबर|no|nr|num|me|us|him|her|them|mich|is|ist|lautet|est(?:[^\S\n]le)?|es(?:[^\S\n]el)?|[éè]|to|jest|är|was|at|on"
    r"|unter|pod|au|al|op|en|है))*[\s:.#,=()*_-]{0,6}\Z"
    r"|(?:(?:电话|電話|手机|手機|携帯|联系方式|전화)(?:番号|号码|號碼|号|번호)?|我的号码|我的號碼|私の番号)[は是为為는]?[\s:：]{0,2}\Z",
    re.I,
)
_OTHER = re.compile(
    r"(?:(?<![A-Za-z])(?:order|bestell\w*|pedido|commande|invoice|rechnung\w*|facture|ticket|serial|serie\w*|artikel\w*|article|item|sku|ref"
    r"|reference|tracking|offset|part|model|isbn|issn|doi|timestamp|epoch|id|case|build|commit|product|produit"
    r"|population|hash\w*|seed|prime|modul\w+|multiplier|constants?|magic|mask|checksum|crc\w*|factorial"
    r"|(?:(?:const|static|final|unsigned|u?int(?:\d+_t|\d*)|long|size_t|u(?:32|64))[^\S\n]){1,3}\w{1,30}|型号|订单号?|編號|编号|品番|型番)"
    r"(?:[^\S\n](?:number|num|no|nr|nummer|n°|code|is|was|lautet|ist|est|es))*[\s:.=\"'(-]{0,4}#?|#)\Z",
    re.I,
)
"""Words before a number that is not a telephone number."""
_AFTER = re.compile(r"[^\S\n,;-]{0,2}-?\(?(?:office|home|work|mobile|cell|fax|desk|phone|tel|direct)\b", re.I)
_MARKS = re.compile(r"^\+|^00[1-9]|^06-\d\d?/|\(\+?\d{1,5}\)|\d[^\S\n]{0,2}(?:x|ext)")
_WITHOUT_TRUNK = ("US", "IN", "ES", "IT", "PL", "CN", "BR")
"""Countries where a full number need not begin with 0."""
_REGIONS = (*_WITHOUT_TRUNK, "GB", "DE", "FR", "AU", "JP", "ZA", "CH", "AT", "NL", "BE", "SE", "HU")
_DATE = re.compile(  # and the number of a list before it, and the hour of a time that may follow
    r"(?:\d{1,2}\. )?(?:(?:19|20)\d\d[-/. ]\d{1,2}[-/. ]\d{1,2}|\d{1,2}[-/. ]\d{1,2}[-/. ](?:19|20)\d\d)(?: \d\d?)?"
)
_YEARS = re.compile(r"(?:1[5-9]|20)\d\d\s?[-–/]\s?(?:1[5-9]|20)\d\d")
_QUANTITY = re.compile(r"[1-9](?:[\s.]\d{3}){2,3}|[1-9]\d{0,2}(?:[\s.]\d{3})*(?:[\s.]000){2}")
"""Numbers with thousands separators."""
_DECIMAL = re.compile(r"\d{1,3}\.\d{3,}(?:[^\S\n]?x[^\S\n]?10\d*)?")
"""A decimal number, also times a power of ten of which only digits are left."""
_DATES = re.compile(r"\d\d?/\d\d?/\d\d(?: \d.*)?|.*(?:19|20)\d\d-\d\d-\d\d.*")
"""Two dates side by side, and a number beside a date."""
_CITED = re.compile(
    r"(?:(?P<volume>\d{1,4})[^\S\n]?)?\((?:1[5-9]|20)\d\d\)[^\S\n]?(?P<first>\d{1,5})[^\S\n]?"
    r"(?P<dash>[-–]{1,2})[^\S\n]?(?P<last>\d{1,5})(?!\d)"
)
"""Year and pages of an article, with its volume or two hyphens: 25 (1991) 143-152, (1988) 1617--1622."""
_PAGES_MAX = 99
"""Most pages of an article; the last groups of a telephone number are seldom so near to each other."""
_DOI = re.compile(r"10\.(?!(?:19\d|20[0-3])\d/)\d{4,9}/(?P<of_registrant>\d[\d.()/-]*)")
"""The name of an article (ISO 26324) from its start, unless the first part is a month and a year."""
_ARTICLE = re.compile(r"\d{6} (?:19|20)\d\d")
_PHYSICAL_REVIEW = re.compile(r"\bRev\.[^\S\n][A-EX][^\S\n]\d{1,3},[^\S\n]\Z")
"""An article's number and year, and what stands before them: Phys. Rev. E 78, 046110 2008."""
_CONSTANT = re.compile(r"1\d{9}|0?123456789\d?|987654321\d?")
"""Seconds since 1970, and digits in order."""
_DECIMALS = re.compile(r"\d+\.\d+|[1-9]\d*\.\d+\.\d{1,2}")
"""A decimal number, or two that ran into each other."""
_SSN = re.compile(r"\d{3}-\d{2}-\d{4}")
_QUAD = re.compile(r"[1-9]\d{0,2}(?:\.\d{1,3}){3}")
"""Four numbers as in a network address, also where one is too large for it."""
_OPERATION = (
    r"times|plus|minus|mod(?:ulo)?|multiplied|divided|squared|cubed|raised|mal|geteilt|hoch|fois|moins|divisé|por|más"
    r"|menos|dividido|per|più|meno|diviso|keer|razy|умножить|плюс|минус|разделить|乘以?|加上?|减去?|除以?|かける|たす|ひく|わる|곱하기|더하기|빼기"
)
_OPERATED = re.compile(
    rf"[^\S\n]?(?:\*\*?|[×÷^%]|//|<<|>>)[^\S\n]?[\d(]|[^\S\n](?:\*\*?|[×÷^%&+]|//|<<|>>)[^\S\n]\w|[^\S\n]?=[^\S\n]?[\d?]"
    rf"|[^\S\n]?(?:{_OPERATION})(?![A-Za-z])|[^\S\n](?:a[^\S\n]|an[^\S\n])?(?:prime|divisible|even|odd|composite|perfect)\b"
    r"|[^\S\n](?:in|to|into|as)[^\S\n](?:hex|binary|octal|roman|words|base|decimal)",
    re.I,
)
"""Operator, operation or question behind a number."""
_OPERATOR = re.compile(
    rf"(?:[\w)\]][^\S\n]{{0,2}}(?:\*\*?|[×÷^%&]|//|<<|>>)|\d[^\S\n]{{1,2}}\+|(?<![A-Za-z])(?:{_OPERATION})(?:[^\S\n](?:by|durch|par|por|per|entre))?"
    r"|(?<![A-Za-z])(?:roots?|factors|factori[sz]ation|digits|logarithm|sum|product)[^\S\n]of|(?<![A-Za-z])(?:factori[sz]e|sqrt|log2|isprime|is_prime)"
    r"|(?<![A-Za-z])(?:what(?:['’]s|[^\S\n]is)|calculate|compute|evaluate|solve|subtract|add|divide|multiply|convert|berechne|was[^\S\n]ist|calcula|cuánto[^\S\n]es"
    r"|combien[^\S\n]font|calcule|计算|求)[^\S\n]?(?:[\d.,()]+[^\S\n]?[-+*/×÷^%][^\S\n]?)+)[^\S\n]{0,2}\(?\Z",
    re.I,
)
"""An operator with its operand, an operation in words, or a sum that is asked for, before a number."""
_COUNTED = (
    r"(?:population|inhabitants|residents|households|voters|votes|views|downloads|subscribers|gdp|revenue|area|km²|km2"
    r"|sq\.? ?km|einwohner\w*|bevölkerung|fläche|habitants|superficie|población|habitantes|população|abitanti"
    r"|popolazione|inwoners|ludność|население|жителей|人口|面积|面積|인구|जनसंख्या|عدد السكان)"
)
_COUNTS = re.compile(rf"(?<![^\W\d_]){_COUNTED}", re.I)
"""Words for what is counted in large numbers."""
_UNIT = re.compile(
    rf"[^\S\n]?(?:(?:[kcm]?m|km/h|m/s|kg|[kMG]?Hz|[kMGT]i?B|k?W|k?J|[kM]?eV|bytes?|bits?|years?|tons?|tonnes?|dollars?|euros?"
    rf"|USD|EUR|GBP|INR|JPY|yen|rupees|people|persons)(?![^\W_])|[€£¥₹°]|{_COUNTED})"
)
"""A unit or a thing that is counted, behind its number."""
COUNTS_CHARACTERS = 60
"""How far before a number the word for what it counts may stand in a sentence; in a table, up to its head."""


def broken_confidence(match: re.Match[str]) -> float | None:
    """MARKED if both lines together are a valid telephone number, and the first alone is none; else None."""
    text = re.sub(r"-?\s*\n\s*", "\n", match.group())
    american = [len(group) for group in re.findall(r"\d+", text)] == [3, 3, 4]
    whole = (
        (text[0] == "+" or american)
        and _valid(text.replace("\n", " "), "US")
        and not _valid(text.partition("\n")[0], "US")
    )
    return MARKED if whole else None


def phone_confidence(match: re.Match[str]) -> float | None:
    """Confidence that a match of `PHONE_PATTERN` is a telephone number; None if it is something else."""
    text = match.group()
    number = re.sub(r"\D", "", re.sub(r"(?:x|ext).*", "", text))
    if not 6 <= len(number) <= 15 or len(set(number)) < 3 or _something_else(text, number):
        return None
    if _named(match):
        return NAMED
    if len(number) < 7 or _cites(match, text):
        return None
    if _MARKS.search(text):
        return MARKED
    if _OTHER.search(match.string, max(0, match.start() - 40), match.start()) or _calculated(match) or _counts(match):
        return None
    return SHAPED if _shaped(text, number) else None


def _something_else(text: str, number: str) -> bool:
    return any(form.fullmatch(text) for form in (_DATE, _YEARS, _QUANTITY, _DECIMAL, _SSN)) or (
        len(number) == 13 and bool(stdnum.isbn.is_valid(number))
    )


def _cites(match: re.Match[str], text: str) -> bool:
    """Whether the number is a citation; only asked where no word names it a telephone number."""
    if article := _DOI.fullmatch(text):
        return not _shaped(article["of_registrant"], digits_of(article["of_registrant"]))
    if _ARTICLE.fullmatch(text):
        return bool(_PHYSICAL_REVIEW.search(match.string, max(0, match.start() - 16), match.start()))
    cited = _CITED.match(match.string, match.start())
    if not cited or cited.end() < match.end() or not (cited["volume"] or len(cited["dash"]) > 1):
        return False
    return 0 < int(cited["last"]) - int(cited["first"]) <= _PAGES_MAX and not _abroad(text, cited["volume"])


def _abroad(text: str, code: str | None) -> bool:
    """Whether the number is valid with its first group as the code of a country: 44 (1865) 270-280."""
    return bool(code) and _valid(f"+{text}", "US") and phonenumbers.parse(f"+{text}").country_code == int(code or 0)


def _calculated(match: re.Match[str]) -> bool:
    """Whether the number is an operand, or a number that is asked about."""
    before = match.string[max(0, match.start() - 60) : match.start()]
    return bool(_OPERATED.match(match.string, match.end()) or _OPERATOR.search(before))


def _counts(match: re.Match[str]) -> bool:
    """Whether the number has a unit, or counts what a word before it or the head of its table says."""
    text, start = match.string, match.start()
    if _UNIT.match(text, match.end()):
        return True
    line = text[text.rfind("\n", 0, start) + 1 :].partition("\n")[0]
    if not re.search(r"[|\t]|[^\S\n]{2}|[;,][^;,]{0,80}[;,]", line):
        return bool(_COUNTS.search(text, max(0, start - COUNTS_CHARACTERS), start))
    table = text[max(text.rfind("\n\n", 0, start), start - TABLE_CHARACTERS, 0) : start]
    return bool(_COUNTS.search(table)) and not _TELEPHONES.search(table)


TABLE_CHARACTERS = 4000
"""How far before a number the head of its table is looked for."""
_TELEPHONES = re.compile(r"phone|mobile|cell|fax|tel\b|contact|telef|handy|电话|電話|手机|전화", re.I)


def _named(match: re.Match[str]) -> bool:
    before = match.string[max(0, match.start() - 40) : match.start()]
    return bool(_BEFORE.search(before) or _AFTER.match(match.string, match.end()))


def _shaped(text: str, number: str) -> bool:
    """Whether the number is valid in some country and grouped as is usual there."""
    groups = re.findall(r"\d+", text)
    if any(form.fullmatch(text) for form in (_DATES, _DECIMALS, _QUAD)) or _is_constant(number):
        return False
    if counts_up(groups):
        return False
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


def counts_up(groups: list[str]) -> bool:
    """Whether groups of two digits rise, as numbers of a lottery do."""
    return all(len(group) == 2 for group in groups) and groups == sorted(set(groups))


def _is_constant(number: str) -> bool:
    """Whether a number is a time, digits in order, or beside a power of two, as limits and moduli of programs are."""
    power = 2 ** round(math.log2(int(number) or 1))
    return bool(_CONSTANT.fullmatch(number)) or abs(int(number) - power) <= BESIDE_POWER


BESIDE_POWER = 64


def is_abroad(text: str) -> bool:
    """Whether the text is a valid telephone number that begins with + and the code of its country."""
    return text.startswith("+") and _valid(text, "US")


def _valid(text: str, region: str) -> bool:
    try:
        return phonenumbers.is_valid_number(phonenumbers.parse(text, region))
    except phonenumbers.NumberParseException:
        return False
