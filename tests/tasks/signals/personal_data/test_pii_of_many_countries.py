"""Personal data is found as it is written in many countries, and numbers of things are left alone."""

import re

import pytest

from tasks.providers.embedded.pii.addresses import Word
from tasks.providers.embedded.pii.names import persons
from tests.tasks.signals.personal_data.test_text_pii import formed, found

NATIONAL = [
    ("TFN 123 456 782 on the payslip", "123 456 782"), ("SIN: 046 454 286", "046 454 286"),
    ("CPF 52998224725, titular", "52998224725"), ("PESEL: 44051401359", "44051401359"),
    ("Mijn BSN is 111222333", "111222333"), ("Meine Steuer-ID lautet 86 095 742 719.", "86 095 742 719"),
    ("Mi DNI es 12345678Z y vivo aquí", "12345678Z"), ("マイナンバーは123456789018です", "123456789018"),
    ("身份证号码:11010519491231002X,", "11010519491231002X"), ("born as 811228-9874 in Lund", "811228-9874"),
    ("85.07.30-033.28 uit Gent", "85.07.30-033.28"), ("131052-308T Helsinki", "131052-308T"),
    ("Soy 12.345.678-5", "12.345.678-5"), ("HEGG560427MVZRRL04", "HEGG560427MVZRRL04"),
    ("NIE: X-1234567-L", "X-1234567-L"), ("Y 1234567 X", "Y 1234567 X"),
    ("Documento 12.345.678-Z", "12.345.678-Z"),
]  # fmt: skip
PHONES = [
    ("電話番号は090-1234-5678です。", "090-1234-5678"), ("电话13800138000。", "13800138000"),
    ("unter 0221 / 460 20 69 - 39", "0221 / 460 20 69 - 39"), ("le 0033 639981234 ce soir", "0033 639981234"),
    ("hívjon: 06-3/413 6676", "06-3/413 6676"), ("06 1 234 5678 Budapest", "06 1 234 5678"),
]  # fmt: skip
BODY = "q7Rz0LmXbT4vKe9WnY2c"
KEYS = [f"github_pat_{BODY * 2}", f"sk_test_{BODY}Pd5s", f"npm_{BODY}Pd5sHj8uGk3aQw1f"]
KEYS.append(".".join(["eyJ" + BODY] * 2 + [f"{BODY}x6"]))
ACCOUNTS = ("BE71 0961 2345 6769", "AT61 1904 3002 3457 3201", "GB82WEST12345698765432")
AFTER = (" PLEASE PAY", " BIC KREDBEBB", " NOW", "\nBIC KREDBEBB", " A", "")
"""What stands behind an account number, and is no part of it."""


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        *(("national_id", *each) for each in NATIONAL), *(("phone", *each) for each in PHONES),
        *(("api_key", f"token {key} fails", key) for key in KEYS),
        *(("iban", f"IBAN {number}{after}", number) for number in ACCOUNTS for after in AFTER),
        ("url_credentials", "connect to redis://:hunter2@cache.example.com:6379/0",
         "redis://:hunter2@cache.example.com:6379/0"),
    ],
)  # fmt: skip
def test_a_value_is_found_whole_as_each_country_and_service_writes_it(kind, text, value):
    assert (kind, value) in formed(text)


@pytest.mark.parametrize(
    "number",
    ["811228-9873", "811328-9876", "85.07.30-033.29", "131052-308U", "12.345.678-4", "X-1234567-A", "529.982.247-26"],
)
def test_a_number_whose_checksum_or_date_is_wrong_is_no_identity_number(number):
    assert "national_id" not in [kind for kind, _ in formed(f"see {number} there")]


@pytest.mark.parametrize(
    "written",
    [
        "jane.d [at] example.org",
        "jane(at)example.com",
        "jane (at) example (dot) com",
        "jane dot doe at example dot org",
    ],
)
def test_an_address_spelt_out_to_hide_it_is_an_email_address(written):
    assert formed(f"write to me: {written}, please") == [("email", written)]


@pytest.mark.parametrize(
    "text",
    [
        "Meet me at the dot com conference.", "Visit us at example dot com", "x = a[at] + b.c",
        "user at home dot config", "Your order #4155550132 has shipped.", "Tracking number: 4155550132",
        "Die Seriennummer lautet 6945-8474-8440.", "In 1939 there were 64 530 391 of them.",
        "Upgrade to version 11.14.18.6 of it.", "Firmware 2.10.4.33 fixes it.", "Chrome/120.0.6099.109",
        "numpy==10.20.30.40", "npm i lodash@4.17.21 vue@3.5.0-beta.1", "in 06-3/4 of the cases", "ping 10.0.35.11",
        "ping 192.168.0.123:80", "ping 172.20.1.1", "ping fe80::1ff:fe23:4567:890a",
    ],
)  # fmt: skip
def test_numbers_of_things_versions_addresses_inside_a_network_and_the_words_at_and_dot_are_left_alone(text):
    assert formed(text) == []


