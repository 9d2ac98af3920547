"""Values that are found behind the words that name them: accounts, number plates, dates of birth, licences.

In: a text in its plain form. Out: `NAMED_VALUES`, each with the pattern of a value behind its word, and its check. A
further kind is an entry there; identity numbers, whose words are many and whose forms are alike, are in `identities`.
"""

import re
from collections.abc import Callable
from typing import NamedTuple

import stdnum.us.rtn

from tasks.providers.embedded.pii.identities import LINK
from tasks.providers.embedded.pii.numbers import CERTAIN, LIKELY, digits_of


class Named(NamedTuple):
    """A kind of value behind its words."""

    type: str
    """Type of its spans."""
    words: str
    """Words of languages that part words by blanks."""
    unspaced: str
    """Words of Chinese, Japanese and Korean."""
    form: str
    """Regular expression of the value, for a text in any case unless it says otherwise."""
    check: Callable[[str], float | None]
    """Confidence of a value; None if it is none."""

    def pattern(self) -> str:
        """Pattern of a value behind one of the words; the group `data` is the value."""
        words = [rf"(?<!\w)(?:{self.words})(?!\w)"] if self.words else []
        words += [rf"(?:{self.unspaced})[は是为為은는:：]{{0,2}}"] if self.unspaced else []
        return rf"(?i)(?:{'|'.join(words)}){LINK}{{0,3}}\W{{0,6}}(?P<data>{self.form})(?![\w-])"


def _routing(text: str) -> float | None:
    """A bank of the United States, by its check digit."""
    return CERTAIN if stdnum.us.rtn.is_valid(digits_of(text)) else None


def _account(text: str) -> float | None:
    """A number that does not only count up, as documentation has it."""
    number = digits_of(text)
    return LIKELY if len(set(number)) > 1 and number not in "0123456789012345678901234567890" else None


def _plate(text: str) -> float | None:
    """Capital letters and digits, mixed as on a plate."""
    signs = re.sub(r"[\W_]", "", text)
    letters, digits = sum(map(str.isalpha, signs)), sum(map(str.isdigit, signs))
    return LIKELY if 4 <= len(signs) <= 11 and letters and digits >= 2 else None


def _birth(text: str) -> float | None:
    """A day that somebody alive may have been born on; the first of January stands for a day that is not known."""
    numbers = [int(number) for number in re.findall(r"\d+", text)]
    if len(numbers) == 2:  # the month is a word
        day, year = sorted(numbers)
        return LIKELY if 1 <= day <= 31 and year in BORN else None
    first, second, third = numbers
    day, month, year = (third, second, first) if first > 31 else (first, second, third)
    year += 0 if year > 99 else 2000 if year + 2000 in BORN else 1900
    is_day = 1 <= min(day, month) <= 12 and max(day, month) <= 31
    return LIKELY if is_day and year in BORN and (day, month) != (1, 1) else None


