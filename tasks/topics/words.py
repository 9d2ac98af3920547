"""Words that may name a topic, in any language: no function words, no numbers, nothing that only one person typed.

Formulas, code, markup and links are not read, for their words name no topic.
"""

import json
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable
from functools import cache
from importlib.resources import files

import budoux
import stopwordsiso

CHARACTERS = 2000
"""Characters of each prompt that are read."""
WORD_CHARACTERS_MAX = 24
"""Longer runs of letters are keys, links and mistyped text."""
PEOPLE_MIN = 2
"""A word that fewer people used in a topic may be a name, a token or an id."""
_UNSPACED = re.compile(r"[\u0e00-\u0e7f]+|[\u3005-\u3007\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]+")
_KANA, _HIRAGANA_ALONE = re.compile(r"[\u3040-\u30ff]"), re.compile(r"[\u3040-\u309f]+")
_CONTRACTED = re.compile(r"['’](?:s|t|d|m|re|ve|ll)\b")
_OF_EVERY_PROMPT = """answer answers below choices choose correct description did does doesn doing don explain figure
following given hello image images isn just know let like look make need option options photo photos picture pictures
please possible provide question questions say screenshot shown shows tell think thanks use used using want
imagen foto bild immagine изображении изображение картинке фото 图片 照片 圖片 画像 写真 이미지 사진 รูป ภาพ चित्र صورة"""
_OF_PROGRAMS = """args argv bool br cin const cout def div elif endl enum eval foreach href html init int kwargs len
li mathbb mathbf mathcal mathrm nbsp nil null nullptr numpy params printf println px req res sizeof
sqrt src std stdin stdout str struct svg td tmp tr tuple typedef ul utf var void"""

_FENCED = r"```.*?(?:```|\Z)|~~~.*?(?:~~~|\Z)|`[^`\n]{1,200}`"
_FORMULA = (
    r"\$\$.*?\$\$|\\\(.*?\\\)|\\\[.*?\\\]|\$(?=[^$\n]{0,300}[\\^_{=])[^$\n]{1,300}\$"
    r"|\\begin\{(?P<name>(?:equation|align|aligned|gather|multline|eqnarray|[bpvV]?matrix|array|cases|tabular|tikzpicture"
    r"|split)\*?)\}.*?(?:\\end\{(?P=name)\}|\Z)"
)
_WORDS_INSIDE = re.compile(r"\\(?:text|textbf|textit|mbox)\s?\{([^{}\n]*)\}")
_COMMAND = (
    r"\\(?:begin|end|label|ref|eqref|cite|input|include|includegraphics|usepackage|documentclass|bibliography\w*"
    r"|math[a-z]+|operatorname|overline|overrightarrow|widehat|vec|hat|bar|sqrt|[dt]?frac|color|newcommand|vspace|hspace)(?![A-Za-z])"
    r"\*?\s?(?:\[[^\]\n]*\])?(?:\{[^{}\n]*\}){0,3}|\\[A-Za-z]+\*?"
)
_ELEMENT = r"<(?P<tag>script|style|svg|code|pre)\b.*?(?:</(?P=tag)\s*>|\Z)|<!--.*?(?:-->|\Z)|</?[a-z!][^<>]{0,500}>"
_ENTITY = r"&(?:[a-z]{2,8}|#\w{1,6});"
_LINK = r"\b(?:https?|ftp|data)://\S+|\bwww\.\S+|\bdata:\w+/\S+"
_MARKUP = tuple(re.compile(form, re.S | re.I) for form in (_FENCED, _ELEMENT, _LINK, _ENTITY))
_FORMULAS, _COMMANDS = re.compile(_FORMULA, re.S), re.compile(_COMMAND)
_CODE_LINE = re.compile(
    r"^[^\S\n]*(?:[^\n]*(?:[;{}]|=>|\\)|[{}()\[\]<>;,\s]+|\#\s?(?:include|define|pragma|ifn?def|endif)\b[^\n]*|@\w+(?:\([^\n]*\))?"
    r"|(?:async\s+)?(?:def|class|elif|if|for|while|with|switch|try|else|except)\b[^\n]*:"
    r"|(?:import|from)\s[\w.]+(?:\s(?:import|as)\s[^\n]+)?|(?:export|const|let|var|function|public|private|static|return)\s[^\n]*[=({\[\]})][^\n]*"
    r"|[\w.\[\]'\"]+\s?(?:[-+*/]?=|:=)\s?[^\n]+|[\w.]+\([^\n]*\)|\$\s?\w[^\n]*|(?:SELECT|INSERT|UPDATE|DELETE|CREATE|ALTER|DROP)\s[^\n]*)"
    r"[^\S\n]*$",
    re.M,
)
"""A line of a program: it ends as statements do, begins with a keyword and a colon, assigns, or is one call."""
_POINTS = re.compile(r"(?<![\w.])(?:[A-F]{2,4}|PQR?S?T?|QRS?|RS|XYZ?|YZ|KLM?N?|LMN?|MN)(?!\w)")
"""Points, lines and angles of geometry, such as `ABCD`."""


