"""Personal data is found between marks, with its exact place; numbers that do not belong together are not joined."""

from collections import Counter

import pytest

from benchmarks.privacy_spellings import HALVES, found, messages
from tasks.policy.redact_text import Placeholders, Span, redact_text
from tasks.providers.embedded.pii.introduced import introduced
from tasks.providers.embedded.pii.patterns import find_patterns
from tasks.providers.embedded.pii.text_pii import PatternsAndNames

WORK_SEED = 11


def redacted(text):
    spans = [Span(span.start, span.end, span.type) for span in find_patterns(text)]
    return redact_text(text, spans, {}, Placeholders())[0]


@pytest.fixture(scope="module")
def shares():
    """Share found of what is drawn from one seed, by the way of writing; names need the model and are left out."""
    hits, of_all = Counter(), Counter()
    for message in messages(WORK_SEED, 12):
        if message.kind not in HALVES:
            key = message.written if message.end else "harmless"
            spans = list(find_patterns(message.text))
            hits[key] += found(message, spans) if message.end else bool(spans)
            of_all[key] += 1
    return {key: hits[key] / n for key, n in of_all.items()}


@pytest.mark.parametrize(
    ("written", "least"), [("plain", 0.97), ("marked", 0.95), ("hidden once", 0.9), ("hidden twice", 0.75)]
)
def test_most_of_what_is_drawn_by_rule_is_found(shares, written, least):
    assert shares[written] >= least


def test_hardly_a_harmless_message_is_dropped(shares):
    assert shares["harmless"] <= 0.02


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
        "| 2020 | 7946 | 0958 |\n| 2021 | 8812 | 1120 |",
        "<tr><td>020</td><td>7946</td><td>0958</td></tr>",
        "1. 4111 1111\n2. 1111 1111\n3. 2222 3333",
        "* 555\n* 123\n* 4567",
        "020\t7946\t0958\n021\t8812\t1120",
        "[4111, 1111, 1111, 1111, 1234]",
    ],
)
def test_numbers_of_different_cells_and_items_are_not_joined(text):
    assert list(find_patterns(text)) == []


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
    assert (kind, value) in [(span.type, text[span.start : span.end]) for span in find_patterns(text)]


def test_a_private_key_is_taken_out_whole():
    key = "-----BEGIN OPENSSH PRIVATE KEY-----\n" + "b3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAEbm9uZQ\n" * 3
    assert redacted(f"why?\n{key}-----END OPENSSH PRIVATE KEY-----\nthanks") == "why?\n<API_KEY_1>\nthanks"


@pytest.mark.parametrize(
    "text",
    [
        "password = getpass('Password: ')", "password: str = 'example'", "api_key = os.environ['API_KEY_NAME']",
        "token=<your-token>&key=value", "Bearer authentication is a basic requirement.", "curl -u $USER:$PASS host",
        "password: $DB_PASS2 and more", "Password:\n* at least 8 characters", "| password: | varchar(64) |",
        "-----BEGIN PRIVATE KEY-----\n...\n-----END PRIVATE KEY-----", "MAC ff:ff:ff:ff:ff:ff",
        "np.array([12.345678, 98.765432])",
        "x = 1239810624*6**(1/3)*249", "return x + 1\n\n@f.register(float)",
        "The mnemonic words for the planets are easy to keep and to say",
    ],
)  # fmt: skip
def test_code_about_secrets_holds_none(text):
    assert list(find_patterns(text)) == []


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
