"""Compares the card of a release with its manifest, its rows and what this version writes.

Wording may change from version to version; numbers, names in code, rows, links, pictures and HTML may not.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from html import unescape

from schemas.release import Manifest
from schemas.run import Funnel
from tasks.release.build import CARD
from tasks.release.data_page import data_page
from tasks.release.dataset_card import (
    CARD_TEMPLATE,
    COMPARED,
    UNKNOWN_CELL,
    about_release,
    benchmark_cells,
    benchmark_names,
    card_sections,
    configs_with_rows,
    dataset_card,
    dataset_name,
    funnel_line,
    split_card,
    unmeasured_line,
)
from tasks.release.registered import OpenRelease, ReleasePart
from tasks.runtime.untrusted import markdown_text, one_line

Cells = Mapping[str, tuple[str, ...]]
"""Configuration -> cells of its row in the table of statistics."""
_BENCH = "## How well the benchmark represents the arena"
"""Section with numbers that no file of a release gives."""
_ACTIVE = re.compile(r"<|\]\(|\]\[|\]:|!\[|://|www\.", re.IGNORECASE)
"""Opens a link, a picture or HTML, in every way of Markdown and of the Hub."""
_MAY_BE_UNKNOWN = range(7, 9)
"""Cells that may be – in the card, because tokens need not have been measured: mean tokens of prompts and answers."""
DATA_PAGE_SINCE = 11
"""Releases of an earlier layout have no DATA.md; their cards hold what it says."""
_IN_EARLIER_CARDS = {"## What the embedded models were measured to find", "## Columns", "## Versions of the signals"}
"""Sections that cards had before `DATA.md` did."""
_HEADING = re.compile(r"^## .+$", re.MULTILINE)
_FACT = re.compile(r"`[^`]*`|\d[\d.,]*\d|\d")


def wrong_card(release: OpenRelease, statistics: Cells, parts: Sequence[ReleasePart]) -> list[str]:
    """Problems of the card. `statistics`: those of the rows."""
    card, manifest = (release.folder / CARD).read_text(encoding="utf-8"), release.manifest
    sections = card_sections(release.folder, manifest.counts["bench"], parts)
    names, statistics = benchmark_names(release.folder), {**statistics, **benchmark_cells(release.folder)}
    problems = [*_numbers(card, manifest, statistics, bool(names)), *_sentences(card, manifest, names)]
    problems += wrong_sections(card, sections, parts, manifest.layout)
    no_bench = dict.fromkeys(("bench_funnel", "bench_measures", "bench_agreement"), ())
    ours = dataset_card(manifest, Funnel.model_validate(manifest.funnel), statistics, no_bench, sections, names)
    problems = problems or [*_active_lines(card, ours + data_page(manifest))]
    if manifest.layout < DATA_PAGE_SINCE:
        return problems
    return problems or [*_other_figures(card, ours, [part.section.title for part in parts if part.section])]


def _rows(card: str) -> list[list[str]]:
    """The cells of each row of all tables."""
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in card.splitlines() if "|" in line]


def _by_first(card: str) -> dict[str, list[str]]:
    """First cell -> the others; of several rows with one first cell, the first."""
    return {row[0]: row[1:] for row in reversed(_rows(card))}


def tokens_known(card: str) -> bool:
    """Whether the card knows how long prompts and answers of all configurations with rows are."""
    rows = [cells for config in COMPARED if (cells := _by_first(card).get(dataset_name(config)))]
    return all(UNKNOWN_CELL not in cells[_MAY_BE_UNKNOWN.start : _MAY_BE_UNKNOWN.stop] for cells in rows)


def _numbers(card: str, manifest: Manifest, statistics: Cells, benchmark_alone: bool) -> Iterator[str]:
    """Problems of the card's numbers: counts and outcomes against the manifest, statistics against the rows."""
    cells, cells_by_first = _rows(card), _by_first(card)
    for config in configs_with_rows(manifest.counts):
        expected = f"{manifest.counts[config]:,}"
        if cells_by_first.get(f"`{config}`", [""])[0] != expected:
            yield f"{CARD}: rows of {config} are not the {expected} that the release has"
    for config, right in statistics.items():
        if not manifest.counts[config]:
            continue
        stated_cells = cells_by_first.get(dataset_name(config), [])
        unknown = [
            number for number, figure in enumerate(stated_cells) if figure == UNKNOWN_CELL and number in _MAY_BE_UNKNOWN
        ]
        if stated_cells != [UNKNOWN_CELL if number in unknown else cell for number, cell in enumerate(right)]:
            yield f"{CARD}: statistics of {config} are not those of its rows, {' | '.join(right)}"
    gone = Funnel.model_validate(manifest.funnel)
    reasons = [(f"{outcome}: {reason}", f"{lines:,}") for outcome, reason, lines in gone.reasons()]
    table = [(row[0], row[1]) for row in cells if row[0].startswith(("dropped: ", "rejected: ")) and len(row) > 1]
    if funnel_line(gone, benchmark_alone) not in card or sorted(table) != sorted(reasons):
        yield f"{CARD}: where the log lines went is not what the manifest says"


