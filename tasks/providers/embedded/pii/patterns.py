"""Finds personal data by regular expressions: formatted data with checksums."""

import ipaddress
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, partial
from typing import NamedTuple

from stdnum.kr import rrn as korea

from schemas.signals import PiiSpan
from tasks.providers.embedded.pii import identities, numbers, wallets
from tasks.providers.embedded.pii.machine_zone import HINT, MACHINE_READABLE, machine_readable
from tasks.providers.embedded.pii.named import NAMED_VALUES, Named
from tasks.providers.embedded.pii.numbers import CERTAIN, LIKELY, digits_of, iban, luhn
from tasks.providers.embedded.pii.readings import Reading, readings
from tasks.providers.embedded.pii.secrets import marks_login, secret_forms, secrets
from tasks.providers.embedded.pii.sieve import TOGETHER, Sieve

Confidence = Callable[[re.Match[str]], float | None]
Find = Callable[[str], Iterator[PiiSpan]]


class Pattern(NamedTuple):
    """A regular expression, and a function for the confidence of a match; None means that the match is not personal."""

    type: str
    form: re.Pattern[str]
    """If there is a group `data`, only that part of the match is personal."""
    confidence: Confidence
    hint: re.Pattern[str] | None = None
    """A text without a match of it has none of the form; much faster than the form."""


def _form(form: str) -> re.Pattern[str]:
    return re.compile(numbers.beside_characters(form))


def _always(confidence: float) -> Confidence:
    return lambda _: confidence


def _checked(check: numbers.DigitCheck | None) -> Confidence:
    return lambda match: LIKELY if check is None else CERTAIN if check(match.group()) else None


def _named(kind: Named) -> Confidence:
    return lambda match: kind.check(match["data"])


def _resident(match: re.Match[str]) -> float | None:
    """A Korean number without a hyphen, by its date and check digit, in a text with Korean letters."""
    around = match.string[max(0, match.start() - KOREAN_CHARACTERS) : match.end() + KOREAN_CHARACTERS]
    return CERTAIN if korea.is_valid(digits_of(match.group())) and re.search("[가-힣]", around) else None


KOREAN_CHARACTERS = 100
"""How near to a number without a hyphen Korean letters must stand."""


def _email(match: re.Match[str]) -> float | None:
    user, _, domain = match.group().rpartition("@")
    nobody = user in ("git", "hg", "svn") or not any(map(str.isalnum, user))  # a decorator: `@app.route`
    password = _LOGIN_BEFORE.search(match.string, max(0, match.start() - 80), match.start())
    return None if nobody or password or _NO_TOP_LEVEL.search(domain) else CERTAIN


_LOGIN_BEFORE = re.compile(r"://[^\s/@]{0,64}:[<{\[$%]{0,3}\Z")
"""Text before the password of an address, which is told by `_credentials`."""


def _credentials(match: re.Match[str]) -> float | None:
    """None for a user and a password that only mark where they belong, or defaults on a host that is nobody's."""
    user, _, password = match.group().partition("://")[2].partition("@")[0].partition(":")
    return None if marks_login(user, password) or _PLACEHOLDER_LOGIN.fullmatch(match.group()) else CERTAIN


_PLACEHOLDER_LOGIN = re.compile(
    r"[^:]+://(?:user(?:name)?|usr|login|root|admin|scott|postgres|mysql|sa|key|your[-_]?user(?:name)?|<\w+>|\{\w+\}|\$\{?\w+\}?)?"
    r":(?:pass(?:word|wd|phrase)?|passwd|pwd|secret|token|test(?:ing)?|(?<=scott:)tiger|your[-_]?password|x{3,}|\*{3,}|<\w+>|\{\w+\}|\$\{?\w+\}?)"
    r"@(?:|localhost|(?:127|10|192\.168)(?:\.\d{1,3}){2,3}|(?:[\w-]+\.)*example(?:\.(?:com|org|net))?|host(?:name)?|server|bucket|<\w+>|\{\w+\})(?:[/:\[?\"'<)].*)?",
    re.I,
)
"""Hosts reserved for examples (RFC 2606, 6761), inside a network, or named as a thing, and files without any host."""


def _card(match: re.Match[str]) -> float | None:
    number = digits_of(match.group())
    if numbers.counts_up(re.findall(r"\d+", match.group())):
        return None
    return (
        CERTAIN if 13 <= len(number) <= 19 and number[0] in "23456" and len(set(number)) > 1 and luhn(number) else None
    )


