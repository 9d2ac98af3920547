"""Whether an answer refuses, by typical openings of refusals (`refusal.yaml`)."""

import re
from pathlib import Path
from typing import Any

from schemas.signals import Refusal
from tasks.runtime.yaml_files import read_yaml

OPENING_CHARACTERS = 300
"""Length of the start, which alone is searched, because later apologies are usually about a detail."""


_FORMS: dict[str, Any] = read_yaml(Path(__file__).with_suffix(".yaml"))
VERSION = f"1.{_FORMS['version']}"
"""Version of the rule and of the forms."""
_DECLINES = re.compile("|".join(_FORMS["declines"]), re.I)


def refusal(text: str) -> Refusal:
    """True if the start of the answer refuses."""
    return Refusal(refusal=bool(_DECLINES.search(text[:OPENING_CHARACTERS])))
