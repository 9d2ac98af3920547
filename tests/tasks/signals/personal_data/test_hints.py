"""A word or sign that lets a text through to a pattern stands in every text that has what the pattern finds."""

import random
import warnings
from re import _parser as parser

import pytest

from benchmarks.spelling_values import iban
from tasks.providers.embedded.pii.machine_zone import check_digit
from tasks.providers.embedded.pii.patterns import PATTERNS
from tasks.providers.embedded.pii.secrets import BEHIND_WORDS
from tests.tasks.signals.personal_data.test_nobodys_values import drawn
from tests.tasks.signals.personal_data.test_text_pii import formed

DRAW = random.Random(407)
FORMS = {
    **{
        f"secret: {form.name}": (pattern, lambda match, form=form: form.check(match["data"]),
                                 lambda text, words=words: any(word in text.lower() for word in words))
        for form, pattern, words in BEHIND_WORDS
    },
    **{
        f"{place} {pattern.type}": (pattern.form, lambda match, pattern=pattern: pattern.confidence(match) is not None,
                                    lambda text, hint=pattern.hint: bool(hint.search(text)))
        for place, pattern in enumerate(PATTERNS) if pattern.hint
    },
}  # fmt: skip
"""Name of a form -> its pattern, its check of a match, and whether its hint lets a text through."""


@pytest.mark.parametrize("name", FORMS)
def test_a_text_that_is_drawn_from_a_pattern_passes_its_hint(name):
    form, counts, is_let_through = FORMS[name]
    with warnings.catch_warnings(action="ignore"):
        tree = parser.parse(form.pattern, form.flags)
    texts = [drawn(tree) for _ in range(300)]
    # texts with a match that counts as a finding
    held = [text for text in texts if any(counts(match) for match in form.finditer(text))]
    assert [text for text in held if not is_let_through(text)] == []


def test_values_one_group_a_line_are_found_in_a_text_alone():
    for _ in range(100):
        account = iban(DRAW).replace(" ", "")
        indented = "\n        ".join(account[place : place + 4] for place in range(0, len(account), 4))
        assert ("iban", indented) in formed(f"account:\n        {indented}")
        area, line = f"({DRAW.choice((212, 312, 415, 646))})", f"{DRAW.randint(223, 499)}-{DRAW.randint(1000, 9999)}"
        assert "phone" in [kind for kind, _ in formed(f"ask Ann:\n{area}\n{line}")]


def test_a_zone_whose_fields_leave_no_filler_is_found_in_a_text_alone():
    letters = "ACDEFGHJKLMNPQRTUVWXYZ"
    for _ in range(100):
        number, optional = "".join(DRAW.choices(letters + "234679", k=9)), "".join(DRAW.choices(letters, k=14))
        birth, expiry = (f"{DRAW.randint(50, 99)}{DRAW.randint(10, 12)}{DRAW.randint(10, 28)}" for _ in range(2))
        dates = f"{birth}{check_digit(birth)}{DRAW.choice('MF')}{expiry}{check_digit(expiry)}"
        zone = f"{number}{check_digit(number)}UTO{dates}{optional}{check_digit(optional)}{DRAW.randint(0, 9)}"
        assert ("passport", zone) in formed(f"read from it: {zone}")