def _sentences(card: str, manifest: Manifest, benchmarks: Sequence[str]) -> Iterator[str]:
    """Problems of the card's sentences that differ from the manifest. `benchmarks`: `benchmark_names`."""
    flowing = " ".join(card.split())
    notice = "**Built with embedded stand-ins**"
    stand_ins = [f"{notice} ({', '.join(manifest.embedded_providers)})"] if manifest.embedded_providers else []
    lines = [
        (name, *line.model_dump().values())
        for name, figure_lines in manifest.embedded_figures.items()
        for line in figure_lines
    ]
    in_card = manifest.layout < DATA_PAGE_SINCE
    figures = [" ".join(f"| {' | '.join(line)} |".split()) for line in lines] if in_card else []
    expected = {
        "the version": f" Version {manifest.version} of {'the benchmark' if benchmarks else 'an arena dataset'}",
        "the policy": f"the policy `{manifest.policy['name']}` ({manifest.policy_hash})",
    }
    if benchmarks:
        named = " and ".join(map(markdown_text, benchmarks))
        expected |= {"its title": f"# Benchmark {named} ", "its name": f" {named}, made by `arena-curation`"}
    else:
        expected |= {
            "the first or last day": f"raw logs of {manifest.first_day} to {manifest.last_day} under",
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
    if flowing.count(notice) != len(stand_ins) or not all(sentence in flowing for sentence in [*stand_ins, *figures]):
        yield f"{CARD}: which stand-ins it was built with is not what the manifest says"
    try:
        about, _ = split_card(card)
    except ValueError:
        about = {}
    if about != about_release(manifest, benchmarks):
        yield f"{CARD}: its front matter does not name the configurations, their files and the licence of the release"


def wrong_sections(card: str, expected: str, parts: Sequence[ReleasePart], layout: int) -> Iterator[str]:
    """A problem for each section of the card whose rows or facts are not those of the files, or that no part has.

    `expected`: the sections of `parts`. `layout`: that of the release, which may be too old to have a section.
    """
    sections = [part.section for part in parts if part.section]
    for section in sections:
        too_old = layout < section.since_layout and section.title not in card
        if not too_old and _facts(_section(expected, section.title)) != _facts(_section(card, section.title)):
            yield f"{CARD}: its section about {section.about} is not what {section.files} says"
    allowed_titles = {
        *_HEADING.findall(CARD_TEMPLATE.read_text(encoding="utf-8")),
        *(section.title for section in sections),
    }
    allowed_titles |= _IN_EARLIER_CARDS if layout < DATA_PAGE_SINCE else set()
    for title in dict.fromkeys(_HEADING.findall(card)):
        if title.rstrip() not in allowed_titles:
            yield f"{CARD}: {title!r} is a section that nothing in the release says"


def _section(card: str, title: str) -> str:
    """From the title to the next one; empty without the section, and all of it for a card with several."""
    _, heading, following = card.partition(title)
    return following.partition("\n## ")[0] if title not in following else heading + following


def _facts(section: str) -> list[str]:
    """The rows of the tables, and every number and piece of code of the sentences; wording and escapes may change."""
    lines = unescape(section).splitlines()
    rows = [line for line in lines if line.startswith("| ")]
    return [*rows, *_FACT.findall(" ".join(line for line in lines if not line.startswith("|")))]


def _active_lines(card: str, ours: str) -> Iterator[str]:
    """Problems of lines that do something and that this version does not write in its card, which is `ours`."""
    our_lines = {*ours.splitlines()}
    for line in card.splitlines():
        if line not in our_lines and _ACTIVE.search(line):
            yield f"{CARD}: has a link, a picture or HTML that no card has: {one_line(line, 80)!r}"


def _other_figures(card: str, ours: str, titles: Sequence[str]) -> Iterator[str]:
    """Problems of sections with other figures than in this version's card. `titles`: of sections checked before."""
    for title in ("", *dict.fromkeys(_HEADING.findall(ours))):
        if title not in titles and title != _BENCH and _figures(ours, title) != _figures(card, title):
            yield f"{CARD}: {title[3:] or 'its beginning'!r} has other numbers or names than this version writes there"


def _figures(card: str, title: str) -> list[str]:
    """Numbers and pieces of code of a section, or of what is before all; sorted, and without those of the rows."""
    section = _section(card, title) if title else card.partition("\n## ")[0]
    lines = [line for line in unescape(section).splitlines() if not line.startswith("| **this release")]
    return sorted(_FACT.findall(" ".join(lines)))  # rows of one number may change places
