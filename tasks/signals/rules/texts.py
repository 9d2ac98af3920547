"""Rules about one text: code, markdown, service texts, names of models, words of upstream, names in exercises."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from schemas.signals import EXERCISE_NAME, PERSON, Code, Markdown, ModelNames, PiiSpan, ServiceText, UpstreamWords
from tasks.runtime.untrusted import read_yaml
from tasks.signals.rules.printed_objects import is_printed_object

SYNTAX_LINES_MIN = 2
"""Least lines that look like code; a single one may be prose about code."""

_CODE: dict[str, Any] = read_yaml(Path(__file__).with_name("code.yaml"))
CODE_VERSION = str(_CODE["version"])
_PLAIN_FENCE = re.compile(r"```(?:plaintext|markdown|text)\b")
_SIGNS = re.compile("|".join(_CODE["signs"]), re.I | re.M | re.A)  # ASCII: no blank stands around Python in Chinese
_REQUEST = re.compile(
    rf"\b(?:{_CODE['asks']})\b[^.\n]{{0,40}}\b(?:{_CODE['things']})\b|{'|'.join(_CODE['requests_elsewhere'])}", re.I
)
_NOT_A_PROGRAM = re.compile("|".join(_CODE["not_a_program"]), re.I)
_SYNTAX = re.compile(rf"^[^\S\n]*+(?:{'|'.join(_CODE['lines'])})[^\S\n]*$", re.M)


def code(text: str) -> Code:
    """Whether a text has a sign of code and is not about ASCII art: FastChat's rule (`code_tagger.py`), extended.

    FastChat's words find half of the coding prompts of MT-Bench and Arena-Hard. Newer languages and libraries, requests
    for a function or a script, and lines of code find most of the rest (benchmarks/tags_quality.py).
    """
    if "ascii art" in text.lower():
        return Code(is_code=False)
    plain = _NOT_A_PROGRAM.sub(" ", _PLAIN_FENCE.sub("", text))
    named = _SIGNS.search(plain) or _REQUEST.search(plain)
    return Code(is_code=bool(named) or len(_SYNTAX.findall(plain)) >= SYNTAX_LINES_MIN)


MARKDOWN_VERSION = "1"

# Line starts are [^\S\n]*, not \s*: a text of nothing but line breaks must not take quadratic time.
_FENCED = re.compile(r"```.*?(?:```|\Z)", re.S)
_HEADERS = {f"h{level}": re.compile(rf"^#{{{level}}}\s+\S", re.M) for level in range(1, 7)}
_ORDERED = re.compile(r"^[^\S\n]*\d+\.\s", re.M)
_UNORDERED = re.compile(r"^[^\S\n]*[-*+]\s", re.M)
_BOLD_STARS = re.compile(r"\*\*[^*\n]+\*\*")
_BOLD_UNDERSCORES = re.compile(r"__[^_\n]+__")


def markdown(text: str) -> Markdown:
    """Counts outside fenced code, as arena leaderboards take them for style control (FastChat `add_markdown_info`)."""
    prose = _FENCED.sub("", text)
    return Markdown(
        **{name: len(form.findall(prose)) for name, form in _HEADERS.items()},
        ordered=len(_ORDERED.findall(prose)),
        unordered=len(_UNORDERED.findall(prose)),
        bold_stars=len(_BOLD_STARS.findall(prose)),
        bold_underscores=len(_BOLD_UNDERSCORES.findall(prose)),
    )


SERVICE_TEXT_VERSION = "2"
PRINTED_OBJECT = "printed_object"

_SERVICE_TEXTS = {
    "moderation_notice": r"^\s*\$MODERATION\$",
    "network_error": r"NETWORK ERROR DUE TO HIGH TRAFFIC",
    "rate_limit": r"RATE LIMIT OF THIS MODEL IS REACHED|rate limit exceeded\W*$",
    "conversation_limit": r"YOU HAVE REACHED THE CONVERSATION LENGTH LIMIT|CONVERSATION LENGTH LIMIT",
    "inactivity": r"THIS SESSION HAS BEEN INACTIVE FOR TOO LONG",
    "api_error": r"API REQUEST ERROR|\$ERROR\$",
    "error_code": r"\(error_code: ?\d+\)\s*$",
    "cursor": r"▌|<span class=[\"']cursor[\"']>",
}
_SERVICE_FORMS = {kind: re.compile(form, 0 if kind != "api_error" else re.I) for kind, form in _SERVICE_TEXTS.items()}


def service_text(text: str) -> ServiceText:
    """Error texts of the serving software that the message is or ends with (FastChat `constants.py`, its workers).

    Also what a program printed in place of the message (`printed_objects.py`).
    """
    kinds = [kind for kind, form in _SERVICE_FORMS.items() if form.search(text)]
    return ServiceText(kinds=[*kinds, PRINTED_OBJECT] if is_printed_object(text) else kinds)


_LETTER = r"[A-Za-z0-9_\u00c0-\u024f]"  # what a name may not touch; Chinese and Japanese put no spaces around names
_KIND = r"(?:AI|LLM|large|language|model|assistant|chatbot)"
_SELF = r"(?:\bI\s+am|\bI['’]m|\bmy\s+name\s+is|\bcall\s+me|\bsoy|\bje\s+suis|\bich\s+bin|\bsono|\bя|我是|私は)"
_SPEAKER = r"(?:\bI\s+(?:am|was|have\s+been)\b|\bI['’](?:m|ve)\b|\bme\b|\b(?:AI|LLM|model|assistant|chatbot)\b)"
_MADE_BY = r"\b(?:made|created|built|trained|developed|designed)\s+by\s+(?:(?:an?\s+|the\s+)?team\s+(?:at|from|of)\s+)?"
# "I am a large language model called"; an article counts only before such a word: "the bard" is no name.
_CALLED = rf"\s*(?:(?:an?|the)\s+(?={_KIND}\b))?(?:(?:{_KIND}|called|named|from|by)\s+|,\s*)*"
_LINE = r"^[^\S\n]*"
_START = r"(?:^[^\S\n]*|[.!?]\s+|\b(?:hi|hello|hey|greetings)\b[^.!?\n]{0,20},\s+)"
_FIRST_PERSON = r"(?:I|I['’]\w+|my|hi|hello|hey|sure|as\s+an?)\b"
_MADE_ZH = "(?:开发|開發|训练|訓練|研发|研發|创建|創建|推出|打造)"
_INTRODUCTIONS = (
    rf"{_SELF}{_CALLED}NAME",
    rf"{_LINE}as{_CALLED}NAME,?\s+(?:an?\s[^.,\n]{{1,60}},\s+)?(?:I|my)\b",
    rf"(?:{_SELF}|{_LINE}as|\bthis\s+is)\s+(?:(?:an?|the|your)\s+)?NAME(?:['’]s)?,?\s+(?:[\w-]+\s+){{0,3}}{_KIND}\b",
    rf"{_SPEAKER}[^.!?\n]{{0,60}}{_MADE_BY}(?:the\s+)?NAME",
    rf"{_START}NAME\s+here(?=\s*[:;,.!–—-]|$)",
    rf"{_START}(?:this\s+is\s+)?NAME\s+(?:speaking|at\s+your\s+service)\b",
    rf"\A\s*\W{{0,3}}NAME\W{{0,3}}:\W{{0,3}}\s+{_FIRST_PERSON}",
    r"\bI,\s+NAME,",
    r"\byou(?:['’]re|\s+are)\s+(?:now\s+)?(?:talking|chatting|speaking)\s+(?:to|with)\s+NAME(?=\s*(?:[.,!:;]|$))",
    rf"{_SELF}\s+your\s+(?:[\w-]+\s+){{0,3}}{_KIND}[,:]?\s+NAME",
    rf"(?:我|作为|作為|模型)[^。\n]{{0,20}}由\s*NAME[^。\n]{{0,6}}{_MADE_ZH}",
)
"""Phrases in which a model introduces itself or its maker; NAME stands for an ambiguous name."""


_NAMES: dict[str, Any] = read_yaml(Path(__file__).with_name("model_names.yaml"))
MODEL_NAMES_VERSION = f"5.{_NAMES['version']}"
"""Version of the rule and of the words."""


def _name_forms() -> list[re.Pattern[str]]:
    distinctive, ambiguous = (
        rf"(?P<name>{'|'.join(_NAMES[kind])})(?!{_LETTER})" for kind in ("distinctive", "ambiguous")
    )
    introductions = [form.replace("NAME", ambiguous) for form in _INTRODUCTIONS]
    return [re.compile(form, re.I | re.M) for form in (rf"(?<!-)(?<!{_LETTER}){distinctive}", *introductions)]


_NAME_FORMS = _name_forms()


def model_names(text: str) -> ModelNames:
    """Names that reveal the model. FastChat's own rule is the signal `upstream_words`."""
    return ModelNames(names=sorted({match["name"].lower() for form in _NAME_FORMS for match in form.finditer(text)}))


