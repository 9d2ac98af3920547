"""Names that a phrase introduces, and addresses of China and Japan: what the model for Latin script does not see."""

import re
from collections.abc import Iterator

from schemas.signals import PiiSpan

CONFIDENCE = 0.7

_WORD = r"(?=[^\W\d_a-z])[^\W\d_]+(?:[-'’][^\W\d_]+)*"
_PARTICLE = r"(?:van|von|de|del|della|di|da|dos|den|der|la|le|el|al|bin|ibn|zu|ten|ter)"
_LATIN_NAME = rf"(?P<data>{_WORD}(?:[ ](?:{_PARTICLE}(?=[ ])|[^\W\d_a-z]\.(?=[ ])|{_WORD})){{1,4}})"
_INTRODUCED = (
    r"(?<!\w)(?i:my (?:full )?name is|i am called|mein name ist|ich hei(?:ß|ss)e|je m['’]appelle|mon nom est|me llamo"
    r"|mi nombre es|mi chiamo|il mio nome è|meu nome é|me chamo|mijn naam is|ik heet|ik ben|nazywam się|jestem"
    r"|jag heter|mitt namn är|jeg heter|jeg hedder|t\.a\.v\.|t\.n\.v\.|z\. ?hd\.|kontoinhaber(?:in)?:?|intestato a)[ ]"
)
_TITLED = re.compile(
    r"(?<!\w)(?:Mr|Mrs|Ms|Dr|Prof|Herrn?|Frau|Madame|Mme|Monsieur|Señora?|Sra?|Signora?|Pan[ia]|Mevrouw)\.? "
    rf"(?P<data>{_WORD}(?:[ ]{_WORD}){{0,2}})"
)
_KANJI = r"[\u4e00-\u9fff々]"
_CHINESE = (
    r"(?:我叫|我的名字[是叫]|姓名[::是]|联系人[::是]?|收件人[::是]?)\s?"
    rf"(?P<data>{_KANJI}{{2,4}}?)(?=[,。、,.\s;;!!的]|\Z)"
)
_KANA = r"[\u4e00-\u9fff々\u3041-\u3093\u30a1-\u30fc]"
_JAPANESE = (
    r"(?:名前は|氏名[::は]|名前[::])\s?"
    rf"(?P<data>{_KANA}{{1,6}}?[ \u3000]?{_KANA}{{1,6}}?)(?=です|と申|といい|[。、,\n]|\Z)"
)
_HONOURED = (
    rf"(?<!{_KANJI})(?!皆|客|母|父|兄|姉|娘|奥|患者|神|仏)"
    rf"(?P<data>{_KANJI}{{2,3}}(?:[ \u3000]?{_KANJI}{{1,3}})?)(?:様|さん)"
)
_HINDI = r"मेरा नाम (?P<data>[\u0900-\u097f’']+(?: [\u0900-\u097f’']+){0,3}?)(?= है)"
_ARABIC = r"(?:اسمي|إسمي|أنا اسمي|الاسم:) (?P<data>(?!هو )[\u0621-\u064a]+(?: (?!و)[\u0621-\u064a]+){1,2})"
_NAMES = tuple(
    re.compile(form) for form in (_INTRODUCED + _LATIN_NAME, _CHINESE, _JAPANESE, _HONOURED, _HINDI, _ARABIC)
)

_TEXT = r"[\u4e00-\u9fff々\u3041-\u3093\u30a1-\u30fcA-Za-z]"
_NUMERAL = r"[0-90-9一二三四五六七八九十]"
_ADDRESSES = tuple(
    re.compile(form)
    for form in (
        rf"(?:北海道|東京都|京都府|大阪府|{_KANJI}{{2,3}}県){_TEXT}{{1,24}}{_NUMERAL}{{1,4}}(?:丁目|番|-|-|の)"
        rf"(?:{_NUMERAL}|丁目|番地?|号|-|-|の){{0,12}}(?:[ \u3000]?{_TEXT}{{2,16}}\d{{1,4}}(?:号室)?)?",
        rf"{_KANJI}{{2,8}}(?:省|自治区|市|县|区){_TEXT}{{1,30}}?(?:路|街|巷|大道|胡同|弄|村)[0-9A-Za-z]{{1,5}}"
        r"(?:号楼?|座|弄|室|栋|幢|单元|楼){1,2}(?:\d{1,5}(?:室|号)?)?(?:[ ]?\d{6}(?!\d))?",
    )
)


def introduced(text: str) -> Iterator[PiiSpan]:
    """Addresses, then names, by their own form and by the words that introduce them."""
    for kind, forms in (("address", _ADDRESSES), ("person", _NAMES)):
        for form in forms:
            part = "data" if "data" in form.groupindex else 0
            for match in form.finditer(text):
                yield PiiSpan(type=kind, start=match.start(part), end=match.end(part), confidence=CONFIDENCE)


def titled(text: str) -> Iterator[PiiSpan]:
    """Names behind a title; a word behind `Dr` may as well be the town behind a drive, so addresses go first."""
    for match in _TITLED.finditer(text):
        yield PiiSpan(type="person", start=match.start("data"), end=match.end("data"), confidence=CONFIDENCE)
