"""Whether a message contains or asks for program code: FastChat's rule (`code_tagger.py`), extended.

FastChat's words find half of the coding prompts of MT-Bench and Arena-Hard. Newer languages and libraries, requests for
a function or a script, and lines of code find most of the rest (benchmarks/tags_quality.py).
"""

import re
from pathlib import Path
from typing import Any

from schemas.signals import Code
from tasks.runtime.yaml_files import read_yaml

SYNTAX_LINES_MIN = 2
"""Least lines that look like code; a single one may be prose about code."""

_FORMS: dict[str, Any] = read_yaml(Path(__file__).with_suffix(".yaml"))
VERSION = str(_FORMS["version"])
_PLAIN_FENCE = re.compile(r"```(?:plaintext|markdown|text)\b")
_SIGNS = re.compile("|".join(_FORMS["signs"]), re.I | re.M | re.A)  # ASCII: no blank stands around Python in Chinese
_REQUEST = re.compile(
    rf"\b(?:{_FORMS['asks']})\b[^.\n]{{0,40}}\b(?:{_FORMS['things']})\b|{'|'.join(_FORMS['requests_elsewhere'])}", re.I
)
_NOT_A_PROGRAM = re.compile("|".join(_FORMS["not_a_program"]), re.I)
_SYNTAX = re.compile(_FORMS["syntax"], re.M)


def code(text: str) -> Code:
    """True if the text contains a sign of code and is not about ASCII art."""
    if "ascii art" in text.lower():
        return Code(is_code=False)
    plain = _NOT_A_PROGRAM.sub(" ", _PLAIN_FENCE.sub("", text))
    named = _SIGNS.search(plain) or _REQUEST.search(plain)
    return Code(is_code=bool(named) or len(_SYNTAX.findall(plain)) >= SYNTAX_LINES_MIN)
