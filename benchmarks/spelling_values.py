"""Values of personal data that are drawn by rule, and texts that hold none: what `privacy_spellings` writes down.

No value is anybody's: numbers have their check digits from python-stdnum, telephone numbers are valid and in the forms
of libphonenumber, keys are random characters behind a vendor's prefix.
"""

import base64
import hashlib
import random
import re
import string
import unicodedata
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import phonenumbers
import stdnum.bitcoin
import stdnum.iban
import stdnum.luhn
import yaml

from tasks.providers.embedded.pii.machine_zone import check_digit

Draw = random.Random
WORDS: dict[str, Any] = yaml.safe_load(Path(__file__).with_name("spelling_words.yaml").read_text("utf-8"))
"""Language -> its given and family names, streets, towns, and sentences for them."""


def _one(draw: Draw, words: str) -> str:
    return draw.choice(words.split()).replace("_", " ")


def person(language: str, draw: Draw) -> str:
    """A name in the order of the language."""
    words = WORDS[language]
    return str(words["order"]).format(g=_one(draw, words["given"]), f=_one(draw, words["family"]))


def address(language: str, draw: Draw) -> str:
    """A street with its number, and a town."""
    words = WORDS[language]
    number, door = draw.randint(11, 89), draw.randint(2, 9)
    parts = {"n": number, "d": door, "z": draw.randint(21000, 79999), "p": draw.randint(101, 899)}
    return str(words["address"]).format(w=_one(draw, words["streets"]), t=_one(draw, words["towns"]), **parts)


def _english(draw: Draw) -> tuple[str, str]:
    return _one(draw, WORDS["English"]["given"]), _one(draw, WORDS["English"]["family"])


def characters(draw: Draw, count: int, of: str = string.ascii_letters + string.digits) -> str:
    """Random characters; the first are a letter in each case and a digit where `of` has them."""
    given = [draw.choice(of) for _ in range(count)]
    sure = [kind for kind in (string.ascii_lowercase, string.ascii_uppercase, string.digits) if set(kind) <= set(of)]
    return "".join([draw.choice(kind) for kind in sure] + given)[:count]


def _digits(draw: Draw, count: int) -> str:
    return str(draw.randint(1, 9)) + "".join(str(draw.randint(0, 9)) for _ in range(count - 1))


def email(draw: Draw) -> str:
    """An address at an invented domain."""
    given, family = (name.lower() for name in _english(draw))
    form = draw.choice(("{g}.{f}", "{g}{n}", "{g}_{f}", "{f}-{n}", "{g}.{f}+{n}"))
    domain = draw.choice(("northgate", "lumenix", "quillford", "brightmoor"))
    ending = draw.choice((".com", ".org", ".co.uk", ".de", "-mail.net", ".io"))
    return f"{form.format(g=given, f=family, n=draw.randint(3, 99))}@{domain}{ending}"


def phone(draw: Draw) -> str:
    """A valid number of some country, as written there or from abroad."""
    region = draw.choice(
        ("GB", "US", "DE", "FR", "ES", "IT", "IN", "BR", "AU", "JP", "NL", "PL", "SE", "ZA", "MX", "KR")
    )
    told = phonenumbers.example_number_for_type(region, draw.choice((0, 1)))
    for _ in range(100):
        drawn = phonenumbers.PhoneNumber()
        drawn.merge_from(told)
        drawn.national_number = int(str(told.national_number)[:-5] + _digits(draw, 5))
        if phonenumbers.is_valid_number(drawn):
            told = drawn
            break
    form = phonenumbers.PhoneNumberFormat
    return phonenumbers.format_number(told, form.INTERNATIONAL if draw.random() < 0.6 else form.NATIONAL)


def card(draw: Draw) -> str:
    """A card's number in groups."""
    start = draw.choice(("4", "51", "53", "55", "2345", "6011", "37"))
    number = start + _digits(draw, (14 if start == "37" else 15) - len(start))
    number += stdnum.luhn.calc_check_digit(number)
    sizes = (4, 6, 5) if start == "37" else (4, 4, 4, 4)
    ends = [sum(sizes[: index + 1]) for index in range(len(sizes))]
    return draw.choice((" ", " ", "-")).join(number[end - size : end] for end, size in zip(ends, sizes, strict=True))


