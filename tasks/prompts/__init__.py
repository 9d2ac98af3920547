"""Prompts of the language models: one Markdown file each. The file is the prompt, word for word."""

import hashlib
from dataclasses import dataclass
from functools import cache
from pathlib import Path


@dataclass(frozen=True)
class Prompt:
    """What a language model is told, apart from the material it is shown."""

    text: str
    """The whole file."""
    version: str
    """Name and the first 8 hex digits of the file's SHA-256: another word is another version."""


@cache
def load_prompt(name: str) -> Prompt:
    """The prompt in `<name>.md`."""
    content = (Path(__file__).parent / f"{name}.md").read_bytes()
    return Prompt(content.decode("utf-8"), f"{name}-{hashlib.sha256(content).hexdigest()[:8]}")


def untrusted(text: str) -> str:
    """Text written by others between two lines that it cannot imitate.

    The mark in both lines is the text's own hash: a text would have to contain its hash to close the block early.
    """
    mark = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    return f"[material {mark}]\n{text}\n[end of material {mark}]"
