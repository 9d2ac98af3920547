"""Words that may name a topic, in any language: no function words, no numbers, nothing that only one person typed."""

import json
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable
from functools import cache
from importlib.resources import files

import budoux
import stopwordsiso
from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

from tasks.topics.prose import prose

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
        word for word, _ in {(word, who) for found, who in zip(read, people, strict=True) for word in found}
    )
    return [word for found in read for word in found if users[word] >= PEOPLE_MIN]


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
    others = stopwordsiso.stopwords(language) if language != "en" and stopwordsiso.has_lang(language) else ()
    return frozenset(ENGLISH_STOP_WORDS).union(_OF_EVERY_PROMPT.split(), _OF_PROGRAMS.split(), others)


@cache
def _model(script: str) -> budoux.Parser:
    return budoux.Parser(json.loads((files("budoux") / "models" / f"{script}.json").read_text("utf-8")))


def _segmenter(run: str) -> budoux.Parser:
    return _model("th" if run[0] <= "\u0e7f" else "ja_word" if _KANA.search(run) else "zh-hans")
