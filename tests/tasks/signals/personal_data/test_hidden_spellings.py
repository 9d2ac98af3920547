"""Personal data is found however it is spelt, with its exact place in the text as it was written."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.policy.redact_text import Placeholders, Span, redact_text
from tasks.providers.embedded.normalise import normalised
from tasks.providers.embedded.pii.patterns import find_patterns
from tasks.release.identifiers import identifiers

PLAIN = {
    "email": "lena.farrow@example.com",
    "phone": "+44 20 7946 0958",
    "card": "4111 1111 1111 1111",
    "iban": "DE89 3704 0044 0532 0130 00",
    "ip": "203.0.113.45",
    "national_id": "536-22-8726",
}
NUMBERS = ("phone", "card", "iban", "ip", "national_id")
GROUPED = ("phone", "card", "iban")


def wide(text):
    return "".join(chr(ord(char) + 0xFEE0) if "!" <= char <= "~" else char for char in text)


def digits_from(zero):
    return lambda text: "".join(chr(ord(zero) + int(char)) if char.isdigit() else char for char in text)


def between(char):
    return lambda text: text[:5] + char + text[5:9] + char + text[9:]


def instead(old, new):
    return lambda text: text.replace(old, new)


def escaped(form, chars):
    return lambda text: "".join(form.format(ord(char)) if char in chars else char for char in text)


CLASSES = {
    "full-width letters and digits": (wide, PLAIN),
    "full-width digits": (digits_from("\uff10"), NUMBERS),
    "Arabic-Indic digits": (digits_from("\u0660"), NUMBERS),
    "Persian digits": (digits_from("\u06f0"), NUMBERS),
    "Devanagari digits": (digits_from("\u0966"), NUMBERS),
    "mathematical digits": (digits_from("\U0001d7ce"), NUMBERS),
    "zero-width space": (between("\u200b"), PLAIN),
    "zero-width joiner": (between("\u200d"), PLAIN),
    "soft hyphen": (between("\u00ad"), PLAIN),
    "word joiner": (between("\u2060"), PLAIN),
    "byte order mark": (between("\ufeff"), PLAIN),
    "no-break space": (instead(" ", "\u00a0"), GROUPED),
    "thin space": (instead(" ", "\u2009"), GROUPED),
    "narrow no-break space": (instead(" ", "\u202f"), GROUPED),
    "ideographic space": (instead(" ", "\u3000"), GROUPED),
    "figure dash": (lambda text: text.replace(" ", "-").replace("-", "\u2012"), (*GROUPED, "national_id")),
    "en dash": (lambda text: text.replace(" ", "-").replace("-", "\u2013"), (*GROUPED, "national_id")),
    "no-break hyphen": (lambda text: text.replace(" ", "-").replace("-", "\u2011"), (*GROUPED, "national_id")),
    "minus": (lambda text: text.replace(" ", "-").replace("-", "\u2212"), (*GROUPED, "national_id")),
    "dots between groups": (instead(" ", "."), GROUPED),
    "underscores between groups": (instead(" ", "_"), ("card", "iban")),
    "two lines": (lambda text: "\n".join(text.rsplit(" ", 1)), GROUPED),
    "two lines with a hyphen": (lambda text: "-\n".join(text.rsplit("-", 1)), ("national_id",)),
    "decimal entities": (escaped("&#{};", "@.+-"), ("email", "phone", "ip", "national_id")),
    "hexadecimal entities": (escaped("&#x{:x};", "@.+-"), ("email", "phone", "ip", "national_id")),
    "no-break entities": (instead(" ", "&nbsp;"), GROUPED),
    "percent escapes": (escaped("%{:02X}", "@.+- "), PLAIN),
    "backslash u escapes": (escaped("\\u{:04x}", "@.+- "), PLAIN),
    "defanged dots": (instead(".", "[.]"), ("email", "ip")),
    "defanged at the end": (lambda text: "[.]".join(text.rsplit(".", 1)), ("email", "ip")),
    "dots in parentheses": (instead(".", "(.)"), ("email", "ip")),
    "(at)": (instead("@", "(at)"), ("email",)),
    " (at) ": (instead("@", " (at) "), ("email",)),
    "[at] [dot]": (lambda text: text.replace("@", "[at]").replace(".com", "[dot]com"), ("email",)),
    " AT ": (instead("@", " AT "), ("email",)),
    " AT  DOT ": (lambda text: text.replace("@", " AT ").replace(".com", " DOT com"), ("email",)),
    "_at_": (instead("@", "_at_"), ("email",)),
    "_at_ _dot_": (lambda text: text.replace("@", "_at_").replace(".com", "_dot_com"), ("email",)),
    "blanks around @": (instead("@", " @ "), ("email",)),
    "blanks around @ and the last dot": (lambda text: text.replace("@", " @ ").replace(".com", " . com"), ("email",)),
    "blank before the last dot": (instead(".com", " .com"), ("email",)),
    "blanks around dots": (instead(".", " . "), ("ip",)),
    "@ in brackets": (instead("@", "[@]"), ("email",)),
    "keycap digits": (lambda text: "".join(c + "\ufe0f\u20e3" if c.isdigit() else c for c in text), NUMBERS),
}
SPELLINGS = {name: {kind: spell(PLAIN[kind]) for kind in kinds} for name, (spell, kinds) in CLASSES.items()}
"""Class of spellings -> type of personal data -> how it is written."""
TEXTS = ["Please note {} for later.", "图片 👩‍🚀 \u2009(&amp; caf\u0065\u0301): {}\n\nThanks"]


def found(text):
    return [(span.type, text[span.start : span.end]) for span in find_patterns(text)]


@pytest.mark.parametrize("name", SPELLINGS)
def test_hidden_data_is_found_exactly_where_it_stands_and_nothing_of_it_is_left_after_redaction(name):
    for kind, written in SPELLINGS[name].items():
        for text in TEXTS:
            assert (kind, written) in found(text.format(written))
        text = TEXTS[0].format(written)
        spans = [Span(span.start, span.end, span.type) for span in find_patterns(text)]
        assert redact_text(text, spans, {}, Placeholders())[0] == TEXTS[0].format(f"<{kind.upper()}_1>")


@pytest.mark.parametrize("written", ["lena@example[.]com", "lena\\u0040example.com", "203.0.113[.]45"])
def test_a_column_of_a_release_may_not_hide_an_address(written):
    assert identifiers(f"see {written}")


HARMLESS = [
    "git clone git@github.com:pallets/flask.git", "4 0\n1 1 2 2", "Input\n3 4\n4111 1111\n1111 1112\nOutput\n3",
    "at pH 1 and at pH 14", "5584.645584.64", "x[::2] + x[1::2]", "face::add(dead::beef)", "y = W@x.shape",
    "h = A @ x.to(device)", "icon@2x.png", "2147483648 or 1275785153", "RFC 3513 2.5.6", "02/02/04 02/03/04",
    "x² + y² = 10⁸, and 1–2 of 3–4", "printf('%2d%2d', 41, 42)", "Meet me @ example.com, AT LAST", "r'[a-z]+[.][a-z]+'",
]  # fmt: skip


def test_code_and_mathematics_hold_no_personal_data():
    assert {text: found(text) for text in HARMLESS if found(text)} == {}


@given(st.text(st.characters() | st.sampled_from("&#64;%\\u0@[.](at)– \u200b\uff11\u0301"), max_size=60))
def test_every_character_of_a_normalised_text_comes_from_a_place_in_the_original(text):
    plain = normalised(text)
    parts = list(zip(plain.starts, plain.ends, plain.original_starts, plain.original_ends, strict=True))
    rebuilt, end, place = "", 0, 0
    for start, stop, first, last in parts:
        assert plain.text[place:start] == text[end:first] and first < last
        rebuilt += plain.text[place:stop]
        end, place = last, stop
    assert plain.text[place:] == text[end:] and rebuilt + plain.text[place:] == plain.text
