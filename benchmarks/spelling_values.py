"""Values of personal data that are drawn by rule, and texts that hold none: what `privacy_spellings` writes down.

No value is anybody's: numbers have their check digits from python-stdnum, telephone numbers are valid and in the forms
of libphonenumber, keys are random characters behind a vendor's prefix.
"""

import base64
import random
import re
import string
import unicodedata
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import phonenumbers
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