def prose(text: str) -> str:
    """The text without code, formulas and commands of LaTeX, HTML, links, and points of geometry."""
    for form in _MARKUP:
        text = form.sub(" ", text)
    text = _FORMULAS.sub(lambda formula: f" {' '.join(_WORDS_INSIDE.findall(formula[0]))} ", text)
    text = _COMMANDS.sub(" ", _WORDS_INSIDE.sub(r" \1 ", text))
    return _POINTS.sub(" ", _CODE_LINE.sub(" ", text))


def words(text: str, language: str = "en") -> list[str]:
    """Lower-case words of the first 2,000 characters; Chinese, Japanese and Thai are segmented by BudouX.

    Formulas, code, markup and links are not read (`prose`). Left out are the stop words of English and of `language`
    (ISO 639), words of most prompts, such as `image`, and words of programs, such as `elif`.
    """
    plain = _CONTRACTED.sub("", prose(text[:CHARACTERS]).casefold())
    spaced = _UNSPACED.sub(lambda run: f" {' '.join(_segmenter(run[0]).parse(run[0]))} ", plain)
    return [word for word in _runs().findall(spaced) if _may_name(word, _stop_words(language))]


def shared_words(texts: Iterable[str], people: Iterable[str], languages: Iterable[str]) -> list[str]:
    """The words of one topic, with repetition, that at least two people used; `people` has who wrote each text."""
    read = [words(text, language) for text, language in zip(texts, languages, strict=True)]
    users = Counter(
        word for word, _ in {(word, who) for text_words, who in zip(read, people, strict=True) for word in text_words}
    )
    return [word for text_words in read for word in text_words if users[word] >= PEOPLE_MIN]


def _may_name(word: str, stop_words: frozenset[str]) -> bool:
    if not 2 <= len(word) <= WORD_CHARACTERS_MAX or word in stop_words or _HIRAGANA_ALONE.fullmatch(word):
        return False
    return not any(character.isdigit() or character == "_" for character in word)


@cache
def _runs() -> re.Pattern[str]:
    """Runs of letters and digits, with the vowel signs and accents that Python counts as neither."""
    marks = "".join(chr(n) for n in range(0x300, 0x10000) if unicodedata.category(chr(n)).startswith("M"))
    return re.compile(rf"[\w{marks}]+")


@cache
def _stop_words(language: str) -> frozenset[str]:
    from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS  # slow to load

    others = stopwordsiso.stopwords(language) if language != "en" and stopwordsiso.has_lang(language) else ()
    return frozenset(ENGLISH_STOP_WORDS).union(_OF_EVERY_PROMPT.split(), _OF_PROGRAMS.split(), others)


@cache
def _model(script: str) -> budoux.Parser:
    return budoux.Parser(json.loads((files("budoux") / "models" / f"{script}.json").read_text("utf-8")))


def _segmenter(run: str) -> budoux.Parser:
    return _model("th" if run[0] <= "\u0e7f" else "ja_word" if _KANA.search(run) else "zh-hans")
