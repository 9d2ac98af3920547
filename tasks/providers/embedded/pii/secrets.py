"""Keys, tokens, passwords and private keys: by the rules of gitleaks, and by the words that stand before them.

The rules are those of gitleaks 8.30.1, unchanged (`gitleaks.toml`, MIT; NOTICE). A rule is only searched for where one
of its words stands in the text; its entropy says how irregular a secret must be (Shannon, bits a character).
"""

import math
import re
import tomllib
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from schemas.signals import PiiSpan

RULES = Path(__file__).with_name("gitleaks.toml")
KEY, IN_URL = "api_key", "url_credentials"
IRREGULAR_BITS = 3.0
"""Least entropy of a token behind a word such as `token`; words of a language that are as long have less."""


class SecretRule(NamedTuple):
    """One rule of gitleaks."""

    form: re.Pattern[str]
    group: int
    """Group of the secret; 0 means the first that is not empty."""
    entropy: float
    harmless: tuple[tuple[str, re.Pattern[str]], ...]
    """Part that is looked at (secret, match, line), and a form with which it is no secret."""
    stop_words: tuple[str, ...]


class SecretForm(NamedTuple):
    """A secret that is told by the words or signs around it."""

    name: str
    """Name of the form, as benchmarks list it."""
    type: str
    """Type of its spans."""
    hints: str
    """Words, in lower case, of which one stands in every text that has it."""
    irregular: bool
    """Whether only what mixes letters and digits as no word does counts."""
    pattern: str
    """Regular expression; the group `data` is the secret."""


def secrets(text: str) -> Iterator[PiiSpan]:
    """Every secret of a text, those with a known prefix first."""
    small = text.lower()
    for index in sorted({index for word, rules in _words().items() if word in small for index in rules}):
        rule = _rule(index)
        for match in rule.form.finditer(text):
            group = rule.group or next((at for at, part in enumerate(match.groups(), 1) if part), 0)
            if _is_secret(rule, match, match[group]):
                yield PiiSpan(type=KEY, start=match.start(group), end=match.end(group), confidence=1.0)
    for form, pattern, hints in BEHIND_WORDS:
        for match in pattern.finditer(text) if any(word in small for word in hints) else ():
            if not form.irregular or is_irregular(match["data"]):
                yield PiiSpan(type=form.type, start=match.start("data"), end=match.end("data"), confidence=1.0)


def entropy(text: str) -> float:
    """Shannon's entropy in bits a character."""
    return -sum(n / len(text) * math.log2(n / len(text)) for n in Counter(text).values())


def _is_secret(rule: SecretRule, match: re.Match[str], secret: str) -> bool:
    if entropy(secret) < rule.entropy or any(word in secret.lower() for word in rule.stop_words):
        return False
    line = match.string[match.string.rfind("\n", 0, match.start()) + 1 :].partition("\n")[0]
    looked_at = {"secret": secret, "match": match.group(), "line": line}
    return not any(form.search(looked_at[target]) for target, form in rule.harmless)


@cache
def _file() -> Mapping[str, Any]:
    return tomllib.loads(RULES.read_text("utf-8"))


@cache
def _words() -> dict[str, list[int]]:
    """Word in lower case -> places of the rules that are searched for where it stands."""
    words: dict[str, list[int]] = {}
    for index, rule in enumerate(_file()["rules"]):
        for word in rule["keywords"] if "regex" in rule else ():
            words.setdefault(word.lower(), []).append(index)
    return words


@cache
def _rule(index: int) -> SecretRule:
    given, always = _file()["rules"][index], _file()["allowlist"]
    lists = [always, *(each for each in given.get("allowlists", ()) if not each.get("paths"))]
    harmless = [
        (each.get("regexTarget", "secret"), _compiled(form)) for each in lists for form in each.get("regexes", ())
    ]
    stop_words = tuple(word.lower() for each in lists for word in each.get("stopwords", ()))
    form = _compiled(given["regex"])
    return SecretRule(form, given.get("secretGroup", 0), given.get("entropy", 0.0), tuple(harmless), stop_words)


