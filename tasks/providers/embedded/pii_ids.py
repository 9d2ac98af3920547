"""Numbers that states and banks give to persons and accounts, by form and, where they have one, by checksum."""

import re
from collections.abc import Callable, Iterable

CERTAIN, LIKELY = 1.0, 0.8

LETTERS = r"0-9A-Za-z_\u00c0-\u1fff"
"""What makes a word with its neighbours; Chinese and Japanese characters stand beside a number without a space."""


def beside_characters(form: str) -> str:
    """The form, with Chinese and Japanese characters allowed before and behind it."""
    edge = f"(?:(?<![{LETTERS}])(?=[{LETTERS}])|(?<=[{LETTERS}])(?![{LETTERS}]))"
    return form.replace(r"[\w", f"[{LETTERS}").replace(r"(?!\w)", f"(?![{LETTERS}])").replace(r"\b", edge)


Check = Callable[[str], bool]


def digits_of(text: str) -> str:
    """The decimal digits of a text."""
    return re.sub(r"\D", "", text)


def luhn(text: str) -> bool:
    """Whether the digits pass the checksum of payment cards (ISO/IEC 7812)."""
    doubled = [int(d) * (2 if index % 2 else 1) for index, d in enumerate(reversed(digits_of(text)))]
    return sum(value - 9 if value > 9 else value for value in doubled) % 10 == 0


def iban(text: str) -> bool:
    """Whether the text passes the checksum of an account number (ISO 13616)."""
    compact = re.sub(r"[\s-]", "", text).upper()
    return 15 <= len(compact) <= 34 and int("".join(str(int(c, 36)) for c in compact[4:] + compact[:4])) % 97 == 1


def _weighted(number: str, weights: Iterable[int]) -> int:
    return sum(int(digit) * weight for digit, weight in zip(number, weights, strict=False))


def cpf(text: str) -> bool:
    """Brazil's CPF: two check digits modulo 11."""
    number = digits_of(text)
    first, second = (_weighted(number[:n], range(n + 1, 1, -1)) * 10 % 11 % 10 for n in (9, 10))
    return len(set(number)) > 1 and number[9:] == f"{first}{second}"


def dni(text: str) -> bool:
    """Spain's DNI and NIE: the letter is the number modulo 23."""
    number = digits_of(text[:-1].upper().translate(str.maketrans("XYZ", "012")))
    return "TRWAGMYFPDXBNJZSQVHLCKE"[int(number) % 23] == text[-1].upper()


def resident_id(text: str) -> bool:
    """China's 18-character identity number (GB 11643, ISO 7064 MOD 11-2)."""
    return "10X98765432"[sum(int(d) * (1 << (17 - i)) for i, d in enumerate(text[:17])) % 11] == text[17].upper()


def nir(text: str) -> bool:
    """France's social security number: the key is 97 less the number modulo 97."""
    number = digits_of(text)
    return len(number) == 15 and 97 - int(number[:13]) % 97 == int(number[13:])


def nhs(text: str) -> bool:
    """The number of the British health service, modulo 11."""
    number = digits_of(text)
    return (11 - _weighted(number[:9], range(10, 1, -1)) % 11) % 11 == int(number[9])


def personnummer(text: str) -> bool:
    """Sweden's personal number: a date, then a check digit after Luhn."""
    number = digits_of(text)[-10:]
    return 1 <= int(number[2:4]) <= 12 and 1 <= int(number[4:6]) % 60 <= 31 and luhn(number)


def rijksregister(text: str) -> bool:
    """Belgium's national number: 97 less the number modulo 97, with a 2 before it for births since 2000."""
    number = digits_of(text)
    return 97 - int(number[:9]) % 97 == int(number[9:]) or 97 - int(f"2{number[:9]}") % 97 == int(number[9:])


def hetu(text: str) -> bool:
    """Finland's personal identity code, modulo 31."""
    return "0123456789ABCDEFHJKLMNPRSTUVWXY"[int(text[:6] + text[7:10]) % 31] == text[10].upper()


def rut(text: str) -> bool:
    """Chile's RUT, modulo 11 with the weights 2 to 7 from the right."""
    number, check = digits_of(text[:-1]), text[-1].upper()
    return "0123456789K0"[11 - _weighted(number[::-1], (2, 3, 4, 5, 6, 7, 2, 3)) % 11] == check


