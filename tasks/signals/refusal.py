"""Whether an answer declines: the openings that assistants decline with. The forms are data: `refusal.yaml`."""

import re
from pathlib import Path
from typing import Any

from schemas.signals import Refusal
from tasks.runtime.yaml_files import read_yaml

OPENING_CHARACTERS = 300
"""Refusals come first; later apologies are usually about a detail."""


_FORMS: dict[str, Any] = read_yaml(Path(__file__).with_suffix(".yaml"))
VERSION = f"1.{_FORMS['version']}"
"""Version of the rule and of the forms."""
_DECLINES = re.compile("|".join(_FORMS["declines"]), re.I)


def refusal(text: str) -> Refusal:
    """True when the opening of the answer declines to answer."""
    return Refusal(refusal=bool(_DECLINES.search(text[:OPENING_CHARACTERS])))
