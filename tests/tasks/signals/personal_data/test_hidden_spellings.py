"""Personal data is found however it is spelt or marked, with its exact place in the text as it was written."""

import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.privacy_spellings import HALVES, found, messages
from tasks.policy.redact_text import Placeholders, Span, redact_text
from tasks.providers.embedded.pii.patterns import find_patterns
from tasks.providers.embedded.pii.readings import normalised
from tasks.providers.embedded.pii.text_pii import PatternsAndNames, introduced
from tasks.release.contents import identifiers
from tests.tasks.signals.personal_data.test_text_pii import formed

PLAIN = {
    "email": "lena.farrow@example.com", "phone": "+44 20 7946 0958", "card": "4111 1111 1111 1111",
    "iban": "DE89 3704 0044 0532 0130 00", "ip": "203.0.113.45", "national_id": "536-22-8726",
}  # fmt: skip
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
    "Hangul filler": (between("\u3164"), PLAIN),
    "Mongolian variation selector": (between("\u180c"), PLAIN),
    "variation selector of a supplement": (between("\U000e0101"), PLAIN),
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


def redacted(text):
    spans = [Span(span.start, span.end, span.type) for span in find_patterns([text])[0]]
    return redact_text(text, spans, {}, Placeholders())[0]


@pytest.mark.parametrize("name", SPELLINGS)
def test_hidden_data_is_found_exactly_where_it_stands_and_nothing_of_it_is_left_after_redaction(name):
    for kind, written in SPELLINGS[name].items():
        for text in TEXTS:
            assert (kind, written) in formed(text.format(written))
        assert redacted(TEXTS[0].format(written)) == TEXTS[0].format(f"<{kind.upper()}_1>")


UNSHOWN = (
    "00AD 034F 061C 115F-1160 17B4-17B5 180B-180F 200B-200F 202A-202E 2060-206F 3164 FE00-FE0F FEFF FFA0 FFF0-FFF8"
    " 1BCA0-1BCA3 1D173-1D17A E0000-E0FFF"
)
"""Default_Ignorable_Code_Point of Unicode 15."""


def test_every_character_that_is_not_shown_goes():
    spans = [[int(end, 16) for end in span.split("-")] for span in UNSHOWN.split()]
    unshown = [chr(code) for span in spans for code in range(span[0], span[-1] + 1)]
    assert [char for char in unshown if normalised(f"lena@exam{char}ple.com").text != "lena@example.com"] == []


@pytest.mark.parametrize("written", ["lena@example[.]com", "lena\\u0040example.com", "203.0.113[.]45"])
def test_a_column_of_a_release_may_not_hide_an_address(written):
    assert identifiers(f"see {written}")


HARMLESS = [
    "git clone git@github.com:pallets/flask.git", "4 0\n1 1 2 2", "Input\n3 4\n4111 1111\n1111 1112\nOutput\n3",
    "at pH 1 and at pH 14", "5584.645584.64", "x[::2] + x[1::2]", "face::add(dead::beef)", "y = W@x.shape",
    "h = A @ x.to(device)", "icon@2x.png", "2147483648 or 1275785153", "RFC 3513 2.5.6", "02/02/04 02/03/04",
    "x² + y² = 10⁸, and 1–2 of 3–4", "printf('%2d%2d', 41, 42)", "Meet me @ example.com, AT LAST", "r'[a-z]+[.][a-z]+'",
]  # fmt: skip


def test_code_and_mathematics_hold_no_personal_data_and_hardly_a_harmless_message_is_dropped(shares):
    assert {text: formed(text) for text in HARMLESS if formed(text)} == {}
    assert shares["harmless"] <= 0.02


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


@pytest.fixture(scope="module")
def shares():
    """Share found of what is drawn from one seed, by the way of writing; names need the model and are left out."""
    hits, of_all = Counter(), Counter()
    for message in messages(11, 12):
        if message.kind not in HALVES:
            key = message.written if message.end else "harmless"
            spans = find_patterns([message.text])[0]
            hits[key] += found(message, spans) if message.end else bool(spans)
            of_all[key] += 1
    return {key: hits[key] / n for key, n in of_all.items()}