def _compiled(form: str) -> re.Pattern[str]:
    r"""Compile a regular expression of Go: `(?i)` holds to the end of its group, and the end of a text is `\z`."""
    form = form.replace(r"\z", r"\Z")
    while (at := form.find("(?i)", 1)) > 0:
        end = _group_end(form, at + 4)
        form = f"{form[:at]}(?i:{form[at + 4 : end]}){form[end:]}"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # Go has no nested sets
        return re.compile(form)


def _group_end(form: str, start: int) -> int:
    depth = 0
    for sign in re.finditer(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|[()]", form[start:]):
        depth += {"(": 1, ")": -1}.get(sign.group(), 0)
        if depth < 0:
            return start + sign.start()
    return len(form)


def is_irregular(value: str) -> bool:
    """Whether letters and digits are mixed as no word or number is."""
    mixed = any(map(str.isdigit, value)) and any(map(str.isalpha, value))
    return mixed and entropy(value) >= (IRREGULAR_BITS if len(value) > 11 else 2.5)


_PARTED = (
    r"[^\S\n]{0,3}[\"'`]?(?:\n\s{0,4}(?:(?:[*+-]|\d{1,2}[.)])\s{1,3})?|[|>]{1,2}[^\S\n]{1,2}|\$(?=[^\s$]{6,200}\$)"
    r"|\{\"\w{1,12}\":\s?|\\text\w{2}\{)?[^\S\n]{0,3}[\"'`]?"
)
"""Marks that may part a secret from the word before it: a list item, a cell, a quotation, mathematics, JSON, LaTeX."""
_VALUE = r"(?P<data>[A-Za-z0-9._~+/=-]{12,4000}(?<!\.))(?![\w(\[])"
_SAID = (
    r"(?:pass(?:word|wd|phrase|code)?s?|pwd?|passwort|kennwort|contraseña|mot de passe|senha|hasło|şifre|parola|пароль"
    r"|密码|密碼|パスワード|비밀번호)"
)
_NOBODYS = (
    r"(?![*.$%{<\[(&-])(?!(?i:pass(?:word|wd)?|secret|test(?:ing)?|example|admin|change_?me|foo(?:bar)?|my[a-z_]*"
    r"|your[a-z_-]*|x{3,}|none|null)\d{0,4}(?!\w))"
)
_MIXED = r"(?=\S{0,63}[\d!@#$%^&*?])(?=\S{0,63}[^\W\d_])[^\s\"'`<>,;(){}\[\]]{6,64}(?![\w(\[])"
"""A word with a digit or sign and a letter, as a password is and a word of a sentence is not."""
_WORD = r"(?:\d{1,2}[.)][^\S\n]?)?(?!(?:the|and|for|are|was|but|from)\b)[a-z]{3,8}"
FORMS = (
    SecretForm(
        "private key", KEY, "private", False,
        r"(?P<data>-----BEGIN [A-Z0-9 ]{0,30}PRIVATE KEY(?: BLOCK)?-----(?:[^-]{60,16000}-----END[^\n-]{0,50}-----"
        rf"|(?:[A-Za-z-]{{4,20}}: [^\n]{{0,80}}\n)*[\s\\n*>|\[$]*{_PARTED}[A-Za-z0-9+/=]{{40}}[A-Za-z0-9+/=\s\\]*)"
        r"|PuTTY-User-Key-File-\d:[\s\S]{40,16000}?Private-MAC: [0-9a-f]+)",
    ),
    SecretForm(
        "encrypted token", KEY, "eyj", False,  # an encrypted token (RFC 7516) has five parts
        r"\b(?P<data>eyJ[\w-]{10,2000}\.[\w-]{0,2000}\.[\w-]{10,2000}\.[\w-]{10,9000}\.[\w-]{10,100})\b",
    ),
    SecretForm(
        "web hook", KEY, "hooks", False,
        r"(?P<data>https?://(?:[a-z]+\.)?discord(?:app)?\.com/api/(?:v\d+/)?webhooks/\d{17,20}/[\w-]{60,100}"
        r"|https?://hooks\.zapier\.com/hooks/catch/\d+/\w+)",
    ),
    SecretForm(
        # Vendors that the rules do not know, or only beside their name.
        "vendor's key", KEY, ":aa gsk_ nvapi- r8_ xai-", False,
        r"(?<!\w)(?P<data>\d{8,10}:AA[\w-]{33}|gsk_[A-Za-z0-9]{52}|nvapi-[\w-]{60,70}|r8_[A-Za-z0-9]{37}"
        r"|xai-[A-Za-z0-9]{80})(?!\w)",
    ),
    SecretForm(
        "authorization", KEY, "bearer basic authorization", True,
        r"(?i)(?<![a-z])(?:(?:bearer|basic)(?!\w)|authorization[\"']?\s{0,3}[:=]\s{0,3}[\"']?(?:token\s)?)\s{0,3}"
        + _PARTED + _VALUE,
    ),
    SecretForm(
        "named key", KEY, "key token secret", True,
        r"(?i)(?<![a-z])(?:api|access|auth|secret|client|private|encryption|account|session|master|signing|refresh|bot)"
        rf"[ _-]?(?:key|token|secret)[\"']?(?:[^\S\n]{{0,3}}[:=]|\sis\s){_PARTED}{_VALUE}",
    ),
    SecretForm(
        "password", KEY, "pass pw kennwort contraseña senha hasło şifre parola пароль 密 パスワード 비밀번호", False,
        rf"(?i)(?<![a-z$]){_SAID}[\"']?(?:[^\S\n]{{0,3}}[:=：]|\s(?:is|lautet|est|es)[:\s]){_PARTED}{_NOBODYS}"
        rf"(?P<data>{_MIXED})",
    ),
    SecretForm(
        "curl", KEY, "curl", False,
        r"\bcurl\b[^\n]{0,300}?\s(?:-u|--user)[ =]?[\"']?"
        r"(?P<data>(?!\$)[^\s:\"']{1,64}:(?:[|>][^\S\n])?(?![$<{])[^\s\"']{3,100})",
    ),
    SecretForm(
        "key in an address", IN_URL, "=", True,
        r"(?i)[?&;#](?:(?:access|refresh|id|auth|security)?_?token|auth|sig(?:nature)?|api_?key|key|(?:client_)?secret"
        r"|x-(?:amz|goog)-(?:signature|credential|security-token)|code|session_?(?:id)?|jwt|pwd|pass(?:word|wd)?)="
        rf"{_PARTED}(?P<data>[^&\s\"'<>#]{{6,4000}})",
    ),
    SecretForm(
        "wallet key", KEY, "key", False,
        r"(?i)(?:private|secret|wallet|priv)[ _-]{0,2}key[\s\S]{0,20}?(?<![0-9a-z])"
        r"(?P<data>(?:0x)?[0-9a-f]{64})(?![0-9a-z])",
    ),
    SecretForm(
        "wallet format", KEY, "prv 5 k l", True,  # BIP 32, and Bitcoin's wallet import format
        r"\b(?P<data>(?:[xyz]prv[1-9A-HJ-NP-Za-km-z]{100,112}|[5KL][1-9A-HJ-NP-Za-km-z]{50,51}))\b",
    ),
    SecretForm(
        "seed phrase", KEY, "phrase words seed", False,  # BIP 39
        r"(?i:seed|recovery|mnemonic|secret|backup|wallet)[ -]?(?i:recovery )?(?i:phrase|words?|seed)\W{0,8}"
        rf"(?:(?:is|are)\W{{1,3}})?(?P<data>(?:{_WORD}[\s,|]{{1,3}}){{11,23}}{_WORD})\b",
    ),
    SecretForm(
        "vendor's prefix", KEY, "gocspx- ya29. whsec_ ntn_ figd_ sbp_ tskey- key- ac", True,
        r"(?<![\w-])(?P<data>GOCSPX-[\w-]{24,40}|ya29\.[\w-]{20,500}|whsec_[A-Za-z0-9+/]{24,90}={0,2}"
        r"|ntn_[A-Za-z0-9]{40,60}|figd_[\w-]{30,60}|sbp_[0-9a-f]{40}|tskey-[a-z]{2,12}-[A-Za-z0-9-]{15,80}"
        r"|key-[0-9a-f]{32}|AC[0-9a-f]{32})(?![\w-])",
    ),
    SecretForm(
        "login", KEY, "login credential creds", False,  # a user and a password with a slash or colon between
        r"(?i)(?<![a-z])(?:log[ -]?in|credentials?|creds)[\"']?[^\S\n]{0,3}[:=][^\S\n]{0,3}[\"'`]?(?!https?:)"
        r"(?P<data>[^\s:/,;\"'(){}\[\]]{2,40}[^\S\n]?[/:][^\S\n]?" + _NOBODYS + _MIXED + ")",
    ),
    SecretForm(
        "network password", KEY, "wi wlan router", False,
        r"(?i)(?<![a-z])(?:(?:wi-?fi|wlan|router)[^\S\n](?:pass(?:word|phrase|code)?|passwort|key|code)[^\S\n]"
        rf"(?:is[^\S\n])?[\"'`]?)(?P<data>{_NOBODYS}{_MIXED})",
    ),
    SecretForm(
        "network file", KEY, "psk", False,  # of wpa_supplicant
        rf"(?<!\w)psk[^\S\n]{{0,2}}=[^\S\n]{{0,2}}\"(?P<data>{_NOBODYS}[^\"\n]{{8,63}})\"",
    ),
    SecretForm(
        "network in a code", KEY, "wifi:", False,
        r"\bWIFI:(?:[A-OQ-Z]:(?:\\.|[^;\n\\]){0,80};){0,4}P:(?P<data>(?:\\.|[^;\n\\]){1,63});",
    ),
    SecretForm(
        "password of a command", KEY, "mysql mariadb sshpass", False,
        r"\b(?:(?:mysql\w{0,8}|mariadb\w{0,8})\b[^\n]{0,200}?\s(?:-p|--password=)|sshpass\s{1,3}-p\s{0,3})[\"']?"
        rf"(?P<data>{_NOBODYS}(?![$<{{-])[^\s\"'`]{{4,64}})",
    ),
    SecretForm(
        "Oracle's address", IN_URL, "jdbc:oracle", False,
        r"\bjdbc:oracle:thin:(?P<data>(?!scott/tiger)[^\s/@<{$]{1,64}/(?![<{$])[^\s@]{3,64})@",
    ),
    SecretForm(
        "cookie", KEY, "cookie", True,
        r"(?i)(?<![a-z])cookie:[^\n]{0,300}?(?:sess(?:ion)?[_-]?(?:id)?|sid|auth\w{0,8}|\w{0,8}token|jwt)="
        r"(?P<data>[^\s;\"']{8,4000})",
    ),
    SecretForm(
        "password hash", KEY, ":$", False,  # a line of /etc/shadow
        r"(?m)^[\w.-]{1,32}:(?P<data>\$(?:1|2[abxy]?|5|6|7|g?y)\$[./A-Za-z0-9$,=+-]{20,160})(?=:|$)",
    ),
)  # fmt: skip
BEHIND_WORDS = tuple((form, re.compile(form.pattern), form.hints.split()) for form in FORMS)
"""Each form with its compiled pattern, and the words of which one stands in every text that has it."""