def iban(draw: Draw) -> str:
    """An account's number in groups of four."""
    country, size = draw.choice((("DE", 18), ("AT", 16), ("DK", 14), ("PL", 24), ("CH", 17), ("SA", 20)))
    while True:
        own = _digits(draw, size)
        number = country + stdnum.iban.calc_check_digits(f"{country}00{own}") + own
        if stdnum.iban.is_valid(number, check_country=False):
            return stdnum.iban.format(number)


def ip(draw: Draw) -> str:
    """A public address, of version 4 or 6."""
    if draw.random() < 0.7:
        return f"{draw.choice((51, 81, 93, 185, 203))}." + ".".join(str(draw.randint(11, 250)) for _ in range(3))
    return "2a02:" + ":".join(f"{draw.randint(4096, 65535):x}" for _ in range(7))


def _day(draw: Draw, form: str) -> str:
    year, month, day = draw.randint(1950, 1999), draw.randint(1, 12), draw.randint(1, 28)
    return form.format(Y=year, y=year % 100, m=month, d=day)


def _grouped(number: str, form: str) -> str:
    signs = iter(number)
    return "".join(next(signs) if sign == "#" else sign for sign in form)


NATIONAL: dict[str, Callable[[Draw], str]] = {
    "SSN": lambda draw: f"{draw.randint(201, 649)}-{draw.randint(11, 98)}-{_digits(draw, 4)}",
    "National Insurance number": lambda draw: (
        f"{draw.choice(('AB', 'JK', 'PW'))} {draw.randint(10, 99)} {draw.randint(10, 99)} {draw.randint(10, 99)} C"
    ),
    "CPF": lambda draw: _grouped(_valid("br.cpf", draw, 11), "###.###.###-##"),
    "DNI": lambda draw: (own := _digits(draw, 8)) + import_module("stdnum.es.dni").calc_check_digit(own),
    "PESEL": lambda draw: _valid("pl.pesel", draw, 5, "{y:02}{m:02}{d:02}"),
    "Aadhaar": lambda draw: _grouped(
        "".join((own := "4" + _digits(draw, 10), import_module("stdnum.verhoeff").calc_check_digit(own))),
        "#### #### ####",
    ),
    "BSN": lambda draw: _valid("nl.bsn", draw, 9),
    "OIB": lambda draw: _valid("hr.oib", draw, 11),
    "SIN": lambda draw: _grouped(
        "4" + (own := _digits(draw, 7)) + stdnum.luhn.calc_check_digit("4" + own), "### ### ###"
    ),
    "NHS number": lambda draw: _grouped(_valid("gb.nhs", draw, 10), "### ### ####"),
    "AHV-Nummer": lambda draw: _grouped(
        (own := "756" + _digits(draw, 9)) + import_module("stdnum.ean").calc_check_digit(own), "###.####.####.##"
    ),
    "СНИЛС": lambda draw: _grouped((own := _digits(draw, 9)) + _snils(own), "###-###-### ##"),
    "ИНН": lambda draw: _valid("ru.inn", draw, 12),
    "주민등록번호": lambda draw: _day(draw, "{y:02}{m:02}{d:02}-") + draw.choice("12") + _digits(draw, 6),
    "rodné číslo": lambda draw: _valid("cz.rc", draw, 4, "{y:02}{m:02}{d:02}/"),
    "CPR-nummer": lambda draw: _day(draw, "{d:02}{m:02}{y:02}-") + _digits(draw, 4),
    "fødselsnummer": lambda draw: _valid("no.fodselsnummer", draw, 5, "{d:02}{m:02}{y:02} "),
    "TC Kimlik No": lambda draw: _valid("tr.tckimlik", draw, 11),
    "TFN": lambda draw: _grouped(_valid("au.tfn", draw, 9), "### ### ###"),
    "PPSN": lambda draw: _grouped(
        (own := _digits(draw, 7)) + import_module("stdnum.ie.vat").calc_check_digit(own), "########"
    ),
    "NRIC": lambda draw: _nric(draw),
}
"""Word that names a number -> a number of that kind."""