def _card_broken(match: re.Match[str]) -> float | None:
    """A card over two lines; all groups but the last have four digits or more, unlike those of a matrix."""
    groups = re.findall(r"\d+", match.group())
    return _card(match) if all(len(group) >= 4 for group in groups[:-1]) else None


def any_address(match: re.Match[str]) -> float | None:
    """The confidence of a network address, also of one inside a network; None for versions and loopback."""
    try:
        address = ipaddress.ip_address(match.group().replace(" ", ""))
    except ValueError:
        return None
    short = address.version == 6 and "::" in match.group() and "." not in match.group()
    if short and not _TELLING_IPV6.search(match.group()):
        return None
    logged_in = match.string[match.start() - 1 : match.start()] == "@"
    section = not logged_in and re.fullmatch(r"\d(?:\.\d){3}", match.group())  # of a manual; of addresses 1 in 400,000
    version = _VERSION.search(match.string, max(0, match.start() - 40), match.start())
    return None if section or version or address.is_unspecified or address.is_loopback else CERTAIN


def _ip(match: re.Match[str]) -> float | None:
    """Certainty of an address. A network's own machines tell of nobody, unless the address names the hardware."""
    if (certainty := any_address(match)) is None:
        return None
    address = ipaddress.ip_address(match.group().replace(" ", ""))
    inside = any(address in network for network in _INSIDE) and address.packed[11:13] != _OF_A_DEVICE
    return None if inside else certainty


def _mac(match: re.Match[str]) -> float | None:
    """Certainty of a hardware address; None for what all machines share, such as the address of all."""
    return CERTAIN if len(set(re.sub(r"\W", "", match.group().lower()))) > 2 else None


