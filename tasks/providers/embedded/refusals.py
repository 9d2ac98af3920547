"""Whether an answer refuses, by the words in which assistants decline (`refusals.yaml`).

How much it finds: docs/privacy.md (benchmarks/refusal_quality.py).
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tasks.runtime.yaml_files import read_yaml

OPENING_CHARACTERS = 300
"""Length of the start, which alone is searched, because later apologies are usually about a detail."""
_PART = re.compile(r"\{([^\W\d]+)\}")
_LANGUAGES: dict[str, Any] = read_yaml(Path(__file__).with_suffix(".yaml"))
_VERSION, _PARTS = _LANGUAGES.pop("version"), _LANGUAGES.pop("parts")
_FORMS = [_PART.sub(lambda part: str(_PARTS[part[1]]), form) for forms in _LANGUAGES.values() for form in forms]
_DECLINES = re.compile("|".join(_FORMS), re.I)


class DecliningWords:
    """Forms in which assistants decline, in nine languages."""

    version = f"words-{_VERSION}-first{OPENING_CHARACTERS}"

    def refuses(self, texts: Sequence[str]) -> list[bool]:
        """Whether the start of each answer refuses."""
        return [bool(_DECLINES.search(text[:OPENING_CHARACTERS])) for text in texts]
