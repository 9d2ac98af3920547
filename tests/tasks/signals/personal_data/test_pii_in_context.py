"""Numbers, addresses and names are known by the words around them, and found with all that belongs to them."""

import pytest

from tasks.providers.embedded.pii.patterns import find_patterns
from tasks.signals.registry import text_signals


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


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("17,A. Smith,4155552671,94110", "4155552671"),
        ("Priya;9876543210;34\nRahul;9123456780;28", "9123456780"),
        ("| Alice | 4155552671 | 94110 |", "4155552671"),
        ("INSERT INTO users VALUES (1, 'Alice', 4155552671, 25);", "4155552671"),
        ("Springfield, IL 62704, 2175550187", "2175550187"),
        ("I'm 23, 4155552671 text me", "4155552671"),
        ("Tom, 23, 07911123456", "07911123456"),
        ("4155552671, 24/7", "4155552671"),
        ("[4155552671, 911]", "4155552671"),
        ("emp = {1: 4155552671, 2: 2125550187}", "4155552671"),
        ("sum 12 * 4155552671", "4155552671"),
        ("98123/45670", "98123/45670"),
        ("Reach me at 44 (1865) 270-000", "44 (1865) 270-000"),
        ("44 (1865) 270-280", "44 (1865) 270-280"),
        ("call 12 (2019) 143-152", "12 (2019) 143-152"),
        ("call 54 (2022) 456-7890", "54 (2022) 456-7890"),
        ("55 (1991) 98765-4321", "55 (1991) 98765-4321"),
        ("(2012) 555-1234", "(2012) 555-1234"),
        ("(1800) 425-1234", "(1800) 425-1234"),
        ("Hauptstraße 78, 034206 2008", "034206 2008"),
        ("Name  Phone  Zip\nAlice  415-555-2671  94110", "415-555-2671  94110"),
        ("415  555  2671", "415  555  2671"),
        ("98765 43210  24", "98765 43210  24"),
        ("6 12 34 56 78  75011", "6 12 34 56 78  75011"),
        ("10.1000/182;415-555-2671", "415-555-2671"),
    ],
)
def test_a_telephone_number_is_found_beside_any_other_number(text, number):
    assert ("phone", number) in [(span.type, text[span.start : span.end]) for span in find_patterns(text)]


@pytest.mark.parametrize(
    "rows",
    [
        ("1   742 Evergreen Terrace   97403", "2   45 Elm Avenue   62704"),
        ("12   Oak Street   94110", "34   Elm Avenue   94110"),
        ("Jane Doe   742 Evergreen Terrace   97403", "98   Main St"),
        ("Order 1   221 Baker Street, London   1001", "1002   45 Elm Avenue, Springfield"),
    ],
)
def test_every_street_of_a_table_is_found(embedded, rows):
    covered = " ".join(data for kind, data in found(embedded, "\n".join(rows)) if kind == "address")
    streets = ("Evergreen Terrace", "Elm Avenue", "Oak Street", "Main St", "Baker Street")
    assert all(street in covered for street in streets if street in "".join(rows))
