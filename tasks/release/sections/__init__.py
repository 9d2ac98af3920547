"""Sections of the card that are there only for some releases, each made from the files of the release alone.

In: the folder of a release. Out: Markdown; and whether the card of a release says the same rows and numbers.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from tasks.release.build import CARD
from tasks.release.declared import JUDGE_FOLDER
from tasks.release.items.written import ITEMS
from tasks.release.sections.judge import TITLE as JUDGE
from tasks.release.sections.judge import judge_section
from tasks.release.sections.written import TITLE as WRITTEN
from tasks.release.sections.written import written_section

_FACT = re.compile(r"`[^`]*`|\d[\d.,]*\d|\d")


def card_sections(release: Path, prompts: int) -> str:
    """All sections, each with an empty line at its end; empty without any. `prompts`: those of `bench`."""
    return judge_section(release, prompts) + written_section(release)


def wrong_sections(release: Path, prompts: int) -> Iterator[str]:
    """A problem for each section of the card whose rows or facts are not those of the files."""
    expected, card = card_sections(release, prompts), (release / CARD).read_text(encoding="utf-8")
    for title, about, files in ((JUDGE, "the judge's board", JUDGE_FOLDER), (WRITTEN, "written items", ITEMS)):
        if _facts(_section(expected, title)) != _facts(_section(card, title)):
            yield f"{CARD}: its section about {about} is not what {files} says"


def _section(card: str, title: str) -> str:
    """From the title to the next one; empty without the section, and all of it for a card with several."""
    _, found, rest = card.partition(title)
    return rest.partition("\n## ")[0] if title not in rest else found + rest


def _facts(section: str) -> list[str]:
    """The rows of the tables, and every number and piece of code of the sentences; wording may change."""
    lines = section.splitlines()
    rows = [line for line in lines if line.startswith("| ")]
    return [*rows, *_FACT.findall(" ".join(line for line in lines if not line.startswith("|")))]
