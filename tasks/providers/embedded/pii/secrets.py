"""Keys, tokens, passwords and private keys: by the rules of gitleaks, and by the words that stand before them.

The rules are those of gitleaks 8.30.1, unchanged (`gitleaks.toml`, MIT; NOTICE). A rule is only searched for where one
of its words stands in the text; its entropy says how irregular a secret must be (Shannon, bits a character).
"""

import math
import re
import tomllib
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from schemas.signals import PiiSpan
from tasks.providers.embedded.pii.numbers import beside_characters

RULES_FILE = Path(__file__).with_name("gitleaks.toml")
API_KEY, IN_URL = "api_key", "url_credentials"
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
    """Words, in lower case, of which one stands in every text that has it, in each of the word's spellings."""
    check: Callable[[str], bool]
    """Whether a value is a secret, and not a word or what documentation writes in its place."""
    pattern: str
    """Regular expression; the group `data` is the secret."""


def secrets(text: str) -> Iterator[PiiSpan]:
    """Every secret of a text, those with a known prefix first."""
    small = text.lower()
    for index in sorted({index for word, rules in _words().items() if word in small for index in rules}):
        rule = _rule(index)
        for match in rule.form.finditer(text):
            start, end = _secret_place(rule, match)
            if _is_secret(rule, match, text[start:end]):
                yield PiiSpan(type=API_KEY, start=start, end=end, confidence=1.0)
    for form, match in formed_secrets(text):
        yield PiiSpan(type=form.type, start=match.start("data"), end=match.end("data"), confidence=1.0)


def secret_forms() -> list[re.Pattern[str]]:
    """The patterns of which one matches in every text that has a secret."""
    rules = (index for index, rule in enumerate(_file()["rules"]) if "regex" in rule)
    return [*(_rule(index).form for index in rules), *(pattern for _, pattern, _ in BEHIND_WORDS)]


def formed_secrets(text: str) -> Iterator[tuple[SecretForm, re.Match[str]]]:
    """Each form of `SECRET_FORMS` with its matches in a text; the group `data` is the secret."""
    small = text.lower()
    for form, pattern, hints in BEHIND_WORDS:
        for match in pattern.finditer(text) if any(word in small for word in hints) else ():
            if form.check(match["data"]):
                yield form, match


def entropy(text: str) -> float:
    """Shannon's entropy in bits a character."""
    return -sum(n / len(text) * math.log2(n / len(text)) for n in Counter(text).values())


def _is_secret(rule: SecretRule, match: re.Match[str], secret: str) -> bool:
    """Whether a match passes the checks of its rule, and is no login in words, listed example, filler or name."""
    if match.group().startswith("curl") and not is_login(secret):
        return False
    is_filler = _filled(secret) >= FILLED_SHARE * len(secret) or _PROGRAM_NAME.fullmatch(secret)
    return passes(rule, match, secret) and not (rule.entropy and is_filler) and not _is_listed(secret)


def _secret_place(rule: SecretRule, match: re.Match[str]) -> tuple[int, int]:
    """Start and end of the secret in a match."""
    group = rule.group or next((at for at, part in enumerate(match.groups(), 1) if part), 0)
    return match.span(group)


def passes(rule: SecretRule, match: re.Match[str], secret: str) -> bool:
    """Whether a match is irregular enough for its rule, and on none of the rule's lists of what is harmless."""
    is_worded = any(word in secret.lower() for word in rule.stop_words)
    return entropy(secret) >= rule.entropy and not is_worded and not _is_harmless(rule, match, secret)


def _is_harmless(rule: SecretRule, match: re.Match[str], secret: str) -> bool:
    """Whether a match has a form that its rule lists as harmless."""
    line = match.string[match.string.rfind("\n", 0, match.start()) + 1 :].partition("\n")[0]
    looked_at = {"secret": secret, "match": match.group(), "line": line}
    return any(form.search(looked_at[target]) for target, form in rule.harmless)


@cache
def _file() -> Mapping[str, Any]:
    return tomllib.loads(RULES_FILE.read_text("utf-8"))


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
    rule, always = _file()["rules"][index], _file()["allowlist"]
    lists = [always, *(allowlist for allowlist in rule.get("allowlists", ()) if not allowlist.get("paths"))]
    harmless = [
        (allowlist.get("regexTarget", "secret"), _compiled(form))
        for allowlist in lists
        for form in allowlist.get("regexes", ())
    ]
    stop_words = tuple(word.lower() for allowlist in lists for word in allowlist.get("stopwords", ()))
    form = _compiled(rule["regex"])
    return SecretRule(form, rule.get("secretGroup", 0), rule.get("entropy", 0.0), tuple(harmless), stop_words)


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
    """Whether letters and digits are mixed as no word, number or placeholder is."""
    mixed = any(map(str.isdigit, value)) and any(map(str.isalpha, value))
    return mixed and entropy(value) >= (IRREGULAR_BITS if len(value) > 11 else 2.5) and not is_invented(value)


