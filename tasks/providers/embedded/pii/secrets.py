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


def secrets(text: str) -> Iterator[PiiSpan]:
    """Every secret of a text, those with a known prefix first."""
    small = text.lower()
    for index in sorted({index for word, rules in _words().items() if word in small for index in rules}):
        rule = _rule(index)
        for match in rule.form.finditer(text):
            group = rule.group or next((at for at, part in enumerate(match.groups(), 1) if part), 0)
            if _is_secret(rule, match, match[group]):
                yield PiiSpan(type=KEY, start=match.start(group), end=match.end(group), confidence=1.0)
    for kind, form, hint, irregular in _BEHIND_WORDS:
        for match in form.finditer(text) if any(word in small for word in hint) else ():
            if not irregular or _irregular(match["data"]):
                yield PiiSpan(type=kind, start=match.start("data"), end=match.end("data"), confidence=1.0)


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


def _irregular(value: str) -> bool:
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
    r"(?:pass(?:word|wd|phrase|code)?s?|pwd|passwort|kennwort|contraseña|mot de passe|senha|hasło|şifre|parola|пароль"
    r"|密码|密碼|パスワード|비밀번호)"
)
_NOBODYS = (
    r"(?![*.$%{<\[(&-])(?!(?i:pass(?:word|wd)?|secret|test(?:ing)?|example|admin|change_?me|foo(?:bar)?|my[a-z_]*"
    r"|your[a-z_-]*|x{3,}|none|null)\d{0,4}(?!\w))"
)
_WORD = r"(?:\d{1,2}[.)][^\S\n]?)?(?!(?:the|and|for|are|was|but|from)\b)[a-z]{3,8}"
_FORMS = (
    (
        KEY, "private", False,
        r"(?P<data>-----BEGIN [A-Z0-9 ]{0,30}PRIVATE KEY(?: BLOCK)?-----(?:[^-]{60,16000}-----END[^\n-]{0,50}-----"
        rf"|(?:[A-Za-z-]{{4,20}}: [^\n]{{0,80}}\n)*[\s\\n*>|\[$]*{_PARTED}[A-Za-z0-9+/=]{{40}}[A-Za-z0-9+/=\s\\]*)"
        r"|PuTTY-User-Key-File-\d:[\s\S]{40,16000}?Private-MAC: [0-9a-f]+)",
    ),
    (
        KEY, "eyj", False,  # an encrypted token (RFC 7516) has five parts
        r"\b(?P<data>eyJ[\w-]{10,2000}\.[\w-]{0,2000}\.[\w-]{10,2000}\.[\w-]{10,9000}\.[\w-]{10,100})\b",
    ),
    (
        KEY, "hooks", False,
        r"(?P<data>https?://(?:[a-z]+\.)?discord(?:app)?\.com/api/(?:v\d+/)?webhooks/\d{17,20}/[\w-]{60,100}"
        r"|https?://hooks\.zapier\.com/hooks/catch/\d+/\w+)",
    ),
    (
        KEY, ":aa gsk_ nvapi- r8_ xai-", False,  # vendors that the rules do not know, or only beside their name
        r"(?<!\w)(?P<data>\d{8,10}:AA[\w-]{33}|gsk_[A-Za-z0-9]{52}|nvapi-[\w-]{60,70}|r8_[A-Za-z0-9]{37}"
        r"|xai-[A-Za-z0-9]{80})(?!\w)",
    ),
    (
        KEY, "bearer basic authorization", True,
        r"(?i)(?<![a-z])(?:bearer|basic|authorization[\"']?\s{0,3}[:=]\s{0,3}[\"']?(?:token\s)?)\s{0,3}"
        + _PARTED + _VALUE,
    ),
    (
        KEY, "key token secret", True,
        r"(?i)(?<![a-z])(?:api|access|auth|secret|client|private|encryption|account|session|master|signing|refresh|bot)"
        rf"[ _-]?(?:key|token|secret)[\"']?(?:[^\S\n]{{0,3}}[:=]|\sis\s){_PARTED}{_VALUE}",
    ),
    (
        KEY, "pass pwd kennwort contraseña senha hasło şifre parola пароль 密 パスワード 비밀번호", False,
        rf"(?i)(?<![a-z$]){_SAID}[\"']?(?:[^\S\n]{{0,3}}[:=：]|\s(?:is|lautet|est|es)[:\s]){_PARTED}{_NOBODYS}"
        r"(?P<data>(?=\S{0,63}[\d!@#$%^&*?])(?=\S{0,63}[^\W\d_])[^\s\"'`<>,;(){}\[\]]{6,64})(?![\w(\[])",
    ),
    (
        KEY, "curl", False,
        r"\bcurl\b[^\n]{0,300}?\s(?:-u|--user)[ =]?[\"']?"
        r"(?P<data>(?!\$)[^\s:\"']{1,64}:(?:[|>][^\S\n])?(?![$<{])[^\s\"']{3,100})",
    ),
    (
        IN_URL, "=", True,
        r"(?i)[?&;#](?:(?:access|refresh|id|auth|security)?_?token|auth|sig(?:nature)?|api_?key|key|(?:client_)?secret"
        r"|x-(?:amz|goog)-(?:signature|credential|security-token)|code|session_?(?:id)?|jwt|pwd|pass(?:word|wd)?)="
        rf"{_PARTED}(?P<data>[^&\s\"'<>#]{{6,4000}})",
    ),
    (
        KEY, "key", False,
        r"(?i)(?:private|secret|wallet|priv)[ _-]{0,2}key[\s\S]{0,20}?(?<![0-9a-z])"
        r"(?P<data>(?:0x)?[0-9a-f]{64})(?![0-9a-z])",
    ),
    (
        KEY, "prv 5 k l", True,  # BIP 32, and Bitcoin's wallet import format
        r"\b(?P<data>(?:[xyz]prv[1-9A-HJ-NP-Za-km-z]{100,112}|[5KL][1-9A-HJ-NP-Za-km-z]{50,51}))\b",
    ),
    (
        KEY, "phrase words seed", False,  # BIP 39
        r"(?i:seed|recovery|mnemonic|secret|backup|wallet)[ -]?(?i:recovery )?(?i:phrase|words?|seed)\W{0,8}"
        rf"(?:(?:is|are)\W{{1,3}})?(?P<data>(?:{_WORD}[\s,|]{{1,3}}){{11,23}}{_WORD})\b",
    ),
)  # fmt: skip
_BEHIND_WORDS = tuple((kind, re.compile(form), hint.split(), mixed) for kind, hint, mixed, form in _FORMS)
"""Type, form, words of which one stands in every text that has it, and whether only what is irregular counts."""
