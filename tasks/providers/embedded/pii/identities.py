"""Patterns and checks of identity numbers and passports; check digits by python-stdnum."""

import re

import stdnum.ean
from stdnum.be import ssn as belgium
from stdnum.br import cpf as brazil
from stdnum.cl import rut as chile
from stdnum.cn import ric as china
from stdnum.cz import rc as czechia
from stdnum.dk import cpr as denmark
from stdnum.es import nif as spain
from stdnum.fi import hetu as finland
from stdnum.fr import nir as france
from stdnum.my import nric as malaysia
from stdnum.no import fodselsnummer as norway
from stdnum.th import pin as thailand

from tasks.providers.embedded.pii.numbers import (
    LIKELY,
    OVER_A_LINE,
    WORD_CHARACTERS,
    DigitCheck,
    ascii_digits,
    digits_of,
    luhn,
)


def cpf(text: str) -> bool:
    """Brazil's CPF; a single repeated digit passes the checksum but is not valid."""
    return len(set(digits_of(text))) > 1 and bool(brazil.is_valid(digits_of(text)))


def resident_id(text: str) -> bool:
    """China's identity number by its check digit alone: the list of places that python-stdnum has is not complete."""
    number = ascii_digits(text).upper()
    return bool(china.calc_check_digit(number) == number[-1])


def personnummer(text: str) -> bool:
    """Sweden's personal number or coordination number (day + 60), which python-stdnum does not accept."""
    number = digits_of(text)[-10:]
    return 1 <= int(number[2:4]) <= 12 and 1 <= int(number[4:6]) % 60 <= 31 and luhn(number)


def snils(text: str) -> bool:
    """Russia's insurance number: the sum of its digits by their place, modulo 101, is its last two digits."""
    number = digits_of(text)
    total = sum(int(digit) * (9 - place) for place, digit in enumerate(number[:9]))
    return total % 101 % 100 == int(number[9:])


IDENTITY_FORMS: tuple[tuple[str, DigitCheck | None], ...] = (
    (r"(?<![\w-])(?!000|666)\d{3}-(?!00)\d{2}-(?!0000)\d{4}(?![\w-])", None),  # United States, SSN and ITIN
    (r"(?<![\w-])(?!BG|GB|NK|KN|TN|NT|ZZ)[A-CEGHJ-PR-TW-Z][A-CEGHJ-NPR-TW-Z] ?\d{2} ?\d{2} ?\d{2} ?[A-D]\b", None),
    (r"(?<![\w.-])\d{3}\.\d{3}\.\d{3}-\d{2}(?![\w-])", cpf),
    (  # Spain, but no article's number in a DOI such as 10.1137/…
        r"(?<!\b10\.1[0-8]\d\d/)\b(?:\d{8}|\d{2}\.\d{3}\.\d{3}|[XYZ][ -]?\d{7})[ -]?[A-HJ-NP-TV-Z]\b",
        lambda text: spain.is_valid(ascii_digits(text).replace(".", "")),
    ),
    (r"(?<![\w.-])[1-9]\d{5}(?:19|20)\d{2}(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])\d{3}[\dXx]\b", resident_id),
    (
        r"(?<![\w.-])[12] ?\d{2} ?(?:0[1-9]|1[0-2]) ?\d{2} ?\d{3} ?\d{3} ?\d{2}(?![\w-])",
        lambda text: france.is_valid(digits_of(text)),
    ),
    (r"\b[A-Z]{6}\d{2}[A-EHLMPRST]\d{2}[A-Z]\d{3}[A-Z]\b", None),  # Italy, codice fiscale
    (r"\b[A-Z]{3}[ABCFGHLJPT][A-Z]\d{4}[A-Z]\b", None),  # India, PAN
    (r"(?<![\w-])\d{6}-[1-4]\d{6}(?![\w-])", None),  # South Korea
    (r"(?<![\w-])(?:19|20)?\d{6}[-+]\d{4}(?![\w-])", lambda text: personnummer(text) or denmark.is_valid(text)),
    (r"(?<![\w/-])\d{6}/\d{3,4}(?![\w/-])", lambda text: czechia.is_valid(ascii_digits(text))),
    (r"(?<![\w.-])\d{6} ?\d{5}(?![\w-]|\.\d)", lambda text: norway.is_valid(digits_of(text))),
    (r"(?<![\w-])\d{6}-\d{2}-\d{4}(?![\w-])", lambda text: malaysia.is_valid(digits_of(text))),
    (r"(?<![\w-])\d-\d{4}-\d{5}-\d{2}-\d(?![\w-])", lambda text: thailand.is_valid(digits_of(text))),
    (r"(?<![\w.-])756\.\d{4}\.\d{4}\.\d{2}(?![\w-])", lambda text: stdnum.ean.is_valid(digits_of(text))),
    (r"(?<![\w-])\d{3}-\d{3}-\d{3}[ -]\d{2}(?![\w-])", snils),
    (r"\b[A-Z]{1,2}\d{6}\([0-9A]\)", None),  # Hong Kong
    (r"(?<![\w.-])\d{2}\.\d{2}\.\d{2}-\d{3}\.\d{2}(?![\w-])", lambda text: belgium.is_valid(digits_of(text))),
    (
        r"(?<![\w-])[0-3]\d[01]\d{3}[-+A-FU-Y]\d{3}[0-9A-Y](?![\w-])",
        lambda text: finland.is_valid(ascii_digits(text), allow_temporary=True),
    ),
    (r"(?<![\w.-])\d{1,2}\.\d{3}\.\d{3}-[\dkK](?![\w-])", lambda text: chile.is_valid(ascii_digits(text))),
    (r"\b[A-Z]{4}\d{6}[HMX][A-Z]{5}[0-9A-Z]\d\b", None),  # Mexico, CURP
)
"""Pattern, and the check that a match must pass, if any."""

