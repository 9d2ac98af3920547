"""Words that FastChat's cleaner searches for, as plain substrings, to compare its counts with ours."""

from pathlib import Path
from typing import Any

from schemas.signals import UpstreamWords
from tasks.runtime.yaml_files import read_yaml

_WORDS: dict[str, Any] = read_yaml(Path(__file__).with_suffix(".yaml"))
VERSION = f"1.{_WORDS['version']}"
"""Version of the rule and of the words."""


def upstream_words(text: str) -> UpstreamWords:
    """The words of each list that occur in the lower-cased text, in the order of the file."""
    lowered = text.lower()
    kinds = UpstreamWords.model_fields
    return UpstreamWords(**{kind: [word for word in _WORDS[kind] if word in lowered] for kind in kinds})
