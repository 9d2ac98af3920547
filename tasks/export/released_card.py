"""What a release's card says that holds for its exports, too: licence, removals, stand-ins."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from schemas.errors import BadInput
from tasks.release.layout import CARD


def read_card(release: Path) -> tuple[dict[str, Any], str]:
    """Front matter and text. Raises BadInput when the release has no card with front matter."""
    try:
        _, front, text = (release / CARD).read_text(encoding="utf-8").split("---\n", 2)
        return dict(yaml.safe_load(front)), text
    except (OSError, ValueError, TypeError, yaml.YAMLError):
        raise BadInput(f"{str(release)!r}: its {CARD} is no card; `curate verify` says what is wrong with it") from None


def front_matter(about: dict[str, Any]) -> str:
    """The lines that begin a card."""
    return f"---\n{yaml.safe_dump(about, sort_keys=False)}---\n"


def notice(text: str) -> Iterator[str]:
    """Which stand-ins the release was built with."""
    lines = [line for line in text.partition("\n## ")[0].splitlines() if line.startswith("> ")]
    yield from [*lines, ""] if lines else []


def sections(text: str, kept: tuple[str, ...]) -> Iterator[str]:
    """Sections of the card whose headings begin so."""
    return (f"## {section.strip()}\n" for section in text.split("\n## ")[1:] if section.startswith(kept))
