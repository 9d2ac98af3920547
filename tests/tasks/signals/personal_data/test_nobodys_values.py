"""What documentation, sums and tables write is nobody's; its siblings with somebody's value are found, all by seed."""

import math
import random
import re
import string
import warnings
from functools import cache
from re import _constants as signs
from re import _parser as parser

import pytest

from benchmarks.spelling_values import KEYS, characters
from tasks.providers.embedded.pii import secrets as rules
from tasks.providers.embedded.pii.addresses import Word
from tasks.providers.embedded.pii.names import persons
from tasks.providers.embedded.pii.secrets import secrets
from tests.tasks.signals.personal_data.test_text_pii import formed

DRAW = random.Random(4711)
PREFIXES = {
    "AKIA": (16, string.ascii_uppercase), "ghp_": (36, string.ascii_letters), "xoxb-": (40, string.ascii_letters),
    "AIza": (35, string.ascii_letters), "hf_": (34, string.ascii_letters), "sk-proj-": (60, string.ascii_letters),
    "glpat-": (20, string.ascii_lowercase), "npm_": (36, string.ascii_lowercase),
    "sk_live_": (24, string.ascii_letters),
}  # fmt: skip
"""Prefix of a vendor -> length of a key behind it, and letters of which one may be repeated."""
WORDS = "required Characteristic Connection Handler Manager Service Account Setting Template Document".split()  # noqa: SIM905


def placeholders(prefix):
    length, letters = PREFIXES[prefix]
    upper = letters.isupper()
    ordered = (string.ascii_lowercase + string.digits) * 3
    worded = "".join(DRAW.sample(WORDS[1:], 9))[:length]
    filled = [DRAW.choice(letters) * length, "x" * length, "0" * length, ordered[:length]]
    filled += [characters(DRAW, 9, letters) + "EXAMPLE"] if upper else []
    filled += [] if upper or length < 20 else [WORDS[0] + worded[: length - len(WORDS[0])]]
    return [prefix + (value.upper() if upper else value) for value in filled]


@pytest.mark.parametrize("prefix", PREFIXES)
def test_a_placeholder_behind_a_vendors_prefix_is_no_key(prefix):
    for value in placeholders(prefix):
        assert [(value, found) for found in secrets(f"export TOKEN {value} in the shell")] == []


@pytest.mark.parametrize("place", range(len(KEYS)))
def test_a_key_that_is_drawn_is_found(place):
    for _ in range(40):
        value = KEYS[place](DRAW)
        assert value in [kept for _, kept in formed(f"why does {value} fail?")]


def listed_examples():
    """The keys that the rules list as examples of documentation: a vendor's prefix, and no sign of an expression."""
    lists = [allowlist for rule in rules._file()["rules"] for allowlist in rule.get("allowlists", ())]
    listed = [form for allowlist in lists for form in allowlist.get("regexes", ())]
    return [form for form in listed if re.fullmatch(r"AIza[\w-]{35}", form)]


def test_a_key_that_the_rules_list_as_an_example_is_none_and_its_sibling_is():
    assert len(listed_examples()) > 10
    for example in listed_examples():
        sibling = example[:6] + characters(DRAW, len(example) - 6, string.ascii_letters + string.digits)
        assert formed(f"apiKey: {example}") == []
        assert ("api_key", sibling) in formed(f"apiKey: {sibling}")


def test_words_of_one_case_behind_a_vendors_prefix_are_no_key():
    for _ in range(100):
        words = "".join(DRAW.sample([word.lower() for word in WORDS], 5))
        assert (words, formed(f"&hf_{words}_prio, next")) == (words, [])


@pytest.mark.parametrize("sign", ["-", "_", "__", "-_"])
def test_a_class_of_a_style_sheet_is_no_key(sign):
    for _ in range(50):
        words = [word.lower() for word in DRAW.sample(WORDS, 4)]
        assert list(secrets(f"<div class='sk-{sign.join(words)}'>")) == []


USERS = ("user", "username", "USER", "your-username", "my_user", "login")
PASSWORDS = ("password", "pass", "PASSWORD", "your-password", "my_pass", "pwd", "secret", "x", "aaaa", "******")


@pytest.mark.parametrize("user", USERS)
def test_a_login_in_words_variables_or_one_letter_is_nobodys(user):
    for password in PASSWORDS:
        for login in (
            f"{user}:{password}",
            f"<{user}>:<{password}>",
            f"<{user}:{password}>",
            f"{{{user}}}:{{{password}}}",
        ):
            assert formed(f"curl -u {login} https://lumenix.io/items") == []
            assert formed(f"git clone https://{login}@lumenix.io/items.git") == []