BORN = range(1905, 2031)
"""Years in which somebody alive was born; earlier ones are in biographies."""
_VEHICLE = r"(?:vehicle|car|van|(?:motor)?bike|motorcycle|scooter|truck|lorry|taxi)"
_VEHICLE_NAMES = (
    rf"{_VEHICLE}(?:['’]?s)?(?: reg(?:istration)?)? (?:number|no\.?)|{_VEHICLE}(?:['’]?s)? reg(?:istration)?(?: mark)?"
    rf"|registration (?:number|no\.?|mark)|reg\.? (?:number|no\.?)|(?:my|our|his|her|their) reg(?:istration)?"
    rf"|registration of (?:my|our|his|her|their|the) {_VEHICLE}"
)
"""Words that also name the number of a thing, behind which only the forms of some countries are plates."""
_PLATE_NAMES = (
    r"(?:licen[cs]e|number|registration|vehicle|car|reg)[ -]?plates?(?: (?:number|no\.?))?|my plate"
    r"|(?:kfz-?|auto)?kennzeichen|nummernschild|autonummer"
    r"|plaque(?: d['’]immatriculation)?|immatriculation|immatriculée?|matr[ií]cula|placas?(?: del? \w+)?"
    r"|targa(?: (?:della macchina|dell['’]auto))?"
    r"|kenteken(?:plaat)?|(?:tablica|numer) rejestracyjn[ay]|nr rej\.?|(?:гос)?номер (?:машины|авто\w*)|гос\.? ?номер"
    r"|plaka(?:m|sı)?"
    r"|registreringsnummer|regnr\.?|rekisterinumero|rendszám|biển số(?: xe)?|गाड़ी (?:का )?नंबर|رقم (?:اللوحة"
    r"|السيارة)|номерний знак"
)
_CAPITAL = r"A-ZÄÖÜА-ЯЁІЇ"
_PLATE_OF_COUNTRY = (
    r"[a-z]{2}\d\d ?[a-z]{3}|[a-z]{2}[ -]?\d{1,2}[ -]?[a-z]{1,3}[ -]?\d{4}|\d\d[ -]?bh[ -]?\d{4}[ -]?[a-z]{1,2}"
    r"|[a-zäöü]{1,3}-[a-z]{1,2}[ -]?\d{1,4}[eh]?|[a-z]{2}[ -]?\d{3}[ -]?[a-z]{2}"
    r"|[\u4e00-\u9fff][a-z][·• ]?[a-z0-9]{5,6}"
    r"|\d{2,3}[가-힣] ?\d{4}|[\u4e00-\u9fff]{1,4} ?\d{3} ?[\u3041-\u3093] ?\d\d-?\d\d"
)
_PLATE = (
    _PLATE_OF_COUNTRY
    + rf"|(?-i:(?=[{_CAPITAL}\d·• -]{{0,9}}\d)[{_CAPITAL}\d]{{1,8}}(?:[ ·•-][{_CAPITAL}\d]{{1,5}}){{0,3}})"
)
_BIRTH_NAMES = (
    r"date of birth|birth ?dates?|d\.?o\.?b\.?|birthday|(?:i was|i['’]m|i am|we were) born(?: on)?"
    r"|geburtsdatum|geburtstag|geb\.(?: am)?|ich (?:bin|wurde) am|date de naissance|(?:je suis )née? le"
    r"|fecha de nacimiento|nací el|data di nascita|sono nat[oa] il|data de nascimento|nasci (?:em|no dia)"
    r"|geboortedatum|ik ben geboren op|data urodzenia|urodził[ae]m się|födelsedatum|fødselsdato|syntymäaika"
    r"|doğum tarih(?:i|im)"
    r"|дата рождения|(?:я )?родил(?:ся|ась)|дата народження|ngày sinh|datum narození|ημερομηνία γέννησης|תאריך לידה"
    r"|تاريخ (?:الميلاد|ميلادي)|تاریخ تولد|जन्म ?(?:तिथि|तारीख)|জন্ম তারিখ|tanggal lahir"
)
_BIRTH = (
    r"(?:19|20)\d\d(?:[-./]| [-./] )\d{1,2}(?:[-./]| [-./] )\d{1,2}|\d{1,2}(?:[-./]|\. | [-./] )\d{1,2}(?:[-./]|\. "
    r"| [-./] )(?:(?:19|20)\d\d|\d\d)"
    r"|\d{1,2}(?:st|nd|rd|th|er|\.|º)?(?: (?:of|de))? [^\W\d_]{3,12}\.?,?(?: (?:de|del))? (?:19|20)\d\d"
    r"|[^\W\d_]{3,12}\.? \d{1,2}(?:st|nd|rd|th)?,? (?:19|20)\d\d"
    r"|(?:19|20)\d\d ?[年년] ?\d{1,2} ?[月월] ?\d{1,2} ?[日일]"
)
_ACCOUNT_NAMES = (
    r"(?:bank|checking|savings?|current) account(?: (?:number|no\.?|nr\.?))?|(?:account|acct?)\.?[ -]?(?:number|no\.?"
    r"|num\.?|#)"
    r"|a/c(?: no\.?)?|konto[- ]?(?:nummer|nr\.?)|kto\.?[- ]?nr\.?|(?:num[ée]ro|n[°º]) de compte(?: bancaire)?"
    r"|compte (?:bancaire|n[°º])|n[úu]mero de (?:la )?cuenta(?: bancaria)?|cuenta (?:bancaria|corriente|n[°º])|clabe"
    r"|numero (?:di|del) conto|conto corrente|n[úu]mero da conta|conta (?:corrente|bancária)|(?:bank)?rekeningnummer"
    r"|(?:numer|nr) (?:konta|rachunku)|(?:номер )?(?:расч[её]тн\w+ )?сч[её]т\w?|р/с|номер рахунку"
    r"|hesap (?:numara(?:sı|m)|no)"
    r"|số tài khoản|nomor rekening|tilinumero|číslo účtu|számlaszám|αριθμός λογαριασμού|شماره حساب|رقم الحساب"
    r"|खाता (?:संख्या|नंबर)"
)
NAMED_VALUES = (
    Named("iban", r"(?:routing|aba|rtn)(?:[ /-](?:transit|routing|aba|rtn))*", "", r"\d{4}[ -]?\d{4}[ -]?\d", _routing),
    Named("iban", r"sort[ -]?code", "", r"\d\d[ -]?\d\d[ -]?\d\d", _account),
    Named("iban", r"bsb", "", r"\d{3}[ -]?\d{3}", _account),
    Named("iban", r"blz|bankleitzahl", "", r"\d{3} ?\d{3} ?\d\d", _account),
    Named("iban", _ACCOUNT_NAMES, r"银行账[号户]|銀行帳[號戶]|账号|帐号|帳號|银行卡号|口座番号|계좌 ?번호",
          r"\d(?:[ .-]?\d){5,23}", _account),
    Named("national_id", _VEHICLE_NAMES, "", _PLATE_OF_COUNTRY, _plate),
    Named("national_id", _PLATE_NAMES, r"车牌号?码?|車牌號?碼?|ナンバープレート|車のナンバー|차량 ?번호|번호판",
          _PLATE, _plate),
    Named("national_id", _BIRTH_NAMES, r"出生日期|生日|生年月日|誕生日|생년월일|생일", _BIRTH, _birth),
    Named("national_id", "patente(?: di guida)?(?: italiana)?", "", r"[a-z]{1,2}\d[a-z0-9]{6,7}[a-z]",
          lambda _: LIKELY),
)  # fmt: skip
