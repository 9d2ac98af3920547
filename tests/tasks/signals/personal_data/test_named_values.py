"""Accounts, wallets, plates, births and licences are found behind their words or by their checksums, all by seed."""

import random
import re

import pytest

from benchmarks.spelling_values import NAMED, NATIONAL, wallet
from tasks.providers.embedded.pii.patterns import find_patterns
from tasks.providers.embedded.pii.text_pii import PatternsAndNames, introduced
from tests.tasks.signals.personal_data.test_text_pii import formed

DRAW = random.Random(61)
SAID = ("My {} is {}.", "{}: {}", "Please note: {} {}", "{} = {}", "| {} | {} |", "{} ({})")
ALONE = "see {} there"
LUHN_OR_FORM = ("henkilötunnus", "PAN", "MAC")
"""Kinds that are found without their word, too."""


@pytest.mark.parametrize("word", NAMED)
def test_a_value_is_found_whole_behind_its_word(word):
    for _ in range(25):
        value, text = NAMED[word](DRAW), DRAW.choice(SAID)
        assert value in [found for _, found in formed(text.format(word, value))], text.format(word, value)


SOMEBODYS = ("The {} of my brother is {}.", "My {} (KXT) is {}.", "The {} of the van reads {}", "{} (QVL): {}")
"""Forms that say whose the value is, or give a short form of its name."""


@pytest.mark.parametrize("word", NAMED)
def test_a_value_is_found_behind_whose_it_is_or_a_short_form_of_its_name(word):
    for form in SOMEBODYS:
        value = NAMED[word](DRAW)
        assert value in [found for _, found in formed(form.format(word, value))], form.format(word, value)


PLATES = ("My car's registration is {}.", "The registration of my van is {}.", "my reg: {}", "His taxi's number is {}")


@pytest.mark.parametrize("form", PLATES)
def test_a_plate_is_found_behind_the_registration_of_somebodys_vehicle(form):
    for _ in range(10):
        plate = NAMED["car number"](DRAW)
        assert plate in [found for _, found in formed(form.format(plate))], form.format(plate)


@pytest.mark.parametrize("word", [word for word in NAMED if word not in LUHN_OR_FORM])
def test_a_value_without_its_word_is_a_thing(word):
    kinds = [kind for _ in range(25) for kind, _ in formed(ALONE.format(NAMED[word](DRAW)))]
    assert sum(kind not in ("phone", "card") for kind in kinds) <= 3  # long numbers may be something else by chance


def changed(value, places):
    """The value with one digit of these places changed."""
    place = DRAW.choice([at for at in places if value[at].isdigit()])
    return value[:place] + str((int(value[place]) + DRAW.randint(1, 9)) % 10) + value[place + 1 :]


def test_a_wrong_check_digit_is_no_routing_number_finnish_or_korean_number():
    for _ in range(100):
        wrong = changed(NAMED["routing number"](DRAW), range(9))
        assert "iban" not in [kind for kind, _ in formed(f"routing number {wrong}")]
        wrong = changed(NAMED["henkilötunnus"](DRAW), range(7, 10))
        assert "-" in wrong or "national_id" not in [kind for kind, _ in formed(ALONE.format(wrong))]
        number = NAMED["주민등록번호"](DRAW)
        assert ("national_id", number) in formed(f"제 번호 {number} 입니다")
        assert "national_id" not in [kind for kind, _ in formed(f"제 번호 {changed(number, range(12, 13))} 입니다")]


def test_a_wallet_is_found_by_its_checksum_and_one_without_only_behind_a_word():
    for _ in range(200):
        address = wallet(DRAW)
        assert ("iban", address) in formed(f"Send it to my wallet {address}, please")
        has_checksum = not address.startswith("0x")
        assert [kind for kind, _ in formed(ALONE.format(address))] == ["iban"] * has_checksum
        assert formed(f"the contract of the token {address}") == [("iban", address)] * has_checksum
        place, sign = DRAW.randrange(6, len(address)), DRAW.choice("cdfhjkz")
        if has_checksum and address[place] != sign:
            assert formed(ALONE.format(address[:place] + sign + address[place + 1 :])) == []


ORDINARY = (
    "The routing number has 9 digits.", "routing number 123456789", "Your account number has {n} digits.",
    "account number: 1234567890", "In {y} many number plates were sold.", "number plate {n}",
    "the date of birth is required", "Einstein was born on 14 March 1879.", "date of birth: 14 March 1879",
    "date of birth: 01/01/1990", "DOB: DD/MM/YYYY", "date of birth: 31/31/1990", "He was born on 3 May {y}.",
    "Truck Number: A0{n}40", "the registration number is CS-{n}-21", "the birthday party is on day {n}",
    "PAN is a kind of bread, 5 pans",
    "die Kontonummer hat {n} Stellen", "a block hash 0x" + "ab12" * 10,
    "1710156326507 밀리초", "sort code: quick",
    "Patent US{n}1234 is old", "the patente is new", "the plate weighs {n} g", "0012.3456.7890 is a number",
)  # fmt: skip


@pytest.mark.parametrize("text", ORDINARY)
def test_ordinary_numbers_beside_the_same_words_are_left_alone(text):
    for _ in range(5):
        said = text.format(n=DRAW.randint(2, 99), y=DRAW.randint(1950, 2020))
        assert [found for found in formed(said) if found[0] != "phone"] == []


