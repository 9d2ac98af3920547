"""Numbers that states and banks give to persons and accounts, by form and, where they have one, by checksum."""

import re
from collections.abc import Callable, Iterable

CERTAIN, LIKELY = 1.0, 0.8

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
    number = digits_of(text.upper().translate(str.maketrans("XYZ", "012", "")) if text[0].isalpha() else text[:-1])
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


FORMS: tuple[tuple[str, Check | None], ...] = (
    (r"(?<![\w-])(?!000|666)\d{3}-(?!00)\d{2}-(?!0000)\d{4}(?![\w-])", None),  # United States, SSN and ITIN
    (r"(?<![\w-])(?!BG|GB|NK|KN|TN|NT|ZZ)[A-CEGHJ-PR-TW-Z][A-CEGHJ-NPR-TW-Z] ?\d{2} ?\d{2} ?\d{2} ?[A-D]\b", None),
    (r"(?<![\w.-])\d{3}\.\d{3}\.\d{3}-\d{2}(?![\w-])", cpf),
    (r"\b(?:\d{8}|[XYZ]\d{7})-?[A-HJ-NP-TV-Z]\b", dni),
    (r"(?<![\w.-])[1-9]\d{5}(?:19|20)\d{2}(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])\d{3}[\dXx]\b", resident_id),
    (r"(?<![\w.-])[12] ?\d{2} ?(?:0[1-9]|1[0-2]) ?\d{2} ?\d{3} ?\d{3} ?\d{2}(?![\w-])", nir),
    (r"\b[A-Z]{6}\d{2}[A-EHLMPRST]\d{2}[A-Z]\d{3}[A-Z]\b", None),  # Italy, codice fiscale
    (r"\b[A-Z]{3}[ABCFGHLJPT][A-Z]\d{4}[A-Z]\b", None),  # India, PAN
    (r"(?<![\w-])\d{6}-[1-4]\d{6}(?![\w-])", None),  # South Korea
)
"""Form, and the check it must pass."""

_NUMBER = r"(?: (?:number|no\.?))?"
NAMED = (
    rf"(?i)\b(?:ssn|social security{_NUMBER}|social insurance{_NUMBER}|national (?:id(?:entity)?|insurance){_NUMBER}"
    rf"|tax id|itin|nino|aadhaar|nhs{_NUMBER}|id (?:card )?(?:number|no\.?)|identity (?:card )?number|codice fiscale"
    rf"|dni|nie|driv(?:er|ing)'?s?'? licen[cs]e{_NUMBER})(?!\w)\W{{0,12}}(?:is\W+|was\W+)?"
    r"(?P<data>(?=[\w -]{0,17}\d)[0-9A-Z](?:[ -]?[0-9A-Z]){5,16})(?!\w)"
)
"""A number that the text calls an identity number."""
