"""A text that the sieve leaves out has no match of any pattern: by random patterns, drawn texts and real ones."""

import json
import random
import re
import sys

import polars as pl
import pytest

from benchmarks.privacy_spellings import messages
from tasks.providers.embedded.pii.patterns import PATTERNS, find_patterns
from tasks.providers.embedded.pii.readings import _STEPS
from tasks.providers.embedded.pii.secrets import secret_forms
from tasks.providers.embedded.pii.sieve import FEWEST, Sieve, necessary
from tests.places import DATA, needs_data

SEED = 20261129
LETTERS = "ab1_- \n.Kkſsİié١²中"
ATOMS = [
    "a", "b", "1", "-", "k", "s", "é", "中", ".", r"\d", r"\w", r"\s", r"\W", r"\D", r"\S", "[ab]", "[^ab]", r"[\w-]",
    "[a-é]", "[^é1]", r"[^\W_]", "(?:a|1b)", "(?i:k)", "(?i:[s-é])", "(?-i:a)", "(a)", "(?s:.)", "(?>a|ab)",
]  # fmt: skip
AROUND = [
    r"\b", "^", "$", r"(?<!\w)", r"(?!\w)", "(?<=a)", "(?=1)", r"(?<![\w.-])", r"(?![\w-]|\.\d)", "(?<!ab)", "(?!a1)",
    r"(?=\w*1)", "(?<![^a])",
]  # fmt: skip
COUNTS = ["", "", "", "?", "*", "+?", "{2}", "{0,3}", "{7,9}", "{2,}", "++"]


def drawn_pattern(draw: random.Random, depth: int = 2) -> str:
    """A pattern of up to four parts, each an atom, a look around or a group, repeated or not."""
    parts = []
    for _ in range(draw.randint(1, 4)):
        kind = draw.random()
        if kind < 0.25:
            parts.append(draw.choice(AROUND))
        elif kind < 0.4 and depth:
            branches = "|".join(drawn_pattern(draw, depth - 1) for _ in range(draw.randint(1, 2)))
            parts.append(f"(?:{branches}){draw.choice(['', '?', '{1,2}'])}")
        else:
            parts.append(draw.choice(ATOMS) + draw.choice(COUNTS))
    return "".join(parts)


def drawn_texts(draw: random.Random, count: int) -> list[str]:
    return ["".join(draw.choices(LETTERS, k=draw.randint(0, 12))) for _ in range(count)]


def test_every_text_with_a_match_of_a_random_pattern_meets_its_condition():
    draw, matched, met = random.Random(SEED), 0, 0
    for _ in range(1500):
        form = re.compile(drawn_pattern(draw), draw.choice([0, re.IGNORECASE, re.DOTALL]))
        texts = drawn_texts(draw, 40)
        has_match = [bool(form.search(text)) for text in texts]
        meets = pl.Series(texts).str.contains(necessary(form)).to_list()
        wrong = [text for text, found, may in zip(texts, has_match, meets, strict=True) if found and not may]
        assert not wrong, (form, wrong)
        matched, met = matched + sum(has_match), met + sum(meets)
    assert matched > 10_000
    assert met < 1.6 * matched  # a condition that every text met would be of no use


@pytest.mark.parametrize("form", [r"(.)x\1y", r"(a|b)-\1", r"(?P<sign>[ .])a(?P=sign){2}"])
def test_a_part_that_is_repeated_as_it_was_matched_may_be_anything_that_could_match_there(form):
    texts = ["1x1y", "a-a", "b-b", " a  ", ".a.."]
    matched = [text for text in texts if re.search(form, text)]
    assert matched
    assert pl.Series(matched).str.contains(necessary(re.compile(form))).all()