def test_a_number_is_named_by_its_country():
    for country in ("CN", "UK", "US", "DE", "IN"):
        number = f"138{DRAW.randint(10**7, 10**8 - 1)}"
        assert ("phone", number) in formed(f"My {country} number is {number}")
        assert "phone" not in [kind for kind, _ in formed(f"My ID number is {number}")][:1]


NAMES = {
    "Ukrainian": (("Мене звати {}, допоможіть.", "Моє ім'я {}.", "Напишіть листа: шановний пане {}!"),
                  ("Оксана Шевченко", "Тарас Бондар", "Юлія Ґалаґан"),
                  ("Як мене звати?", "Моє ім'я важливе для мене.")),
    "Greek": (("Με λένε {} και μένω εδώ.", "Το όνομά μου είναι {}.", "Γράψε στην κυρία {}."),
              ("Γιώργος Παπαδόπουλος", "Ελένη Νικολάου", "Άννα Δήμου"), ("Πώς με λένε;", "Το όνομά μου είναι μικρό.")),
    "Persian": (("نام من {} است", "اسم من {} است و سوالی دارم", "نامه‌ای به آقای {}."),
                ("علی رضایی", "مریم کریمی", "پرویز گودرزی"), ("نام من چیست؟", "اسم من را بگو")),
    "Hebrew": (("שמי {} ואני גר בחיפה", "קוראים לי {}.", "מכתב אל גברת {}."),
               ("דוד כהן", "רחל לוי", "יעל בן-עמי"), ("מה שמי?", "שמי לא חשוב")),
    "Bengali": (("আমার নাম {}।", "আমার নাম {} এবং আমি ছাত্র", "জনাব {}, শুভেচ্ছা"),
                ("রহিম উদ্দিন", "সুমাইয়া আক্তার", "অনিক দাস"), ("আমার নাম কি?", "আমার নাম কী")),
    "Tamil": (("என் பெயர் {}.", "எனது பெயர் {} மற்றும் நான் மாணவர்", "பெயர்: {}"),
              ("குமார் ராஜா", "மீனா சுந்தரம்", "அருண் செல்வன்"), ("என் பெயர் என்ன?", "எனது பெயர் என்ன")),
    "Thai": (("ผมชื่อ{}ครับ", "ฉันชื่อ {} ค่ะ", "ชื่อของฉันคือ{} และ"),
             ("สมชาย ใจดี", "มาลี ทองดี", "ประเสริฐ วงศ์ใหญ่"), ("ผมชื่ออะไร", "นายกรัฐมนตรี คนใหม่")),
    "Amharic": (("ስሜ {} ነው።", "የእኔ ስም {} ነው", "ለአቶ {}።"),
                ("አበበ ከበደ", "ሰላም ተስፋዬ", "ዳዊት መኮንን"), ("ስሜ ማን ነው?", "የእኔ ስም ምን ነው")),
}  # fmt: skip
"""Language -> phrases, invented names, and questions that hold no name."""


@pytest.mark.parametrize("language", NAMES)
def test_a_name_behind_a_phrase_is_found_in_its_script(language):
    phrases, names, _ = NAMES[language]
    for phrase in phrases:
        for name in names:
            text = phrase.format(name)
            assert name in [text[span.start : span.end] for span in introduced(text)], text


@pytest.mark.parametrize("language", NAMES)
def test_a_question_holds_no_name_behind_a_phrase(language):
    _, _, questions = NAMES[language]
    assert [text for text in questions if list(introduced(text))] == []


def test_names_of_every_script_are_persons_of_the_whole_finder():
    texts = [phrases[0].format(names[0]) for phrases, names, _ in NAMES.values()]
    assert [[span.type for span in spans] for spans in PatternsAndNames().find_pii(texts)] == [["person"]] * len(texts)


def test_a_german_health_insurance_number_is_drawn_with_its_check_digit():
    assert re.fullmatch(r"[A-Z]\d{9}", NAMED["Krankenversichertennummer"](DRAW))
    assert not NATIONAL.keys() & NAMED.keys() - {"주민등록번호"}
    assert find_patterns(["Krankenversichertennummer A000500015"])[0]


MY_NUMBER = {
    "mon numéro est le {}": "06 {} {} {} {}", "votre numero: {}": "06 {} {} {} {}",
    "meine Nummer ist {}": "0176 {}{}{}",
    "deine Nr. lautet {}": "0151 {}{}{}{}", "mi número es {}": "6{} {}1 {}2", "tu numero es el {}": "6{} {}1 {}2",
    "il mio numero è {}": "347 {}{}{}9", "o meu número é {}": "91{} {}3 {}4", "mijn nummer is {}": "06 {}{}{}{}",
    "mój numer to {}": "6{} {}1 {}2", "мой номер {}": "8 9{} {}1-{}-{}",
    "mitt nummer är {}": "070-{}1 {} {}", "我的号码是{}": "138{}{}{}{}", "私の番号は{}": "090-{}{}-{}{}",
}  # fmt: skip
"""Phrase of somebody's number -> its form, pairs of digits in the braces."""


@pytest.mark.parametrize("phrase", MY_NUMBER)
def test_a_number_that_is_somebodys_is_a_telephone_number_without_a_word_for_telephones(phrase):
    form = MY_NUMBER[phrase]
    for _ in range(20):
        number = form.format(*(DRAW.randint(10, 99) for _ in range(form.count("{}"))))
        assert ("phone", number) in formed(f"Hallo, {phrase.format(number)}!"), number
