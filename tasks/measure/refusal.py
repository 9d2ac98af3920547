"""Whether an answer declines: the openings that assistants decline with. The forms are data: `refusal.yaml`."""

import re
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from schemas.signals import Refusal

OPENING_CHARACTERS = 300
"""Refusals come first; later apologies are usually about a detail."""


@cache
def _file() -> dict[str, Any]:
    content: dict[str, Any] = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))
    return content


@cache
def _declines() -> re.Pattern[str]:
    return re.compile("|".join(_file()["declines"]), re.I)


def version() -> str:
    """Version of the rule and of the forms."""
    return f"1.{_file()['version']}"


def refusal(text: str) -> Refusal:
    """True when the opening of the answer declines to answer."""
    return Refusal(refusal=bool(_declines().search(text[:OPENING_CHARACTERS])))