_INSIDE = tuple(
    map(
        ipaddress.ip_network,
        ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "169.254.0.0/16", "fc00::/7", "fe80::/10"),
    )
)
"""Networks whose addresses every household and company gives to its own machines (RFC 1918, 3927, 4193, 4291)."""
_OF_A_DEVICE = b"\xff\xfe"
"""Bytes 11 and 12 of an IPv6 address that holds the hardware address of its machine, which is unique (RFC 4291)."""
_EMAIL = r"(?!')[\w.!#$%&'+/?^~-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){0,7}\.[^\W\d_][\w-]{1,62}"
"""The last label begins with a letter: `deploy@1.2.3.4` is a machine, `lodash@4.17.21` a version.
No user has a mark of markdown, LaTeX or a setting (`*`, `{`, `=`) in its name, so that these stay beside it."""
_NO_TOP_LEVEL = re.compile(
    r"\.(?:shape|reshape|transpose|conj|sum|mean|weight|bias|grad|detach|numpy|values|png|jpe?g|gif|svg|webp|txt|csv|json"
    r"|html|css|[jt]sx?|java|xml|ya?ml|toml|exe|dll)\Z"
)
"""Words that follow the last dot of a matrix product (`a@b.shape`) or of a file (`icon@2x.png`), and is no domain."""
_TELLING_IPV6 = re.compile(r"(?i)(?=\D*\d)(?=.*[0-9a-f]{3})")
"""A digit, and three digits of one group; without these `1::2` is a slice, and `face::add` a name in C++."""
_VERSION = re.compile(
    r"(?:(?<![A-Za-z])(?:versions?|ver|releases?d?|builds?|firmware|drivers?|kernel|sections?|chapters?|§)"
    r"(?: (?:is|to|from|of|no\.?|number))?\s?[:=]?\s?v?|(?<![A-Za-z])v\.?|[A-Za-z]/|==|>=|<=|~=)\s?\Z",
    re.I,
)
"""Text before four numbers that are a software version or a section number, not an IP address."""
_SPELT_AT = r"(?:\[ ?at ?\]|\( ?at ?\)|\{ ?at ?\}|<at>)"
_SPELT_DOT = r"(?: ?[.] ?| ?[\[({] ?dot ?[\])}] ?| dot )"
_DOMAIN = (
    r"(?:com|org|net|edu|gov|info|dev|app|io|ai|co\.uk|de|fr|es|it|nl|be|ch|at|pl|se|no|dk|fi|uk|us|ca|au|jp|cn|br|ru|eu)"
    r"(?![\w(\[-])"
)
"""Last labels of addresses with blanks, which would else be matrix products (`a @ b.sum(0)`)."""
_NO_USER = r"(?:us|me|you|we|them|him|her|it|are|is|look|meet|meeting|visit|here|there|site|website|page|blog|online)\b"
_EMAIL_SPACED = (
    rf"(?<![\w.+-])(?!(?i:{_NO_USER}))[\w+-]{{2,40}}(?:\.[\w+-]{{1,40}}){{0,3}}(?: @ ?|@ | AT |_at_|_AT_)"
    rf"[\w-]{{1,63}}(?:(?: ?\. ?|_dot_|_DOT_| DOT )[\w-]{{1,63}}){{0,3}}(?: ?\.| \. |_dot_|_DOT_| DOT ){_DOMAIN}"
    rf"|(?<![\w.+-])[\w.+-]{{1,64}}@[\w-]{{1,63}}(?:(?: \. ?|\.)[\w-]{{1,63}}){{0,3}} \. ?{_DOMAIN}"
)
"""Obfuscated e-mail addresses: blanks around the @ and the dots, or AT and _at_ in its place."""
_EMAIL_SPELT = (
    rf"(?i)(?<![\w.+-])[\w+-]{{1,40}}(?:{_SPELT_DOT}[\w+-]{{1,40}}){{0,3}} ?{_SPELT_AT} ?"
    rf"[\w-]{{1,63}}(?:{_SPELT_DOT}(?!at\b)[\w-]{{1,63}}){{1,4}}"
    rf"|(?<![\w.+-])(?!{_NO_USER})"
    r"[\w+-]{2,40}(?:(?:\.| dot )[\w+-]{1,40}){0,3} at (?!(?:the|a|an|my|our|this)\b)[\w-]{1,63}"
    r"(?:(?:\.| dot )[\w-]{1,63}){0,3} dot (?:com|org|net|edu|gov|info|app|dev|[a-z]{2})\b"
)
"""Obfuscated e-mail addresses: (at), [at], or `at` with `dot`."""
_IPV4 = r"(?<![\d.])(?:(?:\d{1,3}\.){3}|(?:\d{1,3} \. ){3})\d{1,3}(?![\d]|\.\d)"
_IPV6 = r"(?<![\w:])(?:[0-9a-fA-F]{0,4}:){2,7}(?:(?:\d{1,3}\.){3}\d{1,3}|[0-9a-fA-F]{0,4})(?![\w:]|\.\d)"
"""An IPv6 address, also with an IPv4 address at its end, as servers log it: ::ffff:8.8.8.8."""
_URL_CREDENTIALS = r"\b[A-Za-z][A-Za-z0-9+.-]{1,20}://[^\s/:@]{0,64}:[^\s/@]{1,64}@\S{1,200}"
_BREAK = r"[ \t-]{0,3}\r?\n[ \t]{0,8}"
_IBAN = rf"\b(?:{numbers.ibans(f'(?:[ ._-]|{_BREAK})?')}|[a-z]{{2}}\d{{2}}[a-z0-9]{{11,30}})\b"
"""Exactly as long as in its country, so that a word in capital letters after it is not taken for its end."""
_CARD_DIGIT = r"(?:(?:[ -](?!\d\d?/\d))?\d)"  # an expiry date behind the number is not part of it
_CARD = rf"(?<![\w.-])\d{_CARD_DIGIT}{{12,18}}(?![\w-]|\.\d)"
_CARD_DOTTED = r"(?<![\w.-])\d{4}(?:([._])\d{4}\1\d{4}\1\d{1,7}|([._])\d{6}\2\d{5})(?![\w-]|\.\d)"
_CARD_BROKEN = rf"(?<![\w.-])(?<!\d )\d(?:[ ._-]?\d){{3,14}}{_BREAK}\d{_CARD_DIGIT}{{0,14}}(?![\w-]|\.\d| \d|\n\d)"
_CARD_NAMED = (
    r"(?i)\b(?:card|cc|visa|mastercard|amex|maestro)(?: (?:number|no\.?|nr\.?|details))?[\s:#=-]{1,4}(?:is |was )?"
    rf"(?P<data>\d{_CARD_DIGIT}{{11,18}})(?![\w-])"
)
_MAC = (
    r"(?<![\w:-])(?:(?:[0-9A-Fa-f]{2}:){5}[0-9A-Fa-f]{2}|(?=[\d-]{0,15}[A-Fa-f])(?:[0-9A-Fa-f]{2}-){5}[0-9A-Fa-f]{2}"
    r"|(?=[\d.]{0,13}[A-Fa-f])(?:[0-9A-Fa-f]{4}\.){2}[0-9A-Fa-f]{4})(?![\w:-]|\.\w)"
)
_DECIMAL = r"-?\d{1,3}\.\d"
_HALF = (
    r"(?:\d{1,3}[°º][^\S\n]?\d{1,2}(?:\.\d{2,5})?[^\S\n]?['′’](?:[^\S\n]?\d{1,2}(?:\.\d{1,5})?[^\S\n]?[\"″”]|'')?"
    r"|\d{1,3}\.\d{4,9}[°º])[^\S\n]?"
)
_PLACE = (
    rf"{_HALF}[NSns][^\w\n]{{0,5}}{_HALF}[EWOewo]\b|\b[NS][^\S\n]?{_HALF}[^\w\n]{{0,5}}[EWO][^\S\n]?{_HALF}"
    rf"|(?i:\blat(?:itude)?\W{{1,4}}{_DECIMAL}\d{{3,12}}\W{{1,6}}(?:lon|lng|long)(?:gitude|itude)?\W{{1,4}}{_DECIMAL}\d{{3,12}})"
    rf"|(?i:(?:\b(?:gps|coord\w*|koordinat\w*|lat\W{{0,2}}lon\w?|location|maps?|home|house|live|wohne)\b.{{0,20}}?|geo:|[/?&](?:q|ll|query|center)=|/@))"
    rf"(?P<data>{_DECIMAL}\d{{3,12}}[,;/+]?\s{{0,3}}{_DECIMAL}\d{{3,12}})(?!\d|\.\d|,\s?-?\d)"
    r"|\b[23456789CFGHJMPQRVWX]{8}\+[23456789CFGHJMPQRVWX]{2,3}\b"
)
"""A place to ten metres: degrees with minutes, four decimals behind a word for places, or an Open Location Code."""
_PAIR = r"(?<![\w.,(\[{=*/+-])(?<!\d, )-?\d{2}\.\d{5,7}, ?-?\d{2,3}\.\d{5,7}(?![\w)\]}*/]|\.\d|,? -?\d)"
"""Two numbers with as many decimals as telephones give places; in brackets they are mathematics."""