def is_key(value: str) -> bool:
    """Whether a value with a vendor's prefix is as irregular as a key, no placeholder and no words of one case."""
    is_worded = len(value) >= ONE_CASE_MIN and (value.islower() or value.isupper()) and not re.search(r"\d", value)
    return entropy(value) >= IRREGULAR_BITS and not is_worded and not is_invented(value)


def is_login(value: str) -> bool:
    """Whether `user:password` holds a password, and does not only mark its place or show one letter for it."""
    user, _, password = value.partition(":")
    return not user.startswith("<") and not marks_login(user, password)


def marks_login(user: str, password: str) -> bool:
    """Whether a user and a password are the words for them, a variable, or one letter again and again."""
    bare_password = password.strip(_BRACKETS)
    if not bare_password:
        return not set(password) <= set("\"'`")
    is_marked = _USER_PLACE.fullmatch(user) and _PASSWORD_PLACE.fullmatch(password)
    return bool(is_marked or _VARIABLE.fullmatch(password)) or len(set(bare_password)) < 2


def is_invented(value: str) -> bool:
    """Whether documentation writes a value for a secret: signs repeated or in order, names of a program, or words."""
    small = value.lower()
    if _filled(value) or _SHOWN.search(small) or _PROGRAM_NAME.fullmatch(value) or _is_listed(value):
        return True
    worded = sum(len(match.group()) for match in _words_of_names().finditer(small))
    return worded >= WORDED_SHARE * sum(map(str.isalnum, small))


def _is_listed(value: str) -> bool:
    """Whether the rules list a value as one that documentation shows, or as no secret of the rule whose form it has."""
    small = value.lower()
    rules = [_rule(index) for word, indices in _words().items() if word in small for index in indices]
    matches = [(rule, match) for rule in rules if (match := rule.form.match(value))]
    return small in _stop_words() or any(
        _secret_place(rule, match) == (0, len(value)) and _is_harmless(rule, match, value) for rule, match in matches
    )


def _filled(value: str) -> int:
    """Number of signs of a value that are repeated, or in alphabetical or numerical order."""
    small, places = value.lower(), set[int]()
    for match in _REPEATED.finditer(small):
        places.update(range(*match.span()))
    for start in range(len(small) - ORDERED_MIN + 1):
        if any(small[start : start + ORDERED_MIN] in order for order in _ORDERS):
            places.update(range(start, start + ORDERED_MIN))
    return len(places)


ONE_CASE_MIN = 24
"""Fewest signs of a key with a vendor's prefix that has both cases or a digit."""
ORDERED_MIN = 6
"""Fewest signs in alphabetical or numerical order that chance hardly draws: of 64 hex digits in one of 20,000."""
WORDED_SHARE = 0.5
"""Share of a value's letters and digits in stop words of the rules from which it is made of words."""
FILLED_SHARE = 0.7
"""Share of repeated and ordered signs from which what a rule of the set finds is none."""
_ORDERS = ("abcdefghijklmnopqrstuvwxyz", "01234567890", "zyxwvutsrqponmlkjihgfedcba", "09876543210")
_REPEATED = re.compile(r"([^=])\1{5,}|(\w{2,5})\2{3,}")
"""One sign six times, or a few signs four times. `=` fills the end of base64."""
_SHOWN = re.compile(
    r"example|sample|placeholder|dummy|replace|insert|change[_-]?me|redacted|foo_?bar|dead_?beef|(?<![a-z])your[_-]"
    r"|(?<![a-z])my[_-](?:api|key|token|secret)|_here\b"
)
"""Words with which documentation says that a value is none."""
_PROGRAM_NAME = re.compile(
    r"(?=.{20})(?:[A-Z]{0,3}[a-z]{2,17}|[A-Z]{2,17})(?:(?:[_.-]{1,2}[A-Za-z]?|[A-Z])(?:[a-z]{2,17}|(?<=[_.-][A-Z])[A-Z]{2,17}))+"
    r"[A-Z]?[a-z]?"
)
"""Twenty or more letters in words with underscores or capitals between: `hf_requiredCharacteristic`."""
_BRACKETS = "<>{}[]()%$\"'`"
_USER_PLACE = re.compile(
    rf"[{re.escape(_BRACKETS)}]*(?:(?:my|your|the)[-_]?)?(?:user(?:[-_]?name)?|usr|login)"
    rf"[{re.escape(_BRACKETS)}]*", re.I
)  # fmt: skip
_PASSWORD_PLACE = re.compile(
    rf"[{re.escape(_BRACKETS)}]*(?:(?:my|your|the)[-_]?)?(?:pass(?:[-_]?(?:word|wd|phrase))?|pwd?|passwd|secret|token"
    rf"|api[-_]?key|key)[{re.escape(_BRACKETS)}]*", re.I
)  # fmt: skip
_VARIABLE = re.compile(r"<[^<>]+>|\[[^\[\]]+\]|\$\w+|\$?\{{1,2}[^{}]+\}{1,2}|\$\(.+\)|%\w+%|\*+|\.{3}")