@pytest.mark.parametrize(
    ("written", "least"), [("plain", 0.97), ("marked", 0.95), ("hidden once", 0.9), ("hidden twice", 0.75)]
)
def test_most_of_what_is_drawn_by_rule_is_found(shares, written, least):
    assert shares[written] >= least


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("mail **lena.farrow@example.com**!", "mail **<EMAIL_1>**!"),
        ("call +44 **20** 7946 __0958__ now", "call <PHONE_1>__ now"),
        ("| card | 4111 1111 1111 1111 | ok |", "| card | <CARD_1> | ok |"),
        ("see lena.farrow<!-- not here -->@example.com.", "see <EMAIL_1>."),
        ("<p>4111&nbsp;1111<b>1111</b> 1111</p>", "<p><CARD_1></p>"),
        (r"write \texttt{lena.farrow@example.com}, please", r"write \texttt{<EMAIL_1>}, please"),
        ("IBAN DE89~3704~0044~0532~0130~00.", "IBAN <IBAN_1>."),
        ("to lena%2540example%252Ecom today", "to <EMAIL_1> today"),
        ("to lena&amp;#64;example&amp;#46;com today", "to <EMAIL_1> today"),
        ("4111 · 1111 · 1111 · 1111 is mine", "<CARD_1> is mine"),
        ("'bGVuYUBleGFtcGxlLmNvbQ==' is mine", "'<EMAIL_1>' is mine"),
        ("lena at example dot com or l e n a @ e x a m p l e . c o m", "<EMAIL_1> or <EMAIL_2>"),
    ],
)
def test_redaction_takes_out_the_value_and_nothing_beside_it(text, left):
    assert redacted(text) == left


@pytest.mark.parametrize(
    "text",
    [
        "| 2020 | 7946 | 0958 |\n| 2021 | 8812 | 1120 |", "<tr><td>020</td><td>7946</td><td>0958</td></tr>",
        "1. 4111 1111\n2. 1111 1111\n3. 2222 3333", "* 555\n* 123\n* 4567", "020\t7946\t0958\n021\t8812\t1120",
        "[4111, 1111, 1111, 1111, 1234]", "password = getpass('Password: ')", "password: str = 'example'",
        "api_key = os.environ['API_KEY_NAME']", "token=<your-token>&key=value",
        "Bearer authentication is a basic requirement.", "curl -u $USER:$PASS host", "password: $DB_PASS2 and more",
        "Password:\n* at least 8 characters", "| password: | varchar(64) |",
        "-----BEGIN PRIVATE KEY-----\n...\n-----END PRIVATE KEY-----", "MAC ff:ff:ff:ff:ff:ff",
        "np.array([12.345678, 98.765432])", "x = 1239810624*6**(1/3)*249", "return x + 1\n\n@f.register(float)",
        "The mnemonic words for the planets are easy to keep and to say",
    ],
)  # fmt: skip
def test_numbers_of_different_cells_are_not_joined_and_code_about_secrets_holds_none(text):
    assert find_patterns([text])[0] == []


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("ip", "the adapter a4:89:df:d1:f9:27 fails", "a4:89:df:d1:f9:27"),
        ("address", "my house: 40.71277, -74.00597.", "40.71277, -74.00597"),
        ("address", "we met at 48°51'29.9\"N 2°17'40.2\"E.", "48°51'29.9\"N 2°17'40.2\"E"),
        ("passport", "passport no. 533 380 006 expired", "533 380 006"),
        ("passport", "P<UTOERIKSSON<<ANNA<MARIA<<<<<<<<<<<<<<<<<<<", "P<UTOERIKSSON<<ANNA<MARIA<<<<<<<<<<<<<<<<<<<"),
        ("national_id", "СНИЛС 112-233-445 95", "112-233-445 95"),
        ("national_id", "AHV 756.9217.0769.85", "756.9217.0769.85"),
        ("national_id", "rodné číslo 736028/5163", "736028/5163"),
        ("api_key", "password: tr0ub4dor&3", "tr0ub4dor&3"),
        ("api_key", "password:\n1. tr0ub4dor&3\n2. done", "tr0ub4dor&3"),
        ("api_key", "password: | tr0ub4dor&3 | ok |", "tr0ub4dor&3"),
        ("api_key", 'password: {"value": "tr0ub4dor&3"}', "tr0ub4dor&3"),
        ("api_key", "api_key = $dA3uMgPYSvUed8Fi1H9eum2D$", "dA3uMgPYSvUed8Fi1H9eum2D"),
        ("api_key", "Authorization: Bearer\n* dA3uMgPYSvUed8Fi1H9eum2D", "dA3uMgPYSvUed8Fi1H9eum2D"),
        ("api_key", "Authorization: Basic YWRtaW46aHVudGVyMg==", "YWRtaW46aHVudGVyMg=="),
        ("api_key", "curl -u deploy:s3cr3tW0rd https://x.org", "deploy:s3cr3tW0rd"),
        ("url_credentials", "https://x.org/f?access_token=dA3uMgPYSvUed8Fi1H9eum2D&x=1", "dA3uMgPYSvUed8Fi1H9eum2D"),
    ],
)  # fmt: skip
def test_kinds_of_data_that_had_no_pattern_are_found(kind, text, value):
    assert (kind, value) in formed(text)


