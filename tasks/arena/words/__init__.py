"""Words of the arena's page: one YAML file a language, in which every text that a visitor may read stands once.

The language of a request is a context variable, so that whatever speaks to its visitor speaks it.
"""

import re
from collections.abc import Sequence
from contextvars import ContextVar
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from babel import Locale, negotiate_locale
from babel.numbers import format_decimal

from schemas.errors import BadInput
from tasks.runtime.untrusted import read_yaml

_HERE = Path(__file__).parent
ENGLISH = "en"
LANGUAGES = tuple(sorted(file.stem for file in _HERE.glob("*.yaml")))
_NAMED_MAX = 20
"""Languages of one request that are looked at."""
_WEIGHT = re.compile(r"\s*q\s*=\s*([01](?:\.\d{0,3})?)\s*")
_VALUE = re.compile(r"\{(\w*)")
_HELD = re.compile(r"\\\{(\w+)\\\}")
"""A value of an escaped text."""
_language = ContextVar("language", default=ENGLISH)


def page_words(language: str | None = None) -> dict[str, Any]:
    """Key -> text, or list or mapping of texts, by default in the language of the request; `{name}` is a value."""
    return _words(language or _language.get())


@cache
def _words(language: str) -> dict[str, Any]:
    words: dict[str, Any] = read_yaml(_HERE / f"{language}.yaml")
    return words


def speak(accepted: str, offered: Sequence[str] = LANGUAGES) -> None:
    """Take the language that `Accept-Language` wants most for the rest of the request, of those that are offered.

    When it wants none of them, English, or else the first one.
    """
    weighted_tags = []
    for part in accepted.split(",")[:_NAMED_MAX]:
        tag, weighted, weight = part.partition(";")
        weight_match = _WEIGHT.fullmatch(weight)
        weighted_tags.append((float(weight_match[1]) if weight_match else float(not weighted), tag.strip().lower()))
    tags = [tag for weight, tag in sorted(weighted_tags, key=lambda weighted_tag: -weighted_tag[0]) if weight > 0]
    _language.set(negotiate_locale(tags, offered, sep="-") or (ENGLISH if ENGLISH in offered else offered[0]))


def page_language() -> dict[str, str]:
    """Language and direction of the page, as HTML's `lang` and `dir`."""
    return {"lang": _language.get(), "dir": Locale(_language.get()).text_direction}


def task_text(text: str) -> str:
    """A text of a task in the language of the request; it stays as it is when no file has it."""
    for english, translation in zip(page_words(ENGLISH)["task_texts"], page_words()["task_texts"], strict=True):
        if match := re.fullmatch(_HELD.sub(r"(?P<\1>.+)", re.escape(english)), text):
            return str(translation).format(**match.groupdict())
    return text


def number(value: float) -> str:
    """A number as the language writes it."""
    return str(format_decimal(value, locale=_language.get()))


def check_words() -> None:
    """Raises BadInput for the first language whose file has other words, or other values in them, than English."""
    english = _flat(page_words(ENGLISH))
    for language in LANGUAGES:
        where = f"tasks/arena/words/{language}.yaml"
        try:
            language_words = _flat(page_words(language))
        except (OSError, UnicodeDecodeError, yaml.YAMLError):
            raise BadInput(f"{where} is not YAML; write it like en.yaml") from None
        if odd := sorted(english.keys() ^ language_words.keys()):
            verb = "lacks" if odd[0] in english else "has, and en.yaml lacks,"
            raise BadInput(f"{where} {verb} the word {odd[0]!r}; both files must have the same")
        for key, text in language_words.items():
            values = sorted(set(_VALUE.findall(english[key])))
            if sorted(set(_VALUE.findall(text))) != values:
                placeholders = " and ".join(f"{{{value_name}}}" for value_name in values) or "no value in braces"
                raise BadInput(f"{where}: the word {key!r} must hold {placeholders}, as in en.yaml; it is {text!r}")


def _flat(words: Any, key: str = "") -> dict[str, str]:
    """Dotted key -> text."""
    if not isinstance(words, dict | list):
        return {key: str(words)}
    parts = words.items() if isinstance(words, dict) else enumerate(words)
    return {inner: text for name, part in parts for inner, text in _flat(part, f"{key}.{name}".strip(".")).items()}
