"""What FastChat's cleaner finds in a text: plain substrings, so that its counts can be set beside ours."""

from functools import cache
from pathlib import Path
from typing import Any

from schemas.signals import UpstreamWords
from tasks.yaml_files import read_yaml


@cache
def _words() -> dict[str, Any]:
    words: dict[str, Any] = read_yaml(Path(__file__).with_suffix(".yaml"))
    return words


def version() -> str:
    """Version of the rule and of the words."""
    return f"1.{_words()['version']}"


def upstream_words(text: str) -> UpstreamWords:
    """The words of each list that stand anywhere in the lower-cased text, in the order of the file."""
    lowered = text.lower()
    kinds = UpstreamWords.model_fields
    return UpstreamWords(**{kind: [word for word in _words()[kind] if word in lowered] for kind in kinds})