def _snils(own: str) -> str:
    total = sum(int(digit) * (9 - place) for place, digit in enumerate(own))
    return f"{total % 101 % 100:02}"


def _nric(draw: Draw) -> str:
    own = _digits(draw, 7)
    return f"S{own}{'JZIHGFEDCBA'[sum(int(a) * b for a, b in zip(own, (2, 7, 6, 5, 4, 3, 2), strict=True)) % 11]}"


def _valid(module: str, draw: Draw, size: int, form: str = "") -> str:
    """A number that python-stdnum calls valid, behind a date of birth in this form."""
    while True:
        number = _day(draw, form) + _digits(draw, size)
        if import_module(f"stdnum.{module}").is_valid(number):
            return number


CAPITALS = string.ascii_uppercase


def checked(own: str, calculate: Callable[[str], str]) -> str:
    """A number with its check digit at the end."""
    return own + calculate(own)


def _routing(draw: Draw) -> str:
    own = f"{draw.choice((2, 3, 6, 11, 12, 21, 26, 31)):02}{_digits(draw, 6)}"
    return checked(own, import_module("stdnum.us.rtn").calc_check_digit)


def _hetu(draw: Draw) -> str:
    """A Finnish number with any mark of the century, those of 2023 too."""
    own = _day(draw, "{d:02}{m:02}{y:02}") + str(draw.randint(102, 899))
    return own[:6] + draw.choice("-UVWXY") + own[6:] + import_module("stdnum.fi.hetu")._calc_checksum(own)


def _insured(draw: Draw) -> str:
    """A German health insurance number: the letter as two digits, weights 1 and 2, sums of digits."""
    own = draw.choice(CAPITALS) + _digits(draw, 8)
    digits = [int(sign) for sign in f"{ord(own[0]) - 64:02}{own[1:]}"]
    products = [digit * (1 + place % 2) for place, digit in enumerate(digits)]
    return f"{own}{sum(product // 10 + product % 10 for product in products) % 10}"


def _resident(draw: Draw) -> str:
    own = _day(draw, "{y:02}{m:02}{d:02}") + draw.choice("12") + "0" + _digits(draw, 4)
    return checked(own, import_module("stdnum.kr.rrn").calc_check_digit)


def _signs(form: str) -> Callable[[Draw], str]:
    """Values with a capital for each A and a digit for each 9 of the form."""
    return lambda draw: "".join(
        draw.choice("BCDFGHJKLMPRSTVX") if sign == "A" else str(draw.randint(2, 9)) if sign == "9" else sign
        for sign in form
    )


def _birth(draw: Draw) -> str:
    forms = ("{d:02}.{m:02}.{Y}", "{d}/{m}/{Y}", "{Y}-{m:02}-{d:02}", "{d:02}-{m:02}-{y:02}", "{d}. {m}. {Y}")
    day, month, year = draw.randint(2, 28), draw.randint(1, 12), draw.randint(1950, 1999)
    return draw.choice(forms).format(Y=year, y=year % 100, m=month, d=day)


