"""Model and vendor names that reveal who answers. The words are data: `model_names.yaml`."""

import re
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from schemas.signals import ModelNames

_INTRODUCTION = (
    r"(?:\bI\s+am|\bI['’]m|\bmy\s+name\s+is|\bcall\s+me|\byou\s+can\s+call\s+me|\bthis\s+is|^\s*as|\bI\s+was\s+(?:made|created|built|trained|developed)\s+by"
    r"|\b(?:made|created|built|trained|developed|designed)\s+by|\bsoy|\bje\s+suis|\bich\s+bin|\bsono|\bя|我是|由|私は)"
    r"\s*(?:an?\s+|the\s+)?(?:AI\s+|large\s+|language\s+|model\s+|assistant\s+|called\s+|named\s+|from\s+|by\s+|,\s*)*"
)


@cache
def _words() -> dict[str, Any]:
    words: dict[str, Any] = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))
    return words


@cache
def _forms() -> tuple[re.Pattern[str], re.Pattern[str]]:
    words = _words()
    distinctive = "|".join(words["distinctive"])
    ambiguous = "|".join(words["ambiguous"])
    return (
        re.compile(rf"(?<![\w-])(?:{distinctive})(?!\w)", re.I),
        re.compile(rf"{_INTRODUCTION}(?P<name>{ambiguous})(?![\w])", re.I | re.M),
    )


def version() -> str:
    """Version of the rule and of the words."""
    return f"2.{_words()['version']}"


def model_names(text: str) -> ModelNames:
    """Names in a text, by our rule and by upstream's."""
    distinctive, introduced = _forms()
    names = {match.group().lower() for match in distinctive.finditer(text)}
    names |= {match["name"].lower() for match in introduced.finditer(text)}
    lowered = text.lower()
    return ModelNames(names=sorted(names), upstream_words=sorted(w for w in _words()["upstream"] if w in lowered))
