"""Lines that a machine reads on documents are found whole, also where recognition mixed letters and digits up."""

import random

import pytest

from benchmarks.privacy_programs import signs
from benchmarks.spelling_values import ZONES, misread, zone
from tasks.providers.embedded.pii.machine_zone import check_digit
from tasks.providers.embedded.pii.patterns import find_patterns

READINGS = {
    "right": lambda zone, _: zone,
    "letters as digits": lambda zone, _: zone.translate(str.maketrans("OISB", "0158")),
    "digits as letters": lambda zone, _: zone.translate(str.maketrans("0158", "OISB")),
    "mixed up": misread,
}


@pytest.mark.parametrize("reading", READINGS)
@pytest.mark.parametrize("layout", ZONES)
def test_every_line_of_a_zone_is_personal(layout, reading):
    chance = random.Random(f"{layout} {reading}")
    for _ in range(200):
        written = READINGS[reading](zone(layout, chance), chance)
        text = f"scan:\n{written}\nend"
        first, *_ = find_patterns([text])[0]  # what overlaps it gives way
        assert (first.type, first.start, first.end) == ("passport", 6, 6 + len(written)), written


@pytest.mark.parametrize(
    ("field", "digit"), [("520727", "3"), ("AB2134<<<", "5"), ("L898902C3", "6"), ("740812", "2"), ("120415", "9")]
)
def test_check_digits_are_those_of_the_standards_examples(field, digit):
    assert check_digit(field) == digit


@pytest.mark.parametrize(
    "text",
    [
        "template <P0LYGON<<5>>", "PAIR<<X", "VECTOR<INT<<8>>", "ABCDEFGHIO0ISB740812OM120415I<<<<<<<<<<<<<<00",
        "std::cout << 'PASSED' << std::endl", "P<T0>", "A<B<<C", "CHANNEL<<SHIFT",
        "PERIOD<<BITS | I2C0MASK<<I2C0BASE", "P<<BAX1<<8B", "IO_AT0ECP1AC88<OPBSICX<ITSX0<AT0",
        "C1234567890123456789012345678901234567890123<",
    ],
)  # fmt: skip
def test_code_with_angle_brackets_is_no_zone(text):
    assert [span for span in find_patterns([text])[0] if span.type == "passport"] == []


def test_drawn_signs_shifts_and_templates_are_no_zones():
    wrong = [
        text for text in signs(random.Random(57)) if any(span.type == "passport" for span in find_patterns([text])[0])
    ]
    assert wrong == []
