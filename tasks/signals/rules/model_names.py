"""Finds model and vendor names that reveal which model answers. The words are data: `model_names.yaml`."""

import re
from pathlib import Path
from typing import Any

from schemas.signals import ModelNames
from tasks.runtime.yaml_files import read_yaml

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


_WORDS: dict[str, Any] = read_yaml(Path(__file__).with_suffix(".yaml"))
VERSION = f"5.{_WORDS['version']}"
"""Version of the rule and of the words."""


def _forms() -> list[re.Pattern[str]]:
    distinctive, ambiguous = (
        rf"(?P<name>{'|'.join(_WORDS[kind])})(?!{_LETTER})" for kind in ("distinctive", "ambiguous")
    )
    introductions = [form.replace("NAME", ambiguous) for form in _INTRODUCTIONS]
    return [re.compile(form, re.I | re.M) for form in (rf"(?<!-)(?<!{_LETTER}){distinctive}", *introductions)]


_FORMS = _forms()


def model_names(text: str) -> ModelNames:
    """Names that reveal the model. FastChat's own rule is the signal `upstream_words`."""
    return ModelNames(names=sorted({match["name"].lower() for form in _FORMS for match in form.finditer(text)}))