_MONTHS = ["January", "March", "May", "June", "August", "October", "December"]
_TAIL = string.digits + CAPITALS
NAMED: dict[str, Callable[[Draw], str]] = {
    "routing number": _routing, "ABA number": _routing,
    **dict.fromkeys(
        ("account number", "Kontonummer", "numéro de compte", "número de cuenta", "numero di conto", "rekeningnummer",
         "numer konta", "номер счета", "银行账号", "口座番号", "계좌번호", "खाता संख्या"),
        lambda draw: _digits(draw, draw.randint(7, 14)),
    ),
    "sort code": _signs("99-99-99"), "BSB": _signs("999-999"), "Bankleitzahl": _signs("999 999 99"),
    "number plate": _signs("AA99 AAA"), "Kennzeichen": _signs("AA-AA 999"), "car number": _signs("AA 99 AA 9999"),
    "plaque d'immatriculation": _signs("AA-999-AA"), "targa": _signs("AA 999 AA"), "matrícula": _signs("9999 AAA"),
    "kenteken": _signs("AA-99-AA"), "車のナンバー": lambda draw: f"品川 {_signs('999 さ 99-99')(draw)}",
    "车牌号": lambda draw: f"京{_signs('A99A99')(draw)}",
    "차량번호": lambda draw: f"{_signs('99')(draw)}가 {_signs('9999')(draw)}",
    "номер машины": lambda draw: f"А{_signs('999')(draw)}ВС 77", "license plate": _signs("9AAA999"),
    **dict.fromkeys(
        ("date of birth", "DOB", "Geburtsdatum", "date de naissance", "fecha de nacimiento", "data di nascita",
         "geboortedatum", "data urodzenia", "дата рождения", "doğum tarihi", "生年月日", "생년월일"),
        _birth,
    ),
    "birth date": lambda draw: f"{draw.choice(_MONTHS)} {draw.randint(2, 28)}, {draw.randint(1930, 2010)}",
    "出生日期": lambda draw: f"{draw.randint(1950, 2009)}年{draw.randint(2, 12)}月{draw.randint(2, 28)}日",
    "henkilötunnus": _hetu, "passaporto": _signs("AA9999999"), "carta d'identità": _signs("AA99999AA"),
    "patente di guida": _signs("U9A99A999A"), "Führerscheinnummer": _signs("A999AAA9A99"),
    "Krankenversichertennummer": _insured, "PAN": _signs("AAAPA9999A"), "voter ID": lambda draw: (
        characters(draw, 3, CAPITALS) + checked(_digits(draw, 6), stdnum.luhn.calc_check_digit)
    ),
    "주민등록번호": _resident, "MBI": lambda draw: f"{_signs('9AA9-AA9-AA99')(draw)}", "NIN": _signs("99999999999"),
    "TIN": _signs("999-999-999-000"),
    "MAC": lambda draw: f"{_signs('0099.9999.')(draw)}{characters(draw, 4, 'ABCDEF')}",
}  # fmt: skip
"""Word that names a value -> a value that is only one behind its word, or by its check digit."""
_BASE58 = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
_BECH32 = "qpzry9x8gf2tvdw0s3jn54khce6mua7l"


def wallet(draw: Draw) -> str:
    """A wallet of Bitcoin in both forms, Litecoin, Dogecoin or Tron, with its checksum, or one of Ethereum."""
    kind = draw.choice((0x00, 0x05, 0x30, 0x1E, 0x41, "bc", "ltc", "0x"))
    if kind == "0x":
        return kind + characters(draw, 40, "0123456789abcdef")
    if isinstance(kind, str):
        return segwit(kind, [0, *(draw.randrange(32) for _ in range(32))])
    held = bytes([kind, *(draw.randrange(256) for _ in range(20))])
    number = int.from_bytes(held + hashlib.sha256(hashlib.sha256(held).digest()).digest()[:4])
    text = ""
    while number:
        number, place = divmod(number, 58)
        text = _BASE58[place] + text
    return ("1" if kind == 0 else "") + text


def segwit(name: str, values: list[int]) -> str:
    """An address of BIP 173 with its checksum."""
    codes = [ord(sign) >> 5 for sign in name] + [0] + [ord(sign) & 31 for sign in name]
    total = stdnum.bitcoin.bech32_checksum([*codes, *values, *[0] * 6]) ^ 1
    return f"{name}1" + "".join(
        _BECH32[value] for value in (*values, *((total >> 5 * (5 - place)) & 31 for place in range(6)))
    )