@cache
def _stop_words() -> frozenset[str]:
    """The stop words of all rules, in lower case."""
    allowlists = [allowlist for rule in _file()["rules"] for allowlist in rule.get("allowlists", ())]
    return frozenset(word.lower() for allowlist in allowlists for word in allowlist.get("stopwords", ()))


@cache
def _words_of_names() -> re.Pattern[str]:
    """The stop words of which identifiers are made, those of four letters and more, the longest first."""
    spelt = sorted((word for word in _stop_words() if len(word) > 3 and word.isalpha()), key=lambda w: (-len(w), w))
    return re.compile("|".join(spelt))


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
    r"(?![*.%{<\[(&-])(?!\$(?![A-Za-z_]{1,40}\d{1,9}[A-Za-z_]{1,40}\d|[A-Za-z_]\w{0,63}[!#]\w))"
    r"(?!(?i:pass(?:word|wd)?|secret|test(?:ing)?|example|admin|change_?me|foo(?:bar)?"
    r"|my(?:[_-]?(?:pass(?:word|wd|phrase)?|pwd?|secret|token|key|api|code|value|string|db|database|sql|user(?:name)?"
    r"|account|login|admin|root|app|server|wifi|test|new|own|super|very|strong|secure|safe|long)){0,6}[_-]?"
    r"|your[a-z_-]*|x{3,}|none|null)\d{0,4}(?!\w))"
)
"""Placeholders of a password: signs such as `****`, a variable, whose name has no two numbers in it and no sign, or few
words about passwords and programs. `$Tr0ub4dor` and `MyDogRex7!` are somebody's."""
_MIXED = r"(?=\S{0,63}[\d!@#$%^&*?])(?=\S{0,63}[^\W\d_])[^\s\"'`<>,;(){}\[\]]{6,64}(?![\w(\[])"
"""A word with a digit or sign and a letter, as a password is and a word of a sentence is not."""
_WORD = r"(?:\d{1,2}[.)][^\S\n]?)?(?!(?:the|and|for|are|was|but|from)\b)[a-z]{3,8}"
_PREFIXED = (
    r"\b(?P<data>sk-(?:proj-|ant-)?[A-Za-z0-9_-]{20,}|gh[pousr]_[A-Za-z0-9]{36,}"
    r"|(?:AKIA[0-9A-Z]{16}|AIza[0-9A-Za-z_-]{35}|npm_[0-9A-Za-z]{36})(?![0-9A-Za-z])"
    r"|xox[abprs]-(?=[\d-]{0,60}[A-Za-z])[0-9A-Za-z-]{16,}|hf_[A-Za-z0-9]{30,}|glpat-[0-9A-Za-z_-]{20,}"
    r"|github_pat_[0-9A-Za-z_]{30,}|[sr]k_(?:live|test)_[0-9A-Za-z]{16,}|pypi-[0-9A-Za-z_-]{50,}"
    r"|SG\.[0-9A-Za-z_-]{16,32}\.[0-9A-Za-z_-]{30,}"
    r"|eyJ[0-9A-Za-z_-]{10,2000}\.eyJ[0-9A-Za-z_-]{10,4000}\.[0-9A-Za-z_-]{20,1000})"
)
SECRET_FORMS = (
    SecretForm(
        "known prefix", API_KEY, "sk- gh github_pat_ akia aiza xox hf_ glpat- k_live_ k_test_ npm_ pypi- sg. eyj",
        is_key,
        beside_characters(_PREFIXED),
    ),
    SecretForm(
        "private key", API_KEY, "private", bool,
        r"(?P<data>-----BEGIN [A-Z0-9 ]{0,30}PRIVATE KEY(?: BLOCK)?-----(?:[^-]{60,16000}-----END[^\n-]{0,50}-----"
        rf"|(?:[A-Za-z-]{{4,20}}: [^\n]{{0,80}}\n)*[\s\\n*>|\[$]*{_PARTED}[A-Za-z0-9+/=]{{40}}[A-Za-z0-9+/=\s\\]*)"
        r"|PuTTY-User-Key-File-\d:[\s\S]{40,16000}?Private-MAC: [0-9a-f]+)",
    ),
    SecretForm(
        "encrypted token", API_KEY, "eyj", bool,  # an encrypted token (RFC 7516) has five parts
        r"\b(?P<data>eyJ[\w-]{10,2000}\.[\w-]{0,2000}\.[\w-]{10,2000}\.[\w-]{10,9000}\.[\w-]{10,100})\b",
    ),
    SecretForm(
        "web hook", API_KEY, "hooks", bool,
        r"(?P<data>https?://(?:[a-z]+\.)?discord(?:app)?\.com/api/(?:v\d+/)?webhooks/\d{17,20}/[\w-]{60,100}"
        r"|https?://hooks\.zapier\.com/hooks/catch/\d+/\w+)",
    ),
    SecretForm(
        # Vendors that the rules do not know, or only beside their name.
        "vendor's key", API_KEY, ":aa gsk_ nvapi- r8_ xai-", is_key,
        r"(?<!\w)(?P<data>\d{8,10}:AA[\w-]{33}|gsk_[A-Za-z0-9]{52}|nvapi-[\w-]{60,70}|r8_[A-Za-z0-9]{37}"
        r"|xai-[A-Za-z0-9]{80})(?!\w)",
    ),
    SecretForm(
        "authorization", API_KEY, "bearer basic authorization", is_irregular,
        r"(?i)(?<![a-z])(?:(?:bearer|basic)(?!\w)|authorization[\"']?\s{0,3}[:=]\s{0,3}[\"']?(?:token\s)?)\s{0,3}"
        + _PARTED + _VALUE,
    ),
    SecretForm(
        "named key", API_KEY, "key token secret", is_irregular,
        r"(?i)(?<![a-z])(?:api|access|auth|secret|client|private|encryption|account|session|master|signing|refresh|bot)"
        rf"[ _-]?(?:key|token|secret)[\"']?(?:[^\S\n]{{0,3}}[:=]|\sis\s){_PARTED}{_VALUE}",
    ),
    SecretForm(
        "password", API_KEY, "pass pw kennwort contraseña senha hasło şifre parola пароль 密 パスワード 비밀번호", bool,
        rf"(?i)(?<![a-z$]){_SAID}[\"']?(?:[^\S\n]{{0,3}}[:=：]|\s(?:is|lautet|est|es)[:\s]){_PARTED}{_NOBODYS}"
        rf"(?P<data>{_MIXED})",
    ),
    SecretForm(
        "curl", API_KEY, "curl", is_login,
        r"\bcurl\b[^\n]{0,300}?\s(?:-u|--user)[ =]?[\"']?"
        r"(?P<data>(?!\$)[^\s:\"']{1,64}:(?:[|>][^\S\n])?" + _NOBODYS + r"[^\s\"']{3,100})",
    ),
    SecretForm(
        "key in an address", IN_URL, "=", is_irregular,
        r"(?i)[?&;#](?:(?:access|refresh|id|auth|security)?_?token|auth|sig(?:nature)?|api_?key|key|(?:client_)?secret"
        r"|x-(?:amz|goog)-(?:signature|credential|security-token)|code|session_?(?:id)?|jwt|pwd|pass(?:word|wd)?)="
        rf"{_PARTED}(?P<data>[^&\s\"'<>#]{{6,4000}})",
    ),
    SecretForm(
        "wallet key", API_KEY, "key", is_key,
        r"(?i)(?:private|secret|wallet|priv)[ _-]{0,2}key[\s\S]{0,20}?(?<![0-9a-z])"
        r"(?P<data>(?:0x)?[0-9a-f]{64})(?![0-9a-z])",
    ),
    SecretForm(
        "wallet format", API_KEY, "prv 5 k l", is_irregular,  # BIP 32, and Bitcoin's wallet import format
        r"\b(?P<data>(?:[xyz]prv[1-9A-HJ-NP-Za-km-z]{100,112}|[5KL][1-9A-HJ-NP-Za-km-z]{50,51}))\b",
    ),
    SecretForm(
        "seed phrase", API_KEY, "phrase word seed", bool,  # BIP 39
        r"(?i:seed|recovery|mnemonic|secret|backup|wallet)[ -]?(?i:recovery )?(?i:phrase|words?|seed)\W{0,8}"
        rf"(?:(?:is|are)\W{{1,3}})?(?P<data>(?:{_WORD}[\s,|]{{1,3}}){{11,23}}{_WORD})\b",
    ),
    SecretForm(
        "vendor's prefix", API_KEY, "gocspx- ya29. whsec_ ntn_ figd_ sbp_ sq0csp- tskey- key- ac", is_irregular,
        r"(?<![\w-])(?P<data>GOCSPX-[\w-]{24,40}|ya29\.[\w-]{20,500}|whsec_[A-Za-z0-9+/]{24,90}={0,2}"
        r"|ntn_[A-Za-z0-9]{40,60}|figd_[\w-]{30,60}|sbp_[0-9a-f]{40}|sq0csp-[\w-]{43}"
        r"|tskey-[a-z]{2,12}-[A-Za-z0-9-]{15,80}|key-[0-9a-f]{32}|AC[0-9a-f]{32})(?![\w-])",
    ),
    SecretForm(
        "login", API_KEY, "log cred", bool,  # a user and a password with a slash or colon between
        r"(?i)(?<![a-z])(?:log[ -]?in|credentials?|creds)[\"']?[^\S\n]{0,3}[:=][^\S\n]{0,3}[\"'`]?(?!https?:)"
        r"(?P<data>[^\s:/,;\"'(){}\[\]]{2,40}[^\S\n]?[/:][^\S\n]?" + _NOBODYS + _MIXED + ")",
    ),
    SecretForm(
        "network password", API_KEY, "wi wlan router", bool,
        r"(?i)(?<![a-z])(?:(?:wi-?fi|wlan|router)[^\S\n](?:pass(?:word|phrase|code)?|passwort|key|code)[^\S\n]"
        rf"(?:is[^\S\n])?[\"'`]?)(?P<data>{_NOBODYS}{_MIXED})",
    ),
    SecretForm(
        "network file", API_KEY, "psk", bool,  # of wpa_supplicant
        rf"(?<!\w)psk[^\S\n]{{0,2}}=[^\S\n]{{0,2}}\"(?P<data>{_NOBODYS}[^\"\n]{{8,63}})\"",
    ),
    SecretForm(
        "network in a code", API_KEY, "wifi:", bool,
        r"\bWIFI:(?:[A-OQ-Z]:(?:\\.|[^;\n\\]){0,80};){0,4}P:(?P<data>(?:\\.|[^;\n\\]){1,63});",
    ),
    SecretForm(
        "password of a command", API_KEY, "mysql mariadb sshpass", bool,
        r"\b(?:(?:mysql\w{0,8}|mariadb\w{0,8})\b[^\n]{0,200}?\s(?:-p|--password=)|sshpass\s{1,3}-p\s{0,3})[\"']?"
        rf"(?P<data>{_NOBODYS}(?![$<{{-])[^\s\"'`]{{4,64}})",
    ),
    SecretForm(
        "Oracle's address", IN_URL, "jdbc:oracle", bool,
        r"\bjdbc:oracle:thin:(?P<data>(?!scott/tiger)[^\s/@<{$]{1,64}/(?![<{$])[^\s@]{3,64})@",
    ),
    SecretForm(
        "cookie", API_KEY, "cookie", is_irregular,
        r"(?i)(?<![a-z])cookie:[^\n]{0,300}?(?:sess(?:ion)?[_-]?(?:id)?|sid|auth\w{0,8}|\w{0,8}token|jwt)="
        r"(?P<data>[^\s;\"']{8,4000})",
    ),
    SecretForm(
        "password hash", API_KEY, ":$", bool,  # a line of /etc/shadow
        r"(?m)^[\w.-]{1,32}:(?P<data>\$(?:1|2[abxy]?|5|6|7|g?y)\$[./A-Za-z0-9$,=+-]{20,160})(?=:|$)",
    ),
)  # fmt: skip
BEHIND_WORDS = tuple((form, re.compile(form.pattern), form.hints.split()) for form in SECRET_FORMS)
"""Each form with its compiled pattern, and the words of which one stands in every text that has it."""