_DIGIT = re.compile(r"\d")
_DIGITS = re.compile(r"\d(?:\D{0,8}\d){5}")
"""Six digits near each other."""
_BROKEN = re.compile(r"\d\)?[ \t.-]{0,6}\r?\n[ \t]{0,8}\d")
"""A number that goes on in the next line, with all signs that may stand before the end of the first."""
_AT = re.compile(r"@")

PATTERNS = (
    Pattern("passport", re.compile(MACHINE_READABLE), machine_readable, re.compile(HINT)),
    Pattern("url_credentials", re.compile(_URL_CREDENTIALS), _credentials, _AT),
    Pattern("email", re.compile(_EMAIL), _email, _AT),
    Pattern("email", re.compile(_EMAIL_SPELT), _always(LIKELY), re.compile(rf"(?i){_SPELT_AT}| dot ")),
    Pattern("email", re.compile(_EMAIL_SPACED), _always(LIKELY), re.compile("@| AT |_at_|_AT_")),
    Pattern("iban", _form(_IBAN), lambda match: CERTAIN if iban(match.group()) else None, re.compile(r"[A-Za-z]\d\d")),
    *(Pattern(kind.type, _form(kind.pattern()), _named(kind), _DIGIT) for kind in NAMED_VALUES),
    Pattern("iban", re.compile(wallets.CHECKED), wallets.checked_wallet),
    Pattern("iban", re.compile(wallets.SAID), wallets.said_wallet),
    Pattern("card", _form(_CARD), _card, _DIGITS),
    Pattern("card", _form(_CARD_DOTTED), _card, _DIGITS),
    Pattern("card", _form(_CARD_BROKEN), _card_broken, _BROKEN),
    Pattern("card", _form(_CARD_NAMED), _always(LIKELY), _DIGITS),
    Pattern("ip", _form(f"{_IPV4}|{_IPV6}"), _ip, re.compile(r"\d ?\.|:[0-9a-fA-F]{0,4}:")),
    Pattern(
        "ip",
        re.compile(_MAC),
        _mac,
        re.compile(r"[0-9A-Fa-f]{2}[:-][0-9A-Fa-f]{2}[:-]|[0-9A-Fa-f]{4}\.[0-9A-Fa-f]{4}\."),
    ),
    Pattern("address", re.compile(_PLACE), _always(LIKELY), re.compile(r"\d[°º.+]|[CFGHJMPQRVWX]\+")),
    Pattern("address", re.compile(_PAIR), _always(LIKELY), re.compile(r"\.\d{5}")),
    *(Pattern("national_id", _form(form), _checked(check), _DIGIT) for form, check in identities.IDENTITY_FORMS),
    Pattern("national_id", _form(r"(?<![\w.-])\d{13}(?![\w-]|\.\d)"), _resident, _DIGITS),
    Pattern("national_id", _form(identities.SSN_BROKEN), _always(LIKELY), _BROKEN),
    Pattern("national_id", _form(identities.NAMED_ID), lambda match: identities.named(match["data"]), _DIGIT),
    Pattern("passport", _form(identities.PASSPORT), _always(LIKELY), _DIGIT),
    Pattern("phone", numbers.PHONE_BROKEN, numbers.broken_confidence, _BROKEN),
    Pattern("phone", numbers.PHONE_PATTERN, numbers.phone_confidence, _DIGITS),
)
"""In order of precedence: overlapping text belongs to the first pattern that matches it."""