def test_addresses_of_machines_are_found_whole_where_no_version_is_meant():
    assert formed("deploy@1.2.3.4:/srv") == [("ip", "1.2.3.4")]
    assert formed("ssh to 203.0.113.45 or http://198.51.100.7/") == [("ip", "203.0.113.45"), ("ip", "198.51.100.7")]
    for address in ("::ffff:84.12.33.9", "64:ff9b::84.12.33.9", "fe80::211:22ff:fe33:4455", "2a02:810d::1"):
        assert formed(f"ping {address}.") == [("ip", address)]


def test_a_companys_number_or_a_mere_mention_is_none():
    assert ("national_id", "001285423104") not in formed("GST ID No 001285423104")
    assert formed("The SSN is a number of nine digits, and my DNI is in a drawer with 3 keys.") == []


@pytest.mark.parametrize("word", ["Reisepass Nr.", "passeport n°", "Pasaporte:", "护照号码", "my passport is"])
def test_a_passport_is_known_by_its_word_in_many_languages(word):
    assert formed(f"{word} C01X00T47") == [("passport", "C01X00T47")]


@pytest.mark.parametrize(
    "text", ["4111 1111 1111 1111 04/29", "Card: 4111-1111-1111-1111 4/29", "pay with 4111111111111111 12/2029 please"]
)
def test_a_card_is_found_when_its_expiry_date_follows(text):
    assert {re.sub(r"[ -]", "", value) for kind, value in formed(text) if kind == "card"} == {"4111111111111111"}


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("我叫王小明,电话", "王小明"), ("私の名前は山田 太郎です。", "山田 太郎"), ("山田様、お待ちください", "山田"),
        ("मेरा नाम अनुजा नाथ है", "अनुजा नाथ"),
        ("اسمي محمد علي ورقم", "محمد علي"), ("Nazywam się Gaja Jakubiuk.", "Gaja Jakubiuk"),
        ("Stuur het t.a.v. Alex van Wijk", "Alex van Wijk"), ("Sehr geehrte Frau Nolte", "Nolte"),
    ],
)  # fmt: skip
def test_a_name_is_found_in_any_script_when_a_phrase_introduces_it(embedded, text, name):
    assert found(embedded, text) == [("person", name)]


@pytest.mark.parametrize("address", ["東京都千代田区丸の内1丁目9番2号", "广西省天津市江北蒋路5号"])
def test_addresses_of_japan_and_china_are_found(embedded, address):
    assert found(embedded, f"地址:{address}") == [("address", address)]


@pytest.mark.parametrize(
    "address",
    [
        "Heol y Frenin 5", "Karl Johans gate 5", "Brīvības iela 45", "Pikk tänav 12", "Slovenska cesta 55",
        "Nowy Świat 23",
    ],
)  # fmt: skip
def test_an_address_is_found_though_its_word_for_street_is_not_listed(embedded, address):
    assert found(embedded, f"I live at {address}.") == [("address", address)]


def test_addresses_with_units_and_streets_of_a_date_are_found(embedded):
    text = "Apt 4, 12 Elm Road, Leeds\nApt 6, 14 Elm Road, Leeds"
    assert "12 Elm Road" in " ".join(held for kind, held in found(embedded, text) if kind == "address")
    text = "Vivo en Calle 20 de Noviembre No. 45 Col. Centro"
    assert ("address", "Calle 20 de Noviembre No. 45") in found(embedded, text)


@pytest.mark.parametrize(
    "text",
    [
        "Level 2\nUnit 201\nUnit 202\nUnit 203\nElevator",
        "Apt 4B\nApt 4C\nStair A\nCourtyard",
        "Ground Floor\nHall 1\nHall 2\nRoom 12 Library\nRoom 13 Chapel Street Entrance",
        "Plot 14\nPlot 15\nGarden Street\nPlot 16",
        "Station Road\nPark\nRoom 5\nRoom 6",
        "Compare Llama 2 18B and Mistral 7B on MMLU.",
        "They won 2-3 5-2 6-6 in the final of 1999.",
        "The perplexity on the WikiText-2 dataset is lower.",
        "Lohmann asteroide gerrikoan aurkitutako 1820.",
        "Sa bhliain 1906 tharla réabhlóid shíochánta.",
        "Campanya de foment de la lectura en català 4.3.",
        "Fra 1600-tallet og opp til 1865 ble gården drevet av leilendinger.",
    ],
)
def test_rooms_of_a_plan_models_scores_years_and_versions_are_nobodys_address(embedded, text):
    assert found(embedded, text) == []


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("What flavors of jelly beans are in the package?", []),
        ("Is the answer cigarette or Jeans?", []),
        ("my name is vitoria", ["vitoria"]),
        ("Hello, you can call me vitoria.", ["vitoria"]),
        ("they had 3: leonti, terrence and pamela.", ["leonti", "terrence", "pamela"]),
    ],
)
def test_one_small_word_is_a_name_only_where_names_are_written_small_or_introduced(embedded, text, names):
    assert [held for kind, held in found(embedded, text) if kind == "person" and held.islower()] == names


@pytest.mark.parametrize(("word", "names"), [("root", 0), ("Root", 1)])
def test_one_small_word_is_a_name_only_when_it_surely_is_one(word, names):
    assert len(list(persons(word, [Word(0, 4, 0.6, 0, 0)]))) == names
    assert len(list(persons(word, [Word(0, 4, 0.9, 0, 0)]))) == 1
