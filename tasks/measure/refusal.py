"""Whether an answer declines: the openings that assistants decline with. The forms are data: `refusal.yaml`."""

import re
from functools import cache
from pathlib import Path
from typing import Any

from schemas.signals import Refusal
from tasks.yaml_files import read_yaml

OPENING_CHARACTERS = 300
"""Refusals come first; later apologies are usually about a detail."""


@cache
def _file() -> dict[str, Any]:
    content: dict[str, Any] = read_yaml(Path(__file__).with_suffix(".yaml"))
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