FORMS: tuple[tuple[str, Check | None], ...] = (
    (r"(?<![\w-])(?!000|666)\d{3}-(?!00)\d{2}-(?!0000)\d{4}(?![\w-])", None),  # United States, SSN and ITIN
    (r"(?<![\w-])(?!BG|GB|NK|KN|TN|NT|ZZ)[A-CEGHJ-PR-TW-Z][A-CEGHJ-NPR-TW-Z] ?\d{2} ?\d{2} ?\d{2} ?[A-D]\b", None),
    (r"(?<![\w.-])\d{3}\.\d{3}\.\d{3}-\d{2}(?![\w-])", cpf),
    (r"\b(?:\d{8}|\d{2}\.\d{3}\.\d{3}|[XYZ][ -]?\d{7})[ -]?[A-HJ-NP-TV-Z]\b", dni),
    (r"(?<![\w.-])[1-9]\d{5}(?:19|20)\d{2}(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])\d{3}[\dXx]\b", resident_id),
    (r"(?<![\w.-])[12] ?\d{2} ?(?:0[1-9]|1[0-2]) ?\d{2} ?\d{3} ?\d{3} ?\d{2}(?![\w-])", nir),
    (r"\b[A-Z]{6}\d{2}[A-EHLMPRST]\d{2}[A-Z]\d{3}[A-Z]\b", None),  # Italy, codice fiscale
    (r"\b[A-Z]{3}[ABCFGHLJPT][A-Z]\d{4}[A-Z]\b", None),  # India, PAN
    (r"(?<![\w-])\d{6}-[1-4]\d{6}(?![\w-])", None),  # South Korea
    (r"(?<![\w-])(?:19|20)?\d{6}[-+]\d{4}(?![\w-])", personnummer),
    (r"(?<![\w.-])\d{2}\.\d{2}\.\d{2}-\d{3}\.\d{2}(?![\w-])", rijksregister),
    (r"(?<![\w-])[0-3]\d[01]\d{3}[-+A-F]\d{3}[0-9A-Y](?![\w-])", hetu),
    (r"(?<![\w.-])\d{1,2}\.\d{3}\.\d{3}-[\dkK](?![\w-])", rut),
    (r"\b[A-Z]{4}\d{6}[HMX][A-Z]{5}[0-9A-Z]\d\b", None),  # Mexico, CURP
)
"""Form, and the check it must pass."""

_NUMBER = r"(?:[ -]?(?:number|no\.?|nr\.?|nummer|num[ée]ro|n[°º]))?"
NAMES = (
    rf"ssn|social security{_NUMBER}|social insurance{_NUMBER}|national (?:id(?:entity)?|insurance){_NUMBER}"
    rf"|tax (?:id|file{_NUMBER})|itin|tfn|nino|aadhaar{_NUMBER}|nhs{_NUMBER}|id (?:card )?(?:number|no\.?)"
    rf"|identity (?:card )?number|driv(?:er|ing)'?s?'? licen[cs]e{_NUMBER}|ppsn?|medicare{_NUMBER}|pan(?: card)?"
    rf"|(?-i:SIN)|dni|nie|nif|curp|rfc|nss|cpf|rut|c[eé]dula|codice fiscale|c\.f\.|pesel|nip"
    rf"|bsn|burgerservicenummer|rijksregisternummer|num[ée]ro (?:de )?(?:s[ée]curit[ée] sociale|s[ée]cu|national)|nir"
    rf"|steuer[- ]?(?:id(?:entifikationsnummer)?|nummer|nr\.?){_NUMBER}|idnr\.?|personalausweis{_NUMBER}"
    rf"|sozialversicherungs(?:nummer|nr\.?)|ahv{_NUMBER}|person(?:nummer|nr|al number)|f[øo]dselsnummer"
    r"|cpr(?:[ -]n(?:umme)?r\.?)?|henkil[öo]tunnus|rodn[ée] [čc][íi]slo|(?-i:CNP)|tc kimlik(?: no)?"
)
NAMES_UNSPACED = r"身份证号码|身份证号|身份证|身分證字號|マイナンバー|個人番号|주민등록번호|आधार(?: नंबर)?|رقم الهوية"
_LINK = (
    r"(?:\W{0,6}(?<!\w)(?:card|number|no|nr|is|was|ist|lautet|est(?: le)?|es(?: el)?|[eéè]|is het|to|jest|är|er|on)"
    r"(?!\w))"
)
_PART = r"(?:[0-9A-Z]{0,17}\d[0-9A-Z]{0,17}|(?-i:[A-Z]{1,4}))"
NAMED = (
    rf"(?i)(?:(?<!\w)(?:{NAMES})(?!\w)|(?:{NAMES_UNSPACED})[は是为:：]{{0,2}}){_LINK}{{0,2}}\W{{0,6}}"
    rf"(?P<data>{_PART}(?:[ ./-]?{_PART}){{0,8}})(?![{LETTERS}])"
)
"""A number that the text calls an identity number, in the words of many countries."""


def named(text: str) -> float | None:
    """Confidence that a number so called is one: 6 to 18 letters and digits, of which 5 digits at least."""
    size, digits = len(re.sub(r"[\W_]", "", text)), len(digits_of(text))
    return LIKELY if 6 <= size <= 18 and digits >= 5 - (size > 12) else None
