"""Numbers, addresses and names are known by the words around them, and found with all that belongs to them."""

import pytest

from tasks.providers.embedded.pii_patterns import find_patterns
from tasks.signals import text_signals


def found(embedded, text):
    return [
        (span.type, text[span.start : span.end]) for span in text_signals(embedded)["text_pii"].values([text])[0].spans
    ]


@pytest.mark.parametrize(
    ("text", "kind", "data"),
    [
        ("Reach me on my mobile: 99 577450.", "phone", "99 577450"),
        ("They are not answering at 78 651 450", "phone", "78 651 450"),
        ("781 1704 office, ask for Ann", "phone", "781 1704"),
        ("the bill for cc 503802053770 please", "card", "503802053770"),
        ("my iban is gb42nawi04454264788619", "iban", "gb42nawi04454264788619"),
        ("my passport number is X4729183", "passport", "X4729183"),
        ("Her driver's license number is F162823540116.", "national_id", "F162823540116"),
        ("SSN: 123 45 6789", "national_id", "123 45 6789"),
    ],
)
def test_a_number_is_what_the_words_beside_it_say(text, kind, data):
    assert (kind, data) in [(span.type, text[span.start : span.end]) for span in find_patterns(text)]


@pytest.mark.parametrize(
    "address",
    [
        "3247 Rua Igreja 25\n Apt. 236\n Ribeirão\n Portugal 30971",
        "17151 2450 Crown St",
        "PSC 6293, Box 8158\nAPO AP 04336",
        "Unit 5146 Box 1772\nDPO AE 91410",
        "the corner of Beiteveien 2 and Sieda Radial",
        "Lindenstraße 14a, Köln 50674",
    ],
)
def test_an_address_is_found_with_its_number_unit_and_place(embedded, address):
    text = f"Please send it to {address}"
    assert found(embedded, text) == [("address", address)]


@pytest.mark.parametrize("name", ["Stefanía K. Oddgeirsdóttir", "Stephan M Urner", "leone mazzi"])
def test_a_name_is_found_with_its_initials(embedded, name):
    text = f"{name} will be talking in the conference"
    assert found(embedded, text) == [("person", name)]