_HEX = "0123456789abcdef"
_UPPER = string.ascii_uppercase + string.digits
KEYS: tuple[Callable[[Draw], str], ...] = (
    lambda draw: f"AKIA{characters(draw, 16, 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567')}",
    lambda draw: f"ghp_{characters(draw, 36)}",
    lambda draw: f"github_pat_{characters(draw, 22)}_{characters(draw, 59)}",
    lambda draw: f"glpat-{characters(draw, 20)}",
    lambda draw: f"AIza{characters(draw, 35)}",
    lambda draw: f"sk-ant-api03-{characters(draw, 93)}AA",
    lambda draw: f"sk-proj-{characters(draw, 74)}T3BlbkFJ{characters(draw, 74)}",
    lambda draw: f"xoxb-{_digits(draw, 12)}-{_digits(draw, 12)}-{characters(draw, 24)}",
    lambda draw: f"hf_{characters(draw, 34, string.ascii_letters)}",
    lambda draw: f"sk_live_{characters(draw, 24)}",
    lambda draw: f"npm_{characters(draw, 36, string.ascii_lowercase + string.digits)}",
    lambda draw: f"dop_v1_{characters(draw, 64, _HEX)}",
    lambda draw: f"shpat_{characters(draw, 32, _HEX)}",
    lambda draw: f"{_digits(draw, 10)}:AA{characters(draw, 33)}",
    lambda draw: f"gsk_{characters(draw, 52)}",
    lambda draw: f"AGE-SECRET-KEY-1{characters(draw, 58, 'QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L')}",
    lambda draw: (
        "https://hooks.slack.com/services/"
        + "/".join((f"T{characters(draw, 8, _UPPER)}", f"B{characters(draw, 10, _UPPER)}", characters(draw, 24)))
    ),
    lambda draw: f"https://discord.com/api/webhooks/{_digits(draw, 18)}/{characters(draw, 68)}",
    lambda draw: ".".join(_claims(draw)),
)


def _claims(draw: Draw) -> tuple[str, str, str]:
    parts = ('{"alg":"HS256","typ":"JWT"}', f'{{"sub":"{_digits(draw, 10)}","name":"x"}}')
    head, body = (base64.urlsafe_b64encode(part.encode()).decode().rstrip("=") for part in parts)
    return head, body, characters(draw, 43)


BIP39 = (
    "abandon ladder quantum velvet orbit tunnel gossip hamster mirror pupil rescue salad thunder umbrella vacuum zebra"
)
CONTEXT_KEYS: tuple[Callable[[Draw], tuple[str, str]], ...] = (
    lambda draw: ("password: ", characters(draw, draw.randint(8, 14)) + "!"),
    lambda draw: ("Authorization: Bearer ", characters(draw, 40)),
    lambda draw: ("Authorization: Basic ", base64.b64encode(f"admin:{characters(draw, 12)}".encode()).decode()),
    lambda draw: ('api_key = "', characters(draw, 32, _HEX)),
    lambda draw: ("curl -u deploy:", characters(draw, 16)),
    lambda draw: ("https://files.lumenix.io/get?access_token=", characters(draw, 32)),
    lambda draw: ("https://store.lumenix.io/a.zip?X-Amz-Signature=", characters(draw, 64, _HEX)),
    lambda draw: ("https://lumenix.io/login?user=me&pwd=", characters(draw, 12)),
    lambda draw: ("seed phrase: ", " ".join(draw.choice(BIP39.split()) for _ in range(12))),
    lambda draw: ("wallet private key: ", "0x" + characters(draw, 64, _HEX)),
    lambda draw: ("-----BEGIN RSA PRIVATE KEY-----\n", "\n".join(characters(draw, 64) for _ in range(4))),
    lambda draw: ("-----BEGIN OPENSSH PRIVATE KEY-----\n", "\n".join(characters(draw, 70) for _ in range(4))),
    lambda draw: ("-----BEGIN PGP PRIVATE KEY BLOCK-----\n\n", "\n".join(characters(draw, 64) for _ in range(4))),
)  # fmt: skip
"""What a secret without a shape of its own stands behind, and the secret."""


def mac(draw: Draw) -> str:
    """A hardware address."""
    return draw.choice((":", "-")).join(
        f"{value:02x}" for value in (draw.choice((0x3C, 0xA4, 0x0C)), *(draw.randint(16, 254) for _ in range(5)))
    )


def coordinates(draw: Draw) -> str:
    """A place, to the metre."""
    north, east = draw.uniform(11, 69), draw.uniform(11, 169)
    minutes = [f"{draw.randint(10, 59)}'{draw.uniform(1, 59):.1f}\"" for _ in range(2)]
    in_degrees = f"{int(north)}°{minutes[0]}N {int(east)}°{minutes[1]}E"
    return draw.choice((f"{north:.6f}, {-east:.6f}", f"{north:.5f}° N, {east:.5f}° E", in_degrees))


