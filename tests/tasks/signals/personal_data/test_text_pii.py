"""Personal data is found where it stands, whole, by its form and the words around it; checksums refuse the rest."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.providers.embedded.pii.names import NAME_WINDOW_CHARACTERS, OVERLAP_CHARACTERS, name_windows, telling
from tasks.providers.embedded.pii.numbers import iban, luhn
from tasks.providers.embedded.pii.patterns import find_patterns
from tasks.signals.registry import text_signals

FOUND = [
    ("email", "lena.farrow@example.co.uk"), ("phone", "+44 20 7946 0958"), ("phone", "(415) 555-0132"),
    ("phone", "030 9018 2055"), ("card", "4111 1111 1111 1111"), ("card", "5555-5555-5555-4444"),
    ("iban", "DE89 3704 0044 0532 0130 00"), ("iban", "GB29NWBK60161331926819"), ("ip", "203.0.113.45"),
    ("ip", "2001:db8::8a2e:370:7334"), ("national_id", "536-22-8726"), ("phone", "0341 8387176"),
    ("phone", "+1-604-696-5272x565"), ("card", "6011 0009 9013 9424"), ("national_id", "529.982.247-25"),
    ("national_id", "12345678Z"), ("national_id", "11010519491231002X"), ("national_id", "AB 12 34 56 C"),
    ("url_credentials", "https://bob:hunter2@example.org/x"), ("api_key", f"AKIA{'Q3EGRZ7VXNT5HWLB'}"),
    ("address", "48 Willow Lane, Springfield"), ("person", "Margaret Hamilton"),
]  # fmt: skip
HARMLESS = [
    "", "The book has ISBN 978-0-306-40615-7.", "Version 10.4.22 came out on 2024-05-17.",
    "The log says 2024-05-17 12:30:45 and then 17.05.2024 8:30.", "It is 12:30:45 and the slope is 3.14159265358979.",
    "The earth is 4 500 000 000 years old.", "It costs 12.500.000 rupiah, not 1.234.567.",
    "Is 1234 5678 9012 3456 a plausible reading?", "What does the @ sign mean, and why?",
    "The server answers on 127.0.0.1 and on 0.0.0.0.", "Section 3.2.2.6 follows 3.2.2.5.",
    "Scores: 0.99986887, 0.723333 and 0.96588254 (2014-2015).", "Take the M25 motorway, then the A21 road.",
    "The obelisk stands on 9 de Julio Avenue.",
]  # fmt: skip
FILLER = st.text(st.sampled_from("abc é图🎉\n,."), max_size=60)


def spans(embedded, text):
    return text_signals(embedded)["text_pii"].values([text])[0].spans


def found(embedded, text):
    return [(span.type, text[span.start : span.end]) for span in spans(embedded, text)]


def formed(text):
    return [(span.type, text[span.start : span.end]) for span in find_patterns([text])[0]]


@pytest.mark.parametrize(("kind", "data"), FOUND)
@pytest.mark.parametrize("text", ["Please note {} for later.", "👩‍🚀🏳️‍🌈 图片\n\n{}"])
def test_a_span_is_exactly_what_was_written(embedded, kind, data, text):
    assert found(embedded, text.format(data)) == [(kind, data)]


@pytest.mark.parametrize("text", HARMLESS)
def test_numbers_that_belong_to_nobody_are_left_alone(embedded, text):
    assert spans(embedded, text) == []


@pytest.mark.parametrize(
    "text",
    [
        "M 30 65 Q 50 80 70 65", "it is 2279400000 km away", "in 1987-1993", "12345678A",
        "Computer Graphics, 25 (1991) 143-152.", "Phys. Rev. E 78, 046110 2008", "as in 12 (2019) 143-152",
        "doi:10.1000/182", "`10.1137/10081232X`", "IEEE J. 6(9),(1988) 1617--1622.", ":meth:`@app.route`",
        "like('%@aol.com')", "mysql://<user>:<password>@<host>[:<port>]/<dbname>",
        "create_engine('postgresql://scott:tiger@localhost/test')", "sqlite+pysqlcipher://:passphrase@/file_path",
    ],
)  # fmt: skip
def test_what_only_looks_like_personal_data_is_left_alone(text):
    assert find_patterns([text])[0] == []


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("postgresql://ann:hunter22@localhost/db", "url_credentials"),
        ("postgres://bob:password@db.acme.com/x", "url_credentials"),
        ("postgresql://u:password@localhost.acme.com/x", "url_credentials"),
        ("postgres://john.smith:password@localhost:5432/db", "url_credentials"),
        ("https://alice:token@host/x", "url_credentials"), ("10.1137/ann.lee@acme.com", "email"),
        ("10.5000/4111-1111-1111-1111", "card"),
        (f"10.1000/sk-proj-{'q7Rz0LmX' * 2}{'bT4vKe9W' * 3}", "api_key"), ("10.2022/203.0.113.77", "ip"),
        ("10.2024/12345678Z", "national_id"), ("10.1985/12345678Z", "national_id"),
        ("910.1137/12345678Z", "national_id"), ("(0611) 123-4567", "phone"), ("030/1234567", "phone"),
        ("0611 2008", "phone"), ("0611  123456", "phone"), ("9812345670, 9812345671", "phone"),
        ("[9812345670]", "phone"), ("call 9812345670, 12", "phone"),
    ],
)  # fmt: skip
def test_what_only_resembles_a_citation_or_a_place_for_a_password_is_found(text, kind):
    assert kind in [span.type for span in find_patterns([text])[0]]


@pytest.mark.parametrize("text", ["600 123 456", "78 651 450 21", "415 555 0000", "+4 500 000 000"])
def test_a_number_grouped_as_telephones_are_is_one(text):
    assert "phone" in [span.type for span in find_patterns([text])[0]]


@pytest.fixture(scope="module")
def of_all_kinds(embedded):
    """Personal data of four kinds in one text."""
    text = "John Smith lives at 12 High Street, Leeds. Mail john@example.com or call +44 20 7946 0958."
    (value,) = text_signals(embedded)["text_pii"].values([text])
    return value


def test_all_kinds_in_one_text_are_found_in_order(of_all_kinds):
    assert [span.type for span in of_all_kinds.spans] == ["person", "address", "email", "phone"]


def test_all_kinds_in_one_text_are_summed_up(of_all_kinds):
    assert of_all_kinds.types == ["address", "email", "person", "phone"]


def check_digit(digits):
    return next(str(d) for d in range(10) if luhn(digits + str(d)))


@given(st.from_regex(r"[2-6][0-9]{14}", fullmatch=True), st.integers(0, 15), st.integers(1, 9))
def test_a_card_with_one_wrong_digit_is_no_card(digits, place, change):
    card = digits + check_digit(digits)
    wrong = f"{card[:place]}{(int(card[place]) + change) % 10}{card[place + 1 :]}"
    assert (0, 16) in [(s.start, s.end) for s in find_patterns([card])[0] if s.type == "card"] or len(set(card)) == 1
    assert "card" not in [span.type for span in find_patterns([wrong])[0]]


ACCOUNTS = {"DE": "[0-9]{18}", "GB": "[A-Z]{4}[0-9]{14}", "FR": "[0-9]{23}", "NL": "[A-Z]{4}[0-9]{10}"}


@pytest.mark.parametrize("country", ACCOUNTS)
@given(st.data(), st.integers(1, 10), st.integers(1, 9))
def test_an_account_number_with_one_wrong_digit_is_none(country, data, place, change):
    account = data.draw(st.from_regex(ACCOUNTS[country], fullmatch=True))
    as_digits = "".join(str(int(c, 36)) for c in f"{account}{country}00")
    number = f"{country}{98 - int(as_digits) % 97:02d}{account}"
    digit = (int(number[-place]) + change) % 10
    wrong = f"{number[:-place]}{digit}{number[len(number) - place + 1 :]}"
    assert iban(number) and not iban(f"{number}0")
    assert "iban" in [span.type for span in find_patterns([number])[0]]
    assert "iban" not in [span.type for span in find_patterns([wrong])[0]]


@given(FILLER, st.sampled_from([each for each in FOUND if each[0] not in ("address", "person")]), FILLER)
def test_offsets_count_characters_whatever_stands_around(before, planted, after):
    kind, data = planted
    assert (kind, data) in formed(f"{before} | {data} | {after}")


@settings(max_examples=20)
@given(
    st.lists(st.one_of(st.sampled_from([data for _, data in FOUND]), FILLER), max_size=6), st.sampled_from(["", " "])
)
def test_spans_are_in_order_and_never_overlap(embedded, pieces, glue):
    text = glue.join(pieces)
    told = spans(embedded, text)
    edges = [edge for span in told for edge in (span.start, span.end)]
    assert edges == sorted(edges)
    assert all(0 <= span.start < span.end <= len(text) and 0 < span.confidence <= 1 for span in told)


@given(st.integers(0, 300), st.integers(0, 5000))
def test_no_window_is_longer_than_the_limit(start, length):
    windows = list(name_windows(start, start + length))
    assert all(first <= own[0] <= own[1] <= last <= first + NAME_WINDOW_CHARACTERS for first, last, own in windows)


@given(st.integers(0, 300), st.integers(0, 5000))
def test_every_character_belongs_to_one_window(start, length):
    windows = list(name_windows(start, start + length))
    assert [edge for _, _, own in windows for edge in own][1:-1:2] == [own[0] for _, _, own in windows][1:]
    assert (windows[0][2][0], windows[-1][2][1]) == (start, start + length)


@given(st.integers(0, 300), st.integers(0, 5000))
def test_each_window_overlaps_the_next(start, length):
    windows = list(name_windows(start, start + length))
    assert all(one[1] - two[0] == OVERLAP_CHARACTERS for one, two in itertools.pairwise(windows))


@pytest.mark.parametrize("place", [0, 380, 430, 470, 1000, 1990])
def test_a_name_is_found_wherever_it_stands_in_a_text_of_many_windows(embedded, place):
    filler = "the line goes up and then it goes down again. " * 45
    cut = filler.rfind(". ", 0, place) + 2 if place else 0
    text = f"{filler[:cut]}My name is Margaret Hamilton. {filler[cut:]}"
    assert "Margaret Hamilton" in [text[span.start : span.end] for span in spans(embedded, text)]


def test_only_plain_sentences_are_left_out_of_a_long_text():
    plain = "The line goes up and then the line goes down again. "
    text = f"{plain * 12}Ann waits. {plain * 4}He met Will in Leeds. they call him bob. {plain}Él vive aquí. {plain}"
    left = "".join(text[start:end] for start, end in telling(text))
    assert left == "Ann waits. He met Will in Leeds. they call him bob. Él vive aquí. "
    assert telling(text[:400]) == [(0, 400)]


def test_the_very_end_of_a_long_text_is_read(embedded):
    text = "图" * 200_000 + " I live at 48 Willow Lane, Springfield. Write to lena@example.com"
    assert found(embedded, text) == [("address", "48 Willow Lane, Springfield"), ("email", "lena@example.com")]


def test_a_window_of_too_many_tokens_is_read(embedded):
    dense = "图é" * 220 + " Margaret Hamilton lives here"
    assert len(dense) < NAME_WINDOW_CHARACTERS
    assert "person" in [span.type for span in spans(embedded, dense)]


@pytest.mark.parametrize(
    ("text", "kind", "data"),
    [
        ("Reach me on my mobile: 99 577450.", "phone", "99 577450"), ("SSN: 123 45 6789", "national_id", "123 45 6789"),
        ("They are not answering at 78 651 450", "phone", "78 651 450"),
        ("781 1704 office, ask for Ann", "phone", "781 1704"),
        ("the bill for cc 503802053770 please", "card", "503802053770"),
        ("my iban is gb42nawi04454264788619", "iban", "gb42nawi04454264788619"),
        ("my passport number is X4729183", "passport", "X4729183"),
        ("Her driver's license number is F162823540116.", "national_id", "F162823540116"),
    ],
)  # fmt: skip
def test_a_number_is_what_the_words_beside_it_say(text, kind, data):
    assert (kind, data) in formed(text)


@pytest.mark.parametrize(
    "address",
    [
        "3247 Rua Igreja 25\n Apt. 236\n Ribeirão\n Portugal 30971", "17151 2450 Crown St",
        "PSC 6293, Box 8158\nAPO AP 04336", "Unit 5146 Box 1772\nDPO AE 91410", "Lindenstraße 14a, Köln 50674",
        "the corner of Beiteveien 2 and Sieda Radial",
    ],
)  # fmt: skip
def test_an_address_is_found_whole(embedded, address):
    assert found(embedded, f"Please send it to {address}") == [("address", address)]


@pytest.mark.parametrize("name", ["Stefanía K. Oddgeirsdóttir", "Stephan M Urner", "leone mazzi"])
def test_a_name_is_found_with_its_initials(embedded, name):
    assert found(embedded, f"{name} will be talking in the conference") == [("person", name)]


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("17,A. Smith,4155552671,94110", "4155552671"), ("Priya;9876543210;34\nRahul;9123456780;28", "9123456780"),
        ("| Alice | 4155552671 | 94110 |", "4155552671"),
        ("INSERT INTO users VALUES (1, 'Alice', 4155552671, 25);", "4155552671"),
        ("Springfield, IL 62704, 2175550187", "2175550187"), ("I'm 23, 4155552671 text me", "4155552671"),
        ("Tom, 23, 07911123456", "07911123456"), ("4155552671, 24/7", "4155552671"),
        ("[4155552671, 911]", "4155552671"), ("emp = {1: 4155552671, 2: 2125550187}", "4155552671"),
        ("98123/45670", "98123/45670"),
        ("Reach me at 44 (1865) 270-000", "44 (1865) 270-000"), ("44 (1865) 270-280", "44 (1865) 270-280"),
        ("call 12 (2019) 143-152", "12 (2019) 143-152"), ("call 54 (2022) 456-7890", "54 (2022) 456-7890"),
        ("55 (1991) 98765-4321", "55 (1991) 98765-4321"), ("(2012) 555-1234", "(2012) 555-1234"),
        ("(1800) 425-1234", "(1800) 425-1234"), ("Hauptstraße 78, 034206 2008", "034206 2008"),
        ("Name  Phone  Zip\nAlice  415-555-2671  94110", "415-555-2671  94110"), ("415  555  2671", "415  555  2671"),
        ("98765 43210  24", "98765 43210  24"), ("6 12 34 56 78  75011", "6 12 34 56 78  75011"),
        ("10.1000/182;415-555-2671", "415-555-2671"),
    ],
)  # fmt: skip
def test_a_telephone_number_is_found_beside_any_other_number(text, number):
    assert ("phone", number) in formed(text)


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