def find_patterns(texts: Sequence[str]) -> list[list[PiiSpan]]:
    """All matches in every reading of each text, with their place in it as written; see `matches`."""
    return matches(readings(texts))


def matches(text_readings: Sequence[Sequence[Reading]]) -> list[list[PiiSpan]]:
    """Matches in the readings of each text, with their place in it as written, in order of precedence.

    A match of a later reading that is longer than one of the first comes before it, so that nothing of it is left.
    """
    passing = iter(_sieve().passing([reading.text for of_text in text_readings for reading in of_text]))
    return [_matches(of_text, [next(passing) for _ in of_text]) for of_text in text_readings]


@cache
def _sieve() -> Sieve[Find]:
    size = TOGETHER // 4
    parts = [PATTERNS[start : start + size] for start in range(0, len(PATTERNS), size)]
    searches: dict[Find, Sequence[re.Pattern[str]]] = {secrets: secret_forms()}
    return Sieve(searches | {partial(_formed, part): [pattern.form for pattern in part] for part in parts})


def _matches(text_readings: Sequence[Reading], passing: Sequence[Iterable[Find]]) -> list[PiiSpan]:
    """Matches in the readings of one text, each with the searches that may find anything in it."""
    if not any(passing):
        return []
    spans_by_reading = [
        [*map(reading.original, _allowed(reading, searches))]
        for reading, searches in zip(text_readings, passing, strict=True)
    ]
    # one span a match that the first reading does not have, in order, each once
    later = dict.fromkeys(span for spans in spans_by_reading[1:] for span in spans if span not in spans_by_reading[0])
    wider = [span for span in later if any(_within(other, span) for other in spans_by_reading[0])]
    return [*wider, *spans_by_reading[0], *(span for span in later if span not in wider)]


def _allowed(reading: Reading, searches: Iterable[Find]) -> Iterator[PiiSpan]:
    """The matches of some searches in a reading, in the order of the searches; they may overlap."""
    spans = (span for search in searches for span in search(reading.text))
    return (span for span in spans if _strict(span, reading.text)) if reading.strict else spans


def _within(span: PiiSpan, other: PiiSpan) -> bool:
    return other.start <= span.start and span.end <= other.end and span.end - span.start < other.end - other.start


_CARD_ALONE = re.compile(
    r"(?:4\d{3}|5[1-5]\d\d|2[2-7]\d\d|6(?:011|5\d\d))(?:([ -])\d{4}\1\d{4}\1\d{4}|\d{12})|3[47]\d\d([ -]?)\d{6}\2\d{5}"
)
"""Groups of the four large brands."""


def _strict(span: PiiSpan, text: str) -> bool:
    """Whether a match has a form that numbers which stand beside each other by chance have not."""
    span_text = text[span.start : span.end]
    if span.type == "card":
        alone = not re.search(r"\d[ -]?\Z", text[max(0, span.start - 2) : span.start])
        return alone and not re.match(r"[ -]?\d", text[span.end :]) and bool(_CARD_ALONE.fullmatch(span_text))
    return span.type != "phone" or span.confidence == numbers.NAMED or numbers.is_abroad(span_text)


def _formed(patterns: Sequence[Pattern], text: str) -> Iterator[PiiSpan]:
    """The matches of some patterns in a text, in their order."""
    hinted: dict[re.Pattern[str] | None, bool] = {None: True}
    for kind, form, confidence, hint in patterns:
        if hint not in hinted:
            hinted[hint] = bool(hint and hint.search(text))
        for match in form.finditer(text) if hinted[hint] else ():
            sure = confidence(match)
            if sure is not None:
                part = "data" if match.groupdict().get("data") else 0
                yield PiiSpan(type=kind, start=match.start(part), end=match.end(part), confidence=sure)