_UPSTREAM: dict[str, Any] = read_yaml(Path(__file__).with_name("upstream_words.yaml"))
UPSTREAM_WORDS_VERSION = f"1.{_UPSTREAM['version']}"
"""Version of the rule and of the words."""


def upstream_words(text: str) -> UpstreamWords:
    """Words that FastChat's cleaner searches for, as plain substrings, in the order of the file."""
    lowered = text.lower()
    kinds = UpstreamWords.model_fields
    return UpstreamWords(**{kind: [word for word in _UPSTREAM[kind] if word in lowered] for kind in kinds})


_ASKS = re.compile(
    r"\b(?:how (?:many|much|long|far|old|tall|heavy|fast|often)|calculate|determine|in how many ways)\b"
    r"|\bwh(?:at|ich)(?: \w{1,12}){0,3} (?:number|sum|area|perimeter|volume|probability|value|length|distance|ratio"
    r"|average|percentage|total|time|result|order|figure|picture|image|pattern|piece|shape|square|cell|colou?r|ball|card"
    r"|cube)s?\b|\bwhich of the (?:following|\w{1,12} )"
    r"|\b(?:wie ?viele?|combien|cu[aá]nt[oa]s?|quanti|quante|quant[oa]s|hoeveel|ile)\b"
    r"|\\boxed|\\\(|\\frac|\bthe (?:correct |right )?(?:answer|option) is\b|\bthe final answer\b"
    r"|\$(?=[^$\n]{0,80}(?:[\\^_=]|\d))[^$\n]{1,80}\$|<image\d?>",
    re.I,
)
"""Words with which exercises ask for a result and answers give one, and formulas."""
_OF_THE_WRITER = re.compile(
    r"(?<![\w$\\(])(?:I(?!\w|[.)$])|i(?= (?:am|was|have|had|can|could|should|do|did|will|would|must|may|need|want|give"
    r"|pay|owe|get|know|think)\b)|(?i:i['’]m|my|me|mine|myself|our|ours|ich|mein\w{0,2}|mir|mich|unser\w{0,2}|je|j['’]ai"
    r"|mon|ma|mes|notre|nos|yo|mis?|nuestr[oa]s?|io|mio|mia|nostr[oaie]|eu|meus?|minhas?|noss[oa]s?|ik|mijn|onze?"
    r"|m[oó]j\w{0,3}|moi\w{1,2}|nasz\w{0,4}|friend|neighbou?r|colleague|boss|husband|wife|voisine?)(?!\w))(?!\w)"
)
"""Words with which a writer speaks of themselves and their own people."""
_OPTION = re.compile(
    r"(?:(?<=\n)|\A|(?<=[ \t]))\(?(?P<mark>[A-H])[).:][ \t]{0,3}"
    r"(?P<text>[^\n(]{1,60}?)[ \t.]{0,3}(?=\n|\Z|[ \t]\(?[A-H][).:])"
)


