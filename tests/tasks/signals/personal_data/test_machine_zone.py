"""Lines that a machine reads on documents are found whole, also where recognition mixed letters and digits up."""

import random

import pytest

from tasks.providers.embedded.pii.machine_zone import check_digit
from tasks.providers.embedded.pii.patterns import find_patterns

STATES = ("UTO", "POL", "NOR", "COL", "GBR", "ISR", "BRA", "SOM", "D<<", "ESP", "BIH")
NAMES = ("KOWALSKI<<ZOFIA", "ERIKSSON<<ANNA<MARIA", "DE<LA<CRUZ<<JOSE", "OBI<<SISSI", "BOSS<<IBO")
AS_DIGITS, AS_LETTERS = str.maketrans("OISB", "0158"), str.maketrans("0158", "OISB")
READINGS = {"right": {}, "letters as digits": AS_DIGITS, "digits as letters": AS_LETTERS}


def _dated(chance: random.Random) -> str:
    date = f"{chance.randrange(100):02}{chance.randrange(1, 13):02}{chance.randrange(1, 29):02}"
    return date + check_digit(date)


def _zone(kind: str, chance: random.Random) -> list[str]:
    """The lines of a passport (two of 44) or a card (three of 30, or two of 36), with true check digits."""
    number = "".join(chance.choice("ABCDEFGHOISB0123456789") for _ in range(9))
    number, state, name = number + check_digit(number), chance.choice(STATES), chance.choice(NAMES)
    born, sex, expires = _dated(chance), chance.choice("MF<"), _dated(chance)
    if kind == "passport":
        return [f"P<{state}{name}".ljust(44, "<"), f"{number}{state}{born}{sex}{expires}".ljust(42, "<") + "08"]
    if kind == "card of two lines":
        return [f"I<{state}{name}".ljust(36, "<"), f"{number}{state}{born}{sex}{expires}".ljust(35, "<") + "6"]
    return [
        f"I<{state}{number}".ljust(30, "<"), f"{born}{sex}{expires}{state}".ljust(29, "<") + "4", name.ljust(30, "<")
    ]  # fmt: skip


@pytest.mark.parametrize("reading", READINGS)
@pytest.mark.parametrize("kind", ["passport", "card of two lines", "card of three lines"])
def test_every_line_of_a_zone_is_personal(kind, reading):
    chance = random.Random(f"{kind} {reading}")
    for _ in range(40):
        zone = "\n".join(_zone(kind, chance)).translate(READINGS[reading])
        text = f"scan:\n{zone}\nend"
        spans = [(span.start, span.end) for span in find_patterns(text) if span.type == "passport"]
        assert (min(spans)[0], max(end for _, end in spans)) == (6, 6 + len(zone)), zone


@pytest.mark.parametrize(
    ("field", "digit"), [("520727", "3"), ("AB2134<<<", "5"), ("L898902C3", "6"), ("740812", "2"), ("120415", "9")]
)
def test_check_digits_are_those_of_the_standards_examples(field, digit):
    assert check_digit(field) == digit


@pytest.mark.parametrize(
    "text",
    [
        "template <P0LYGON<<5>>", "PAIR<<X", "VECTOR<INT<<8>>", "ABCDEFGHIO0ISB740812OM120415I<<<<<<<<<<<<<<00",
        "std::cout << 'PASSED' << std::endl", "P<T0>", "A<B<<C", "C1234567890123456789012345678901234567890123<",
    ],
)  # fmt: skip
def test_code_with_angle_brackets_is_no_zone(text):
    assert [span for span in find_patterns(text) if span.type == "passport"] == []
