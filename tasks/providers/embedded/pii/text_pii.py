"""Personal data in texts: patterns with checksums first, then a model for names and addresses.

The model (names.py) reads Latin script only. Names in other scripts, and addresses of their countries, are found by the
phrases, titles and family names below or not at all.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property

from schemas.signals import PiiSpan
from tasks.providers.embedded.pii.names import NameFinder, weights_folder
from tasks.providers.embedded.pii.numbers import SHAPED
from tasks.providers.embedded.pii.patterns import matches
from tasks.providers.embedded.pii.readings import Reading, in_one_line, readings

INTRODUCED = 0.7
"""Confidence of a name that a phrase or a title introduces."""

_WORD = r"(?=[^\W\d_a-z])[^\W\d_]+(?:[-'’][^\W\d_]+)*"
_PARTICLE = r"(?:van|von|de|del|della|di|da|dos|den|der|la|le|el|al|bin|ibn|zu|ten|ter)"
_LATIN_NAME = rf"(?P<data>{_WORD}(?:[ ](?:{_PARTICLE}(?=[ ])|[^\W\d_a-z]\.(?=[ ])|{_WORD})){{1,4}})"
_INTRODUCED = (
    r"(?<!\w)(?i:my (?:full )?name is|i am called|mein name ist|ich hei(?:ß|ss)e|je m['’]appelle|mon nom est|me llamo"
    r"|mi nombre es|mi chiamo|il mio nome è|meu nome é|me chamo|mijn naam is|ik heet|ik ben|nazywam się|jestem"
    r"|jag heter|mitt namn är|jeg heter|jeg hedder|(?:benim )?adım|ismim|tôi tên là|tên tôi là|họ (?:và )?tên:?"
    r"|t\.a\.v\.|t\.n\.v\.|z\. ?hd\.|kontoinhaber(?:in)?:?|intestato a)[ ]"
)
_TITLED = re.compile(
    r"(?<!\w)(?:Mr|Mrs|Ms|Dr|Prof|Herrn?|Frau|Madame|Mme|Monsieur|Señora?|Sra?|Signora?|Pan[ia]|Mevrouw)\.? "
    rf"(?P<data>{_WORD}(?:[ ]{_WORD}){{0,2}})"
)
_KANJI = r"[\u4e00-\u9fff々]"
_CHINESE = (
    r"(?:我叫|我的名字[是叫]|姓名[::是]|联系人[::是]?|收件人[::是]?)[\s*|]{0,4}"
    rf"(?P<data>{_KANJI}{{2,4}}?)(?=[,。、,.\s;;!!的|]|\Z)"
)
_KANA = r"[\u4e00-\u9fff々\u3041-\u3093\u30a1-\u30fc]"
_JAPANESE = (
    r"(?:名前は|氏名[::は]|名前[::])\s?"
    rf"(?P<data>{_KANA}{{1,6}}?[ \u3000]?{_KANA}{{1,6}}?)(?=\s?です|と申|といい|[。、,\n]|\Z)"
)
_HONOURED = (
    rf"(?<!{_KANJI})(?!皆|客|母|父|兄|姉|娘|奥|患者|神|仏)"
    rf"(?P<data>{_KANJI}{{2,3}}(?:[ \u3000]?{_KANJI}{{1,3}})?) ?(?:様|さん)"
)
_HINDI = r"मेरा नाम (?P<data>[\u0900-\u097f’']+(?: [\u0900-\u097f’']+){0,3}?)(?= है)"
_ARABIC = r"(?:اسمي|إسمي|أنا اسمي|الاسم:) (?P<data>(?!هو )[\u0621-\u064a]+(?: (?!و)[\u0621-\u064a]+){1,2})"
_CYRILLIC = r"[А-ЯЁ][а-яё]+"
_RUSSIAN = (
    rf"(?:[Мм]еня зовут|[Мм]о[её] имя|ФИО:?|[Оо]т имени|[Уу]важаем(?:ый|ая)) (?P<data>{_CYRILLIC}(?:[ -]{_CYRILLIC})"
    rf"{{0,2}})"
)
_RUSSIAN_FAMILY = (
    rf"(?<!ул\. )(?P<data>{_CYRILLIC} {_CYRILLIC}(?:вич|вна|ов|ев|ин|ский|ская|енко)(?:а|у|ым|ой|у|ом|ого|ому)?)(?!\w)"
)
_KOREAN = r"(?:이름은|이름:|성명:|저는)[\s*|$]{0,4}(?P<data>[가-힣]{2,4}?)(?=입니다|이에요|예요|이고|라고|[ ,.\n|$]|\Z)"
_KOREAN_FAMILY = (
    r"(?<![가-힣])(?P<data>[김이박최정강조윤장임한오서신권황안송류전홍고문양손배백허유남심노하곽성차주우구민][가-힣"
    r"]{1,2}) ?(?=씨|님(?!들)|선생님)"
)
_CHINESE_FAMILY = (
    r"(?:给|致|联系|找|问)[\s*|]{0,4}(?P<data>[王李张刘陈杨黄赵吴周徐孙马朱胡郭何林高罗郑梁谢宋唐许韩邓冯曹彭曾肖田"
    r"董潘袁蔡蒋余杜叶程魏苏吕丁]"
    rf"{_KANJI}{{1,2}})(?=写|发|打|先生|女士|寄|说|[,,。|\s])"
)
_VIETNAMESE = (
    r"(?<!đường )(?<!phố )(?P<data>(?:Nguyễn|Trần|Phạm|Hoàng|Huỳnh|Phan|Vũ|Võ|Đặng|Bùi|Đỗ|Ngô|Dương)(?: [A-ZÀ-ỸĐ][a"
    r"-zà-ỹđ]+){1,3})"
)
_HINDI_FAMILY = (
    r"(?P<data>[\u0900-\u097f]+ (?:शर्मा|वर्मा|गुप्ता|सिंह|यादव|मिश्रा|कुमार|पटेल|जोशी|तिवारी|चौहान|अग्रवाल|पांडे"
    r"|खान|दुबे|चौधरी|मेहता|नायर"
    r"|रेड्डी|देवी|कौर))(?![\u0900-\u097f])"
)
_ARABIC_TITLED = (
    r"(?:رسالة إلى|خطاب إلى|السيدة?|الأستاذة?|الدكتورة?) (?P<data>(?!ال)[\u0621-\u064a]+ (?:بن |ال)?[\u0621-\u064a]+)"
)
_TURKISH_TITLED = (
    r"(?P<data>[A-ZÇĞİÖŞÜ][a-zçğıöşü]+ [A-ZÇĞİÖŞÜ][a-zçğıöşü]+)(?=[`$*]{0,2} (?:için|adına|Bey|Hanım)(?!\w))"
)


def _uncased(phrases: str, letters: str, no_name: str, most: int = 3) -> str:
    """Pattern of a name behind a phrase, in a script without capitals: up to `most` words, none in `no_name`."""
    word = rf"(?!(?:{no_name})(?![{letters}]))[{letters}]{{2,}}"
    return rf"(?<![{letters}])(?:{phrases})[\s*|:]{{1,4}}(?P<data>{word}(?: {word}){{0,{most - 1}}})"


_UKRAINIAN_WORD, _GREEK_WORD = r"[А-ЯІЇЄҐ][а-яіїєґ'’ʼ]+", r"[Α-ΩΆΈΉΊΌΎΏ][α-ωάέήίόύώϊϋΐΰς]+"
_UKRAINIAN = (
    r"(?:[Мм]ене (?:звати|звуть)|[Мм]о[єе] ім['’ʼ]я|[Яя]к мене звати:|ПІБ:?|[Шш]ановн(?:ий|а)(?: пане?і?)?"
    rf"|(?<!\w)[Пп]ан(?:і|е|а|у|ові)?) (?P<data>{_UKRAINIAN_WORD}(?:[ -]{_UKRAINIAN_WORD}){{0,2}})"
)
_GREEK = (
    r"(?:[Μμ]ε λένε|[Λλ]έγομαι|[Οο]νομάζομαι|[Οο]νομά μου είναι|όνομά μου είναι|Όνομα:|Ονοματεπώνυμο:"
    r"|(?<!\w)[Κκ]ύρι[οε]ς?"
    rf"|(?<!\w)[Κκ]υρία|(?<!\w)[Κκ]\.) (?P<data>{_GREEK_WORD}(?:[ -]{_GREEK_WORD}){{0,2}})"
)
_PERSIAN = _uncased(
    "نام من|اسم من|اسمم|نامم|نام و نام خانوادگی|آقای|خانم", r"\u0621-\u064a\u067e-\u06cc",
    "است|هست|هستم|چیست|چه|کیست|را|و|در|از|به|با|که|این|آن|محترم|عزیز|می|برای|لطفا|ساکن|متولد",
)  # fmt: skip
_HEBREW = _uncased(
    "שמי|קוראים לי|השם שלי|השם שלי הוא|שם מלא|שמי המלא|ל?מר|ל?גב['׳’]|ל?גברת|ד[\"״]ר", r"\u05d0-\u05ea'׳-",
    "הוא|היא|ואני|אני|מה|לא|גר|גרה|בן|בת|של|על|את|עם|יש|זה|וגר|וגרה|ויש|ומספר|ורציתי",
)  # fmt: skip
_BENGALI = _uncased(
    "আমার নাম|নাম|জনাব|শ্রী|শ্রীমতী|মোঃ", r"\u0980-\u09ff", "কি|কী|কে|এবং|আমি|আর|থেকে|হল|হলো|হচ্ছে|ও|না|আমার|একটি|কেন"
    "|দিন|বলুন"
)  # fmt: skip
_TAMIL = _uncased(
    r"என் பெயர்|எனது பெயர்|பெயர்|திரு\.?|திருமதி\.?", r"\u0b80-\u0bff", "என்ன|நான்|மற்றும்|ஆகும்|எது|என்று|என்|எனது"
    r"|இல்லை|உள்ளது"
)  # fmt: skip
_AMHARIC = _uncased(
    "ስሜ|የእኔ ስም|ስም|[ለየከበ]?አቶ|[ለየከበ]?ወይዘሮ|ወ/ሮ|ወይዘሪት|ዶ/ር", r"\u1200-\u135a",
    "ነው|ነኝ|ማን|ማነው|ምን|እና|እባላለሁ|ይባላል|ሆይ|አይደለም",
)  # fmt: skip
_THAI_WORD = r"[\u0e01-\u0e3a\u0e40-\u0e4e]"
_THAI = (
    rf"(?:(?:ผม|ฉัน|ดิฉัน|หนู|เรา)(?:มี)?ชื่อ(?:ว่า)?|ชื่อของ(?:ผม|ฉัน|ดิฉัน)คือ|ชื่อ:|(?<!{_THAI_WORD})(?:นางสาว"
    rf"|นาย(?!ก)|นาง(?!สาว)))\s?"
    rf"(?!อะไร|ว่าอะไร|เล่น|นี้|นั้น)(?P<data>{_THAI_WORD}{{2,20}}?(?: (?!อายุ|อยู่|เป็น|และ|มา|จาก|เบอร์|ครับ|ค่ะ"
    rf"|คะ){_THAI_WORD}{{2,20}}?)?)"
    r"(?=ครับ|ค่ะ|คะ|นะ|และ|[\s.,!?]|\Z)"
)
_NAMES = tuple(
    re.compile(form)
    for form in (
        _INTRODUCED + _LATIN_NAME, _CHINESE, _CHINESE_FAMILY, _JAPANESE, _HONOURED, _HINDI, _HINDI_FAMILY, _ARABIC,
        _ARABIC_TITLED, _RUSSIAN, _RUSSIAN_FAMILY, _KOREAN, _KOREAN_FAMILY, _VIETNAMESE, _TURKISH_TITLED,
        _UKRAINIAN, _GREEK, _PERSIAN, _HEBREW, _BENGALI, _TAMIL, _AMHARIC, _THAI,
    )
)  # fmt: skip
"""Names behind a phrase or before a title, and given names beside a frequent family name."""

_TEXT = r"[\u4e00-\u9fff々\u3041-\u3093\u30a1-\u30fcA-Za-z]"
_NUMERAL = r"[0-90-9一二三四五六七八九十]"
_ADDRESSES = tuple(
    re.compile(form)
    for form in (
        rf"(?:北海道|東京都|京都府|大阪府|{_KANJI}{{2,3}}県){_TEXT}{{1,24}}{_NUMERAL}{{1,4}}(?:丁目|番|-|-|の)"
        rf"(?:{_NUMERAL}|丁目|番地?|号|-|-|の){{0,12}}(?:[ \u3000]?{_TEXT}{{2,16}}\d{{1,4}}(?:号室)?)?",
        rf"{_KANJI}{{2,8}}(?:省|自治区|市|县|区){_TEXT}{{1,30}}?(?:路|街|巷|大道|胡同|弄|村)[0-9A-Za-z]{{1,5}}"
        r"(?:号楼?|座|弄|室|栋|幢|单元|楼){1,2}(?:\d{1,5}(?:室|号)?)?(?:[ ]?\d{6}(?!\d))?",
        r"(?:(?:\d{6}, ?)?(?:г\.|город)[ \t]{0,3}[А-ЯЁ][а-яё-]+,[ \t]{0,3})?(?:ул\.|улиц[аеы]|пр(?:осп)?\.|проспект"
        r"[е]?|пер\.|переулок|наб\.|шоссе|бульвар"
        r"|пл\.|площадь)[ \t]{0,3}[А-ЯЁ0-9][А-Яа-яё .-]{2,30}?,?[ \t]{1,3}(?:д\.|дом)?[ \t]{0,3}\d{1,4}[а-я]?(?:,?["
        r" \t]{0,3}(?:к\.|корп\.|стр\.|кв\.|квартира|оф\.)[ \t]{0,3}\d{1,4}){0,3}",
        r"(?:[가-힣]{1,7}(?:시|도|군|구) ){1,3}(?:[가-힣]{1,5}(?:동|읍|면) )?[가-힣0-9]{1,10}(?:로|길) ?\d{1,4}"
        r"(?:-\d{1,4})?(?:번길 ?\d{1,4})?(?:,? ?\d{1,4}(?:동|호|층)){0,3}",
        r"(?:شارع|طريق|حي) [\u0621-\u064a ]{2,30}?[،,]? ?(?:مبنى|رقم|عمارة|بناية|منزل|فيلا|شقة) ?\d{1,5}(?:[،,] [\u"
        r"0621-\u064a]{2,20}){0,2}",
        r"(?:मकान|घर|फ्लैट|प्लॉट) (?:नंबर|नं\.?|संख्या) ?\d{1,5}[,/]?[\u0900-\u097f ,/0-9-]{2,60}?(?:रोड|मार्ग"
        r"|गली|नगर|कॉलोनी|सड़क|विहार)"
        r"(?:,? [\u0900-\u097f]+)?(?:[ -]{1,3}\d{6})?",
        r"[A-ZÇĞİÖŞÜ]\w+(?: \w+){0,3} (?:Caddesi|Cad\.|Sokağı|Sokak|Sok\.|Sk\.|Bulvarı|Mahallesi|Mah\.)[\w .]{0,40}"
        r"?[, ]{1,2}(?:No|Numara) ?[:.]? ?\d{1,4}"
        r"(?:/\d{1,4})?(?:[, ]{1,2}\d{5})?(?: [A-ZÇĞİÖŞÜ]\w+)?",
    )
)


def introduced(text: str) -> Iterator[PiiSpan]:
    """Addresses in the forms of their countries, then names behind a phrase or beside a frequent family name."""
    for kind, forms in (("address", _ADDRESSES), ("person", _NAMES)):
        for form in forms:
            part = "data" if "data" in form.groupindex else 0
            for match in form.finditer(text):
                yield PiiSpan(type=kind, start=match.start(part), end=match.end(part), confidence=INTRODUCED)


def titled(text: str) -> Iterator[PiiSpan]:
    """Names after a title. Use after addresses, because `Dr` may also be a drive, followed by a town."""
    for match in _TITLED.finditer(text):
        yield PiiSpan(type="person", start=match.start("data"), end=match.end("data"), confidence=INTRODUCED)


_SURROGATE = re.compile("[\ud800-\udfff]")
"""Unpaired surrogates, which UTF-8 cannot encode; they are replaced by U+FFFD."""


class PatternsAndNames:
    """Finds personal data in the whole text, whatever its length."""

    version = f"patterns-26+{NameFinder.version}"

    def __init__(self) -> None:
        weights_folder()  # what is missing is said before a run begins; the model is loaded with the first text

    @cached_property
    def _names(self) -> NameFinder:
        return NameFinder()

    def find_pii(self, texts: Sequence[str]) -> list[list[PiiSpan]]:
        """Spans of every text, in order, without overlaps."""
        text_readings = readings([_SURROGATE.sub("\ufffd", text) for text in texts])
        return [
            self._find(of_text, formed) for of_text, formed in zip(text_readings, matches(text_readings), strict=True)
        ]

    def _find(self, text_readings: Sequence[Reading], formed: Sequence[PiiSpan]) -> list[PiiSpan]:
        """Spans by precedence: certain patterns, then names and addresses, then numbers that only look like a phone."""
        unmarked = [reading for reading in text_readings if not reading.strict][-1]
        sure = [span for span in formed if span.confidence > SHAPED]
        text, line = unmarked.text, in_one_line(unmarked)
        names = [*introduced(text), *self._names.find_names(text), *titled(text)]
        named_spans = [
            *map(unmarked.original, names),
            *map(line.original, introduced(line.text) if line is not unmarked else ()),
        ]
        return without_overlaps([*sure, *named_spans, *(s for s in formed if s.confidence <= SHAPED)])


def without_overlaps(spans: Iterable[PiiSpan]) -> list[PiiSpan]:
    """Spans in order of position; overlapping spans of one type are merged, otherwise the first given stays.

    A name or address that overlaps an earlier span of another type keeps the rest of its text.
    """
    kept: list[PiiSpan] = []
    for span in spans:
        rivals = [other for other in kept if span.start < other.end and other.start < span.end]
        if all(other.type == span.type for other in rivals):
            kept = [other for other in kept if other not in rivals]
            kept.append(_hull([span, *rivals]))
        elif span.type in _PARTLY:
            kept += _rest(span, rivals)
    return sorted(kept, key=lambda span: span.start)


_PARTLY = ("person", "address")


def _hull(spans: Sequence[PiiSpan]) -> PiiSpan:
    return PiiSpan(
        type=spans[0].type,
        start=min(span.start for span in spans),
        end=max(span.end for span in spans),
        confidence=max(span.confidence for span in spans),
    )


def _rest(span: PiiSpan, rivals: Sequence[PiiSpan]) -> list[PiiSpan]:
    """The parts of a span that no rival covers."""
    edges = [span.start, *(edge for r in sorted(rivals, key=lambda r: r.start) for edge in (r.start, r.end)), span.end]
    parts = zip(edges[::2], edges[1::2], strict=True)
    return [span.model_copy(update={"start": start, "end": end}) for start, end in parts if end - start > 2]
