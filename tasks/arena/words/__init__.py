"""Words of the arena's page: one YAML file a language, in which every text that a visitor may read stands once."""

from functools import cache
from pathlib import Path
from typing import Any

from tasks.runtime.yaml_files import read_yaml


@cache
def page_words(language: str = "en") -> dict[str, Any]:
    """Key -> text, or list of texts; `{name}` stands for a value."""
    found: dict[str, Any] = read_yaml(Path(__file__).with_name(f"{language}.yaml"))
    return found
