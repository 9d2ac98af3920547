"""Providers of all capabilities in one word: embedded, self_hosted or vendors (`model_sets.yaml`)."""

import os
from pathlib import Path

from tasks.providers import MAKERS
from tasks.runtime.yaml_files import read_yaml

KEYS = {"openai": "OPENAI_API_KEY", "gemini": "GEMINI_API_KEY"}
"""Vendor among several -> the variable of the environment with its key."""


def model_set(models: str, makers: bool = False) -> dict[str, str]:
    """Capability -> provider. With `makers`, also of those that only make benchmarks."""
    sets: dict[str, dict[str, str | list[str]]] = read_yaml(Path(__file__).with_name("model_sets.yaml"))
    return {
        capability: among if isinstance(among, str) else next((n for n in among if os.environ.get(KEYS[n])), among[0])
        for capability, among in sets.get(models, {}).items()
        if makers or capability not in MAKERS
    }