def passport(draw: Draw) -> str:
    """A passport's number, with blanks or not."""
    return draw.choice(
        (
            f"{characters(draw, 1, 'CXPLN')}{_digits(draw, 8)}",
            f"{_digits(draw, 3)} {_digits(draw, 3)} {_digits(draw, 3)}",
            f"{draw.randint(20, 90)} {draw.randint(10, 20)} {_digits(draw, 6)}",
        )
    )


ZONES = ("TD1", "TD2", "TD3")
"""Layouts of ICAO 9303: cards of three lines of 30 characters and of two of 36, and passports, two of 44."""
_STATES = (
    "AUS AUT BEL BIH BOL BRA CAN CHE CHN CIV COL CZE D<< DNK EGY ESP EST FIN FRA GBD GBR GRC HRV IDN IND IRL IRQ ISL"
    " ISR ITA JPN KEN KOR LBN LBR LKA MAR MEX MYS NGA NLD NOR NZL OMN PAK PER PHL POL PRT ROU RUS SAU SGP SOM SRB SVN"
    " SWE THA TUR UKR USA UTO VNM ZAF"
)
_LATIN = ("English", "German", "French", "Spanish", "Turkish", "Polish", "Vietnamese")
_MISREAD = str.maketrans("O0I1S5B8", "0O1I5S8B")
MISREAD_SHARE = 0.3


def zone(layout: str, draw: Draw) -> str:
    """The lines that a machine reads on a passport or card, with all check digits."""
    width, state = {"TD1": 30, "TD2": 36, "TD3": 44}[layout], _one(draw, _STATES)
    words, counts = WORDS[draw.choice(_LATIN)], {"family": draw.choice((1, 1, 2)), "given": draw.choice((1, 2))}
    names = [" ".join(_one(draw, words[part]) for _ in range(count)) for part, count in counts.items()]
    name = "<<".join(map(_machine, names)).ljust(width, "<")
    length = draw.choice((7, 8, 9, 9, 9)) if layout == "TD3" else draw.choice((8, 9, 9, 12))
    number = characters(draw, length, draw.choice((string.digits, string.digits + string.ascii_uppercase)))
    # A number longer than its field goes on, with its check digit, behind `<` in the field for optional data.
    rest = number[9:] + check_digit(number) + "<" if length > 9 else ""
    number = number[:9] + "<" + rest if rest else number.ljust(9, "<") + check_digit(number)
    dates = [f"{draw.randrange(100):02}{draw.randrange(1, 13):02}{draw.randrange(1, 29):02}" for _ in range(2)]
    born, expires = (date + check_digit(date) for date in dates)
    sex = draw.choice("MF<")
    if layout == "TD1":
        first = f"{draw.choice(('I<', 'ID', 'AC', 'C<', 'IR'))}{state}{number}".ljust(30, "<")
        second = f"{born}{sex}{expires}{state}".ljust(29, "<")
        return f"{first}\n{second}{check_digit(first[5:] + born + expires + second[18:])}\n{name[:30]}"
    kinds = ("P<", "P<", "PD", "PO", "PM") if layout == "TD3" else ("I<", "ID", "AC")
    personal = characters(draw, 14, string.digits) if layout == "TD3" and draw.random() < 0.5 else ""
    optional = personal + check_digit(personal) if personal else rest
    second = f"{number[:10]}{state}{born}{sex}{expires}{optional}".ljust(width - 1, "<")
    composite = check_digit(second[:10] + second[13:20] + second[21:])
    return f"{draw.choice(kinds)}{state}{name}"[:width] + f"\n{second}{composite}"


def _machine(words: str) -> str:
    """Words in the letters of a zone, with `<` for blanks and hyphens."""
    plain = unicodedata.normalize("NFKD", words.upper().replace("ß", "SS").replace("Ø", "OE").replace("Ł", "L"))
    return re.sub("[^A-Z<]", "", re.sub("[ -]+", "<", plain))


def misread(text: str, draw: Draw, share: float = MISREAD_SHARE) -> str:
    """A zone in which recognition took letters for digits, and digits for letters, that look alike."""
    return "".join(sign.translate(_MISREAD) if draw.random() < share else sign for sign in text)


def mrz(draw: Draw) -> str:
    """A zone of any layout, half of them misread."""
    return misread(zone(draw.choice(ZONES), draw), draw, draw.choice((0, MISREAD_SHARE)))
