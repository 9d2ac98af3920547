"""Long sentences of README.md and docs/: `python -m flows.reference.sentences` prints them, and fails if they are many.

A sentence is what stands between full stops in a paragraph, an item of a list or a cell of a table; code has none.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

from markdown_it import MarkdownIt

ROOT = Path(__file__).parents[2]
WORDS_MAX, SHARE_MAX = 35, 0.03
_END = re.compile(r"(?<=[.!?])\s+(?=[A-Z`*\[\"(])|\n\n")


def sentences(text: str) -> Iterator[str]:
    """The sentences of a page in Markdown."""
    for token in MarkdownIt("commonmark").enable("table").parse(text):
        if token.type == "inline":
            yield from filter(str.strip, _END.split(token.content))


def pages() -> list[Path]:
    """README.md, CONTRIBUTING.md and every page of docs/."""
    return [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]


def long_sentences() -> tuple[list[str], int]:
    """(`page: sentence` for each that has too many words, number of all sentences)."""
    said = [(page.name, each) for page in pages() for each in sentences(page.read_text(encoding="utf-8"))]
    return [f"{page}: {' '.join(each.split())}" for page, each in said if len(each.split()) > WORDS_MAX], len(said)


if __name__ == "__main__":
    found, total = long_sentences()
    sys.stderr.write(f"{len(found)} of {total} sentences have more than {WORDS_MAX} words\n")
    if len(found) > SHARE_MAX * total:
        sys.exit("\n".join(found))