def test_a_private_key_is_taken_out_whole():
    key = "-----BEGIN OPENSSH PRIVATE KEY-----\n" + "b3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAEbm9uZQ\n" * 3
    assert redacted(f"why?\n{key}-----END OPENSSH PRIVATE KEY-----\nthanks") == "why?\n<API_KEY_1>\nthanks"


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("person", "Меня зовут Иван Петров, помогите.", "Иван Петров"),
        ("person", "제 이름은 김민준입니다.", "김민준"),
        ("person", "Tôi tên là Nguyễn Văn Hùng.", "Nguyễn Văn Hùng"),
        ("person", "请给王建国写一封信。", "王建国"),
        ("person", "अमित वर्मा को लिखो", "अमित वर्मा"),
        ("person", "اكتب رسالة إلى يوسف الخطيب", "يوسف الخطيب"),
        ("person", "Lütfen Emre Şahin için yaz", "Emre Şahin"),
        ("address", "Мой адрес: г. Казань, ул. Гагарина, д. 43, кв. 7.", "г. Казань, ул. Гагарина, д. 43, кв. 7"),
        ("address", "주소: 서울특별시 강남구 세종대로 46, 2호", "서울특별시 강남구 세종대로 46, 2호"),
        ("address", "Adres: Bağdat Caddesi No: 49, 49230 Bursa", "Bağdat Caddesi No: 49, 49230 Bursa"),
    ],
)
def test_names_and_addresses_that_no_model_reads_are_found_by_their_form(kind, text, value):
    assert (kind, value) in [(span.type, text[span.start : span.end]) for span in introduced(text)]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("Меня зовут | Светлана | Волкова |, помогите.", "Светлана | Волкова"),
        ("اكتب رسالة إلى > يوسف المصري.", "يوسف المصري"),
        ('我叫{"value": "刘伟"},需要帮助。', "刘伟"),
        ("मेरा नाम सुनीता\tवर्मा है।", "सुनीता\tवर्मा"),
        ("제 이름은 \n1. 김은지\n2. done입니다.", "김은지"),
        ("<td class='x'>田中美咲</td>さんに手紙を書いてください。", "田中美咲"),
    ],
)
def test_names_that_marks_part_from_their_phrase_or_title_are_found(text, value):
    (found,) = PatternsAndNames().find_pii([text])
    assert value in [text[span.start : span.end] for span in found if span.type == "person"]


SAID = {
    "en": ("My phone number is", "079", 11, "zero one two three four five six seven eight nine"),
    "de": ("Meine Telefonnummer ist", "0176", 12, "null eins zwei drei vier fünf sechs sieben acht neun"),
    "fr": ("Mon numéro de téléphone est", "06", 10, "zéro un deux trois quatre cinq six sept huit neuf"),
    "es": ("Mi teléfono es", "6", 9, "cero uno dos tres cuatro cinco seis siete ocho nueve"),
}
"""Language -> words before a mobile number, its first digits, its length, and the words of the digits."""


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("language", SAID)
def test_a_number_that_is_said_in_words_alone_is_found_behind_its_word(language, seed):
    draw = random.Random(f"{language} {seed}")
    opening, first_digits, length, words = SAID[language]
    digits = first_digits + "".join(draw.choices("123456789", k=length - len(first_digits)))
    number = draw.choice([" ", ", "]).join(words.split()[int(digit)] for digit in digits)
    text = f"{opening} {number}."
    (span,) = find_patterns([text])[0]
    assert (span.type, text[span.start : span.end]) == ("phone", number)