def test_a_login_with_a_password_is_somebodys():
    for _ in range(200):
        password = characters(DRAW, DRAW.randint(6, 14))
        login = f"{DRAW.choice(('user', 'deploy', 'ann.lee'))}:{password}"
        assert ("api_key", login) in formed(f"curl -u {login} https://lumenix.io/items")
        assert formed(f"git clone https://{login}@lumenix.io/items.git")[0][0] == "url_credentials"


WORDS_OF_SOMEBODY = ("Dog", "Rex", "Summer", "Garden", "Lena", "Coffee", "Tiger", "Blue")
LEET = str.maketrans("aeio", "4310")
LEADS = ("password: {}", "pw = {}", "The passwort is: {}", "PASSWORD={} ./start", "wifi password: {}")


@pytest.mark.parametrize("lead", LEADS)
def test_a_password_of_somebodys_own_words_is_found_behind_my_or_a_sign(lead):
    for _ in range(50):
        words = DRAW.sample(WORDS_OF_SOMEBODY, 2)
        leet = "".join(words).translate(LEET)
        mixed = f"T{leet[0]}4b{DRAW.randint(1, 9)}r{words[0]}"
        own = [
            f"My{''.join(words)}{DRAW.randint(1, 99)}!",
            f"my_{words[0].lower()}_{words[1].lower()}{DRAW.randint(1, 9)}",
        ]
        for password in (*own, f"${mixed}", f"$ecret!{DRAW.randint(10, 99)}{words[0]}"):
            assert ("api_key", password) in formed(lead.format(password))


NOBODYS = [
    "my_password1", "MyPassword123", "my-secret-key1", "mysql_pass1", "my_super_secret_pw", "<your-password1>",
    "$DB_PASS1", "$password1", "$dbPassword2;", "${DB_PASS1}", "$(cat pw1)", "$this->pass1", '$_POST["pass1"]',
    "$md5pass", "********", "**********!", "*required*", "%DB_PASS1%", "{{ password1 }}", "$2y$10$abcdefghijk1",
]  # fmt: skip


@pytest.mark.parametrize("value", NOBODYS)
def test_what_stands_in_place_of_a_password_is_nobodys(value):
    assert formed(f"password: {value}") == []
    assert formed(f"PASSWORD={value}") == []