def test_letters_match_the_same_characters_in_any_case_as_in_python():
    characters = [chr(code) for code in range(sys.maxunicode + 1) if not 0xD800 <= code < 0xE000]
    column = pl.Series(characters)
    cased = [letter for letter in map(chr, range(0x250)) if letter.isalpha()]
    for letter in cased:
        form = re.compile(letter, re.IGNORECASE)
        matched = pl.Series([character for character in {*cased, *"İıſKÅΜẞ", letter} if form.match(character)])
        assert matched.str.contains(necessary(form)).all(), letter
    for sign in (r"\d", r"\w", r"\s", r"\W", r"(?i)[a-z]", r"(?i)[^a-z]", r"(?i)[à-ÿ]", r"(?i)k", r"(?i)s", r"(?i)i"):
        form = re.compile(sign)
        matched = column.filter(pl.Series([bool(form.match(character)) for character in characters]))
        assert matched.str.contains(f"(?s)^{necessary(form)}$").all(), sign


def test_no_character_beyond_ascii_changes_its_case_without_having_one():
    """Of a character without case, the condition is that character alone."""
    small = {chr(code).lower(): chr(code) for code in range(128, sys.maxunicode + 1) if chr(code).lower() != chr(code)}
    single = [letter for letter in small if len(letter) == 1 and letter > "\x7f"]
    assert [letter for letter in single if necessary(re.compile(letter, re.IGNORECASE)).count("10ffff") != 1] == []


def alone(text):
    """What is found in a text when it is searched alone, which no sieve does."""
    assert FEWEST > 1
    return find_patterns([text])[0]


def cut(draw: random.Random, text: str, other: str) -> str:
    """A text without a part of it, or within another."""
    start, end = sorted(draw.sample(range(len(text) + 1), 2))
    if draw.random() < 0.5:
        return text[:start] + draw.choice(["", "x", "9", "\u3000", "é", "-"]) + text[end:]
    place = draw.randrange(len(other) + 1)
    return f"{other[:place]}{draw.choice(['', ' ', chr(10)])}{text}{other[place:]}"


def test_texts_of_every_kind_and_spelling_are_found_the_same_among_others_as_alone():
    draw = random.Random(SEED)
    texts = [message.text for message in messages(SEED, 3)]
    texts += [cut(draw, text, draw.choice(texts)) for text in draw.choices(texts, k=1000) if len(text) > 1]
    assert find_patterns(texts) == [alone(text) for text in texts]
    assert len({span.type for spans in find_patterns(texts) for span in spans}) >= len({p.type for p in PATTERNS}) - 1


def test_every_pattern_that_matches_in_a_drawn_text_lets_it_through():
    texts = pl.Series([message.text for message in messages(SEED + 1, 3)])
    matched = 0
    for form in [*(pattern.form for pattern in PATTERNS), *secret_forms(), *(f for fs in _STEPS.values() for f in fs)]:
        has_match = pl.Series([bool(form.search(text)) for text in texts], dtype=pl.Boolean)
        meets = texts.str.contains(necessary(form))
        assert (meets | ~has_match).all(), form
        matched += has_match.any()
    assert matched > 40


def test_a_search_is_passed_only_the_texts_that_may_have_what_it_finds():
    sieve = Sieve({"mail": [re.compile(r"\w@\w")], "number": [re.compile(r"(?<!\w)\d{3}(?!\w)"), re.compile("one")]})
    texts = ["a@b", "a 123 b", "a1234", "one of a@b", "", "@ b", "x123", "12 3"]
    assert sieve.passing(texts) == [("mail",), ("number",), (), ("mail", "number"), (), (), (), ()]
    assert sieve.passing(texts[2:4]) == [("mail", "number")] * 2  # to search so few takes no longer


def strings(value):
    """All texts in a value of JSON."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            yield from strings(part)


@needs_data
def test_real_chats_are_found_the_same_among_others_as_alone():
    texts = set()
    for file in sorted((DATA / "arena-logs" / "logs").glob("*.json")):
        for line in file.read_text("utf-8", "replace").splitlines():
            if line.startswith("{") and line.endswith("}"):
                texts.update(strings(json.loads(line, strict=False)))
    chats = sorted(text for text in texts if text.isprintable() or "\n" in text)[:4000]
    assert len(chats) > 500
    assert find_patterns(chats) == [alone(text) for text in chats]
