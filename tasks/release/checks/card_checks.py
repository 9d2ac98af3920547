"""Checks the dataset card: numbers and sentences against manifest and rows, sections against the files."""

import re
from collections.abc import Iterator, Mapping, Sequence
from html import unescape
from pathlib import Path

from schemas.release import Manifest
from schemas.run import Funnel
from tasks.release.build import CARD
from tasks.release.checks.failing import unmeasured_line
from tasks.release.dataset_card import (
    TEMPLATE,
    UNKNOWN,
    card_sections,
    configs_with_rows,
    data_files,
    dataset_name,
    funnel_line,
    split_card,
)
from tasks.release.registered import ReleasePart
from tasks.release.shards import LAYOUT
from tasks.runtime.untrusted import markdown_text

_MAY_BE_UNKNOWN = (7, 8)
"""Cells that may be – in the card, because tokens need not have been measured: mean tokens of prompts and answers."""
_HEADING = re.compile(r"^## .+$", re.MULTILINE)
_FACT = re.compile(r"`[^`]*`|\d[\d.,]*\d|\d")


def wrong_numbers(folder: Path, manifest: Manifest, statistics: Mapping[str, tuple[str, ...]]) -> Iterator[str]:
    """Problems of the card's numbers: counts and outcomes against the manifest, statistics against the rows."""
    card = (folder / CARD).read_text(encoding="utf-8")
    cells = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in card.splitlines() if "|" in line]
    shown = {row[0]: row[1:] for row in reversed(cells)}  # when a first cell is repeated, its first row counts
    for config in configs_with_rows(manifest.counts):
        expected = f"{manifest.counts[config]:,}"
        if shown.get(f"`{config}`", [""])[0] != expected:
            yield f"{CARD}: rows of {config} are not the {expected} that the release has"
    for config, right in statistics.items():
        if not manifest.counts[config]:
            continue
        found = shown.get(dataset_name(config), [])
        unknown = [number for number, each in enumerate(found) if each == UNKNOWN and number in _MAY_BE_UNKNOWN]
        if found != [UNKNOWN if number in unknown else cell for number, cell in enumerate(right)]:
            yield f"{CARD}: statistics of {config} are not those of its rows, {' | '.join(right)}"
    gone = Funnel.model_validate(manifest.funnel)
    reasons = [(f"{outcome}: {reason}", f"{lines:,}") for outcome, reason, lines in gone.reasons()]
    table = [(row[0], row[1]) for row in cells if row[0].startswith(("dropped: ", "rejected: ")) and len(row) > 1]
    if funnel_line(gone) not in card or sorted(table) != sorted(reasons):
        yield f"{CARD}: where the log lines went is not what the manifest says"


def wrong_sentences(folder: Path, manifest: Manifest) -> Iterator[str]:
    """Problems of the card's sentences that differ from the manifest."""
    card = (folder / CARD).read_text(encoding="utf-8")
    flowing = " ".join(card.split())
    notice = "**Built with embedded stand-ins**"
    stand_ins = [f"{notice} ({', '.join(manifest.embedded_providers)})"] if manifest.embedded_providers else []
    figures = [f"> * {name}: {' '.join(found.split())}" for name, found in manifest.embedded_recall.items()]
    expected = {
        "the version": f" Version {manifest.version} of an arena dataset",
        "the first or last day": f"raw logs of {manifest.first_day} to {manifest.last_day} under",
        "the policy": f"the policy `{manifest.policy['name']}` ({manifest.policy_hash})",
        "what was withheld": f" {manifest.counts['withheld_for_bench']:,} kept conversations are not in `chat`",
    }
    if contact := markdown_text(str(manifest.policy.get("contact") or "")):
        expected["the address for removals"] = f"Write to {contact} with"
    if line := unmeasured_line(manifest):
        expected["what was not measured"] = f"**Not measured**, and null: {line}."
    yield from (
        f"{CARD}: {what} is not what the manifest says"
        for what, line in expected.items()
        if unescape(" ".join(line.split())) not in unescape(flowing)
    )
    if flowing.count(notice) != len(stand_ins) or not all(each in flowing for each in [*stand_ins, *figures]):
        yield f"{CARD}: which stand-ins it was built with is not what the manifest says"
    try:
        about, _ = split_card(card)
    except ValueError:
        about = {}
    if (about.get("configs"), about.get("license")) != (
        data_files(manifest.counts),
        manifest.policy.get("licence") or "other",
    ):
        yield f"{CARD}: its front matter does not name the configurations, their files and the licence of the release"


def wrong_sections(release: Path, prompts: int, parts: Sequence[ReleasePart], layout: int = LAYOUT) -> Iterator[str]:
    """A problem for each section of the card whose rows or facts are not those of the files, or that no part has.

    `prompts`: those of `bench`. `layout`: that of the release, which may be too old to have a section.
    """
    expected, card = card_sections(release, prompts, parts), (release / CARD).read_text(encoding="utf-8")
    sections = [part.section for part in parts if part.section]
    for section in sections:
        too_old = layout < section.since_layout and section.title not in card
        if not too_old and _facts(_section(expected, section.title)) != _facts(_section(card, section.title)):
            yield f"{CARD}: its section about {section.about} is not what {section.files} says"
    known = {*_HEADING.findall(TEMPLATE.read_text(encoding="utf-8")), *(section.title for section in sections)}
    for title in dict.fromkeys(_HEADING.findall(card)):
        if title.rstrip() not in known:
            yield f"{CARD}: {title!r} is a section that nothing in the release says"


def _section(card: str, title: str) -> str:
    """From the title to the next one; empty without the section, and all of it for a card with several."""
    _, found, rest = card.partition(title)
    return rest.partition("\n## ")[0] if title not in rest else found + rest


def _facts(section: str) -> list[str]:
    """The rows of the tables, and every number and piece of code of the sentences; wording and escapes may change."""
    lines = unescape(section).splitlines()
    rows = [line for line in lines if line.startswith("| ")]
    return [*rows, *_FACT.findall(" ".join(line for line in lines if not line.startswith("|")))]