def drawn(form):
    """A text that a parsed regular expression matches, its characters drawn evenly from the choices."""
    text = ""
    for kind, value in form:
        if kind is signs.LITERAL:
            text += chr(value)
        elif kind is signs.IN or kind in (signs.NOT_LITERAL, signs.ANY):
            text += DRAW.choice(_of_set(_set(kind, value)))
        elif kind in (signs.MAX_REPEAT, signs.MIN_REPEAT):
            least, most, repeated = value
            middle = least + ((most - least + 1) // 2 if most < 64 else 0)
            text += "".join(drawn(repeated) for _ in range(DRAW.choice((least, middle, middle))))
        elif kind is signs.SUBPATTERN:
            text += drawn(value[-1])
        elif kind is signs.BRANCH:
            text += drawn(DRAW.choice(value[1]))
    return text


@cache
def _of_set(expression):
    """The signs in a set of a regular expression; a blank where there is none."""
    return [sign for sign in _SIGNS if re.fullmatch(expression, sign, re.ASCII)] or [" "]


_SIGNS = string.ascii_letters + string.digits + "_-+/=.~:;,!@#%&*'\"{}[]()<> \n"


def _set(kind, value):
    if kind is not signs.IN:
        return "." if kind is signs.ANY else f"[^{re.escape(chr(value))}]"
    parts = {
        signs.LITERAL: lambda code: re.escape(chr(code)), signs.NEGATE: lambda _: "^",
        signs.RANGE: lambda ends: f"{re.escape(chr(ends[0]))}-{re.escape(chr(ends[1]))}",
        signs.CATEGORY: lambda name: {"DIGIT": r"\d", "WORD": r"\w", "SPACE": r"\s", "NOT_WORD": r"\W"}.get(
            str(name).rpartition("CATEGORY_")[2], r"\S"),
    }  # fmt: skip
    return "[" + "".join(parts[part](of_part) for part, of_part in value) + "]"


def test_every_rule_of_the_set_still_finds_what_is_drawn_from_its_form():
    missed, tried = [], 0
    for index, given in enumerate(rules._file()["rules"]):
        if "regex" not in given:
            continue
        with warnings.catch_warnings(action="ignore"):
            rule, form = rules._rule(index), parser.parse(rules._rule(index).form.pattern)
        for _ in range(6):
            text = f"{drawn(form)}\n"
            match = rule.form.search(text)
            if not match or not any(word.lower() in text.lower() for word in given["keywords"]):
                continue
            secret = match[rule.group or next((at for at, part in enumerate(match.groups(), 1) if part), 0)]
            if rules.passes(rule, match, secret) and (given["id"] != "curl-auth-user" or rules.is_login(secret)):
                tried += 1
                found = [text[span.start : span.end] for span in secrets(text)]
                missed += [(given["id"], text)] if not any(secret in each for each in found) else []
    assert (missed, tried > 300) == ([], True)


def number(first="", count=10):
    """Digits of a number that could be a telephone number of the United States, without 555."""
    return f"{DRAW.choice((415, 212, 312, 646, 713))}{DRAW.randint(222, 499)}{DRAW.randint(1001, 9989) | 1}"


SUMS = (
    "What is {n} times {m}?", "{n} * {m} = ?", "compute {m} + {n}", "Was ist {n} mal {m}?", "combien font {m} fois {n}",
    "cuánto es {n} por {m}", "计算{n}乘以{m}", "Is {n} prime?", "factorize {n}", "the square root of {n}",
    "h = (h ^ x) * {n}", "return key * {n} >> 16", "hash seed: {n}", "static const uint32_t k = {n};",
    "Convert {n} to hex", "x % {n}", "the modulus is {n}", "{n} bytes", "about {n} people live there",
    "the population was {n} in 1950", "| City | Population |\n| --- | --- |\n| Ota | 12 |\n| Uji | {n} |",
    "Land;Einwohner;Fläche\nA;{n};12\nB;{n};13", "{n} km away", "it has {n} views",
)  # fmt: skip
TOLD = (
    "{n} is mine", "write to Ann, {n}, please", "| Name | Phone |\n| --- | --- |\n| Ann | {n} |",
    "Ann;{n};34\nBo;{n};28",
    "call {n}", "* {n}\n* done", "{n} - ask for Ann", "my number is {n}", "Tel. {n} x 12",
    "| Name | Area | Phone |\n|---|---|---|\n| Ann | north | {n} |",
)  # fmt: skip


@pytest.mark.parametrize("text", SUMS)
def test_a_number_that_is_calculated_or_counts_is_no_telephone_number(text):
    for _ in range(20):
        assert formed(text.format(n=number(), m=DRAW.randint(2, 99))) == []


@pytest.mark.parametrize("text", TOLD)
def test_the_same_number_without_an_operation_is_one(text):
    for _ in range(20):
        assert "phone" in [kind for kind, _ in formed(text.format(n=number()))], text


def test_impossible_addresses_constants_drawn_numbers_and_powers_of_ten_are_no_telephone_numbers():
    for _ in range(200):
        quad = [DRAW.randint(1, 999) for _ in range(4)]
        quad[DRAW.randrange(4)] = DRAW.randint(256, 999)
        row = " ".join(f"{each:02}" for each in sorted(DRAW.sample(range(1, 50), DRAW.randint(5, 7))))
        base = f"{DRAW.randint(1, 9)}.{DRAW.randint(10000, 99999999)}"
        limit = 2 ** DRAW.randint(30, 40) + DRAW.randint(-60, 60)
        power = DRAW.choice((f"{base} x 10^{DRAW.randint(-40, 40)}", f"{base} x 10**{DRAW.randint(2, 40)}"))
        for text in (".".join(map(str, quad)), row, str(limit), power):
            assert (text, formed(f"Here it says {text} again")) == (text, [])


def test_two_dates_in_a_list_are_no_telephone_number():
    for _ in range(50):
        days = [f"{DRAW.randint(1990, 2030)}/{DRAW.randint(1, 12):02}/{DRAW.randint(1, 28):02}" for _ in range(2)]
        assert formed(f"[{DRAW.randint(1, 20)}. **{days[0]}] to {days[1]}**") == []


@pytest.mark.parametrize("text", ["{}::cout << 1", "std::{} << 1", "this->{} = 1", "{}() returns"])
def test_a_name_of_a_program_is_nobodys(text):
    for name in ("John", "Clark", "Mat"):
        start = text.index("{}")
        word = Word(start, start + len(name), 0.95, 0, 0)
        assert list(persons(text.format(name), [word])) == []
        assert len(list(persons(f"I met {name} there", [Word(6, 6 + len(name), 0.95, 0, 0)]))) == 1


def test_words_signs_in_order_and_repeated_signs_are_told_from_chance():
    of_chance = [characters(DRAW, 40) for _ in range(2000)]
    assert sum(map(rules.is_invented, of_chance)) <= 1
    assert math.isclose(rules.entropy("abcd"), 2)