SSN_BROKEN = rf"(?<![\w-])(?!000|666)\d{{3}}-(?:{OVER_A_LINE}\d{{2}}-|\d{{2}}-{OVER_A_LINE})\d{{4}}(?![\w-])"
"""An SSN over two lines."""

_NUMBER = r"(?:[ -]?(?:number|no\.?|nr\.?|nummer|num[ée]ro|n[°º]))?"
NUMBER_NAMES = (
    rf"ssn|social security{_NUMBER}|social insurance{_NUMBER}|national (?:id(?:entity)?|insurance){_NUMBER}"
    rf"|tax (?:id|file{_NUMBER})|tax(?:payer)? identification{_NUMBER}|itin|tfn|nino|aadhaar{_NUMBER}|nhs{_NUMBER}"
    r"|(?<!gst )(?<!vat )(?<!company )id (?:card )?(?:number|no\.?)"
    rf"|identity (?:card )?number|driv(?:er|ing)'?s?'? licen[cs]e{_NUMBER}|ppsn?|pan(?: card)?"
    rf"|medicare(?: beneficiary identifier|{_NUMBER})"
    rf"|voter(?:['’]?s)? (?:id(?:entity)?|card)(?: card)?{_NUMBER}|election (?:id|card){_NUMBER}"
    rf"|(?:resident|alien) registration{_NUMBER}|carta d['’ ]identità(?: elettronica)?{_NUMBER}"
    rf"|(?:führerschein|fahrerlaubnis)[- ]?(?:nummer|nr\.?){_NUMBER}|(?:krankenversicher(?:ten|ungs)|versicherten)"
    rf"[- ]?(?:nummer|nr\.?)|permis de conduire{_NUMBER}|rijbewijs{_NUMBER}|prawo jazdy{_NUMBER}"
    rf"|(?:carn[eé]|permiso|licencia) de conducir{_NUMBER}"
    rf"|(?-i:SIN)|dni|nie|nif|curp|rfc(?=\W{{1,6}}[A-Z]{{3}})|nss|cpf|rut|c[eé]dula|codice fiscale|c\.f\.|pesel|nip"
    rf"|bsn|burgerservicenummer|rijksregisternummer|num[ée]ro (?:de )?(?:s[ée]curit[ée] sociale|s[ée]cu|national)|nir"
    rf"|steuer[- ]?(?:id(?:entifikationsnummer)?|nummer|nr\.?){_NUMBER}|idnr\.?|personalausweis{_NUMBER}"
    rf"|sozialversicherungs(?:nummer|nr\.?)|ahv{_NUMBER}|person(?:nummer|nr|al number)|f[øo]dselsnummer"
    r"|cpr(?:[ -]n(?:umme)?r\.?)?|henkil[öo]tunnus|rodn[ée] [čc][íi]slo|(?-i:CNP)|t\.?c\.? kimlik(?: no| numaram?)?"
    r"|oib|инн|снилс|(?:серия и )?номер паспорта|(?-i:NRIC|HKID|FIN|EGN|JMBG|PIN|CCCD|CMND|NIK|KTP|DPI|RUN|RG|EPIC"
    r"|KVNR|MBI|NIN|TIN|RRN)"
    r"|егн|јмбг|mykad"
    r"|lična karta|osobní číslo|asmens kodas|isikukood|személyi szám|αμκα|αφμ|căn cước(?: công dân)?|số cmnd"
)
NAMES_UNSPACED = (
    r"身份证号码|身份证号|身份证|身分證字號|マイナンバー|個人番号|주민(?:등록)?번호|외국인등록번호|आधार(?: नंबर)?"
    r"|मतदाता पहचान पत्र(?: संख्या)?|رقم الهوية"
)
LINK = (
    r"(?:\W{0,6}(?<!\w)(?:card|number|code|no|nr|is|was|ist|lautet|est(?: le)?|es(?: el)?|[eéè]|is het|to|jest|är|er|on"
    r"|este|olan|n[°º.]|nummer|num[ée]ro|número|की|है|reads?|says"
    r"|of (?:my|his|her|our|their|your|the|this)(?: \w{1,15}){1,2}?"
    r"|(?-i:[A-Z]{2,5})(?=\)|:| (?:is|was|reads|number|no\.?|nr\.?|ist|lautet|est|es)(?!\w)))(?!\w))"
)
"""A word between the name of a number and the number, whose it is, or a short form of the name."""
_PART = r"(?:[0-9A-Z]{0,17}\d[0-9A-Z]{0,17}|(?-i:[A-Z]{1,4}))"
NAMED_ID = (
    rf"(?i)(?:(?<!\w)(?:{NUMBER_NAMES})(?!\w)|(?:{NAMES_UNSPACED})[は是为:：]{{0,2}}){LINK}{{0,3}}\W{{0,6}}"
    rf"(?P<data>{_PART}(?:[ ./-]?{_PART}){{0,8}})(?![{WORD_CHARACTERS}])"
)
"""A number after a word for identity number, in many languages."""