def exercise_names(text: str, spans: Sequence[PiiSpan]) -> list[PiiSpan]:
    """The spans, in which names of exercises and options have the type `exercise_name` instead of `person`.

    A name in an exercise is one word (`Tom has 5 apples`), in a text that asks for a result or gives one, that holds no
    other personal data and in which nobody speaks of themselves. A name in a list of options is all that the option
    holds (`(A) Alicia`), in such a text.
    """
    if not any(span.type == PERSON for span in spans):
        return list(spans)
    if any(span.type != PERSON for span in spans) or _OF_THE_WRITER.search(text):
        return list(spans)
    options, asks = _options(text), _ASKS.search(text) is not None

    def made_up(span: PiiSpan) -> bool:
        name = text[span.start : span.end]
        return name in options or (asks and name.isalpha() and name[:1].isupper())

    new = {"type": EXERCISE_NAME}
    return [span.model_copy(update=new) if span.type == PERSON and made_up(span) else span for span in spans]


def _options(text: str) -> set[str]:
    """Contents of the options of a text with at least options A and B."""
    marked_options = [(option["mark"], option["text"]) for option in _OPTION.finditer(text)]
    return (
        {option_text for _, option_text in marked_options}
        if {"A", "B"} <= {mark for mark, _ in marked_options}
        else set()
    )