def named(text: str) -> float | None:
    """LIKELY for a match of NAMED_ID with 6 to 18 letters and digits and enough digits (4 or 5), else None."""
    size, digits = len(re.sub(r"[\W_]", "", text)), len(digits_of(text))
    return LIKELY if 6 <= size <= 18 and digits >= 5 - (size > 8) else None


_CALLED = (
    r"(?:\b(?:passport|reisepass|passeport|pasaporte|passaport[eo]|paspoort|paszport|pasaport|pass"
    r"|паспорт|hộ chiếu|جواز (?:ال)?سفر)"
    r"[- ]{0,2}(?:number|nummer|num[eé]ro|numarası|no\.?|nr\.?|n[°º.]|№|#)?"
    rf"(?:{LINK}{{1,3}}\W{{1,6}}|\W{{0,6}}(?:(?:[^\W\d_]{{3,12}}\W)?(?:is|ist|lautet|est|es|[eéè]|to)\W+)?)"
    r"|护照号?码?\W?|パスポート(?:番号)?[は:：]?|여권 ?(?:번호)?\W{0,3}|पासपोर्ट (?:नंबर )?\W{0,3})"
)
PASSPORT = (
    rf"(?i){_CALLED}(?P<data>(?=[A-Z]{{0,3}}\d|[A-Z0-9]{{9}}\b)(?=[A-Z]{{0,9}}\d)[A-Z0-9]{{6,10}}\b"
    r"|(?:[A-Z]{1,2}[ -]?)?\d{2,4}(?:[ -]\d{2,6}){1,3}\b)"
)
"""A passport's number behind the word for it, in one piece or in groups."""
