"""Compares the report of a release with its own tables, and those with what its rows, votes, boards and manifest give.

Figures are checked for what they may contain (`pages`), not for what they show.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, zip_longest
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from polars.testing import assert_series_equal

from schemas.policy import Policy
from schemas.run import Funnel
from tasks.release.checks.boards import RATING_DIFFERENCE_MAX, tables_of_votes
from tasks.release.checks.pages import FIGURES_FOLDER, REPORT, PageSection, ShownReport, read_pages
from tasks.release.registered import OpenRelease, is_benchmark_alone
from tasks.runtime.untrusted import csv_cell, one_line
from tasks.storage.queries.conversation_features import Tallies

if TYPE_CHECKING:
    from tasks.report.page import Part

_TABLES = "report/tables"
_WARNING = "Not for publishing: measured with embedded stand-ins ("
_WITHHELD = re.compile(r"not released: (?P<conversations>[\d,]+) conversations, .* and (?P<battles>[\d,]+) battles")
MADE_AGAIN_SINCE = 12
"""Reports of an earlier layout have other sections, figures, words and ranks, and are compared with their tables."""
_LINES, _ITEMS = "log lines", "items"
"""Names of the input of a release at the head of the page; the second is that of a benchmark alone."""
_OUTCOMES = ("kept", "dropped", "rejected")
_REASONS = {"vote reasons", "vote reasons withheld"}
"""Counts at the head of the page that are not in every report, and of which only the store knows the rest."""
_PARAGRAPHS = 2
"""Lines of a section: what it is about, and where its files are."""


@dataclass(frozen=True)
class _TablesOfRelease:
    """Tables by their names in a store."""

    tables: Mapping[str, pl.DataFrame]

    def read(self, table: str, /) -> pl.DataFrame:
        """All rows."""
        return self.tables[table]


def wrong_report(release: OpenRelease, tallies: Tallies, tokens_known: bool) -> Iterator[str]:
    """Problems of report and tables. `tallies` counts the rows; without known tokens, lengths cannot be compared."""
    page, problems = read_pages(release.folder)
    yield from problems
    paths = sorted((release.folder / _TABLES).glob("*.csv"))
    if page is None and paths and not problems:
        yield f"{REPORT}: missing, and tables of it are there"
    if problems or page is None:
        return
    tables: dict[str, pl.DataFrame] = {}
    for path in paths:
        rows = _read_csv(path)
        if rows is None:
            yield f"{_TABLES}/{path.name}: not a table as this program writes it"
        else:
            tables[path.stem] = rows
    if odd := sorted(tables.keys() ^ page.sections.keys()):
        yield f"{REPORT}: its sections are not those with a table in {_TABLES}: {', '.join(odd[:5])}"
        return
    problems = []
    for key, section in page.sections.items():
        problems += [f"{REPORT}: section {key}: {problem}" for problem in _unlike_table(section, tables[key])]
    # The page is written again only from sections without a problem, whose words could be anything.
    if release.manifest.layout >= MADE_AGAIN_SINCE:
        problems += _unlike_rows(release, page, tables, tallies, tokens_known)
        problems = problems or [*_unlike_page(release, page, tables)]
    yield from problems


def _read_csv(path: Path) -> pl.DataFrame | None:
    """All cells as text; None for a file that would be written in another way, such as with a formula in a cell."""
    text = path.read_text(encoding="utf-8")
    try:
        rows = pl.read_csv(path, infer_schema=False)
    except pl.exceptions.PolarsError:
        return None
    cells = {*rows.columns}.union(*rows.iter_columns()) - {None}
    safe = all(csv_cell(cell) == cell or _is_number(cell) for cell in cells)
    return rows if safe and rows.write_csv() == text else None


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _unlike_table(section: PageSection, table: pl.DataFrame) -> Iterator[str]:
    """Problems of a table on the page that is not the head of the table in the file."""
    from tasks.report.page import ROWS_MAX

    head = table.head(ROWS_MAX)
    cut = f", the first {head.height} of {table.height} rows"
    if [*map(csv_cell, section.columns)] != [name.replace("_", " ") for name in table.columns]:
        yield "its columns are not those of its file"
    elif section.summary != f"Table{cut if table.height > head.height else ''}":
        yield f"it does not say how many of {table.height:,} rows it has"
    elif [len(row) for row in section.rows] != [table.width] * head.height or not all(
        all(map(_same_cell, row, cells, section.numeric))
        for row, cells in zip(section.rows, head.iter_rows(), strict=True)
    ):
        yield "its cells are not those of its file"


def _same_cell(page_cell: str, cell: str | None, numeric: bool) -> bool:
    """Whether a cell of the page shows what the file has."""
    if cell is None:
        return page_cell == "–"
    if numeric and _is_number(cell):
        # as pages showed float32
        short = "." in cell and _is_number(page_cell) and np.float32(page_cell) == np.float32(cell)
        return short or page_cell == f"{float(cell) if set(cell) & set('.eEnN') else int(cell):,}"
    return csv_cell(page_cell) == cell or {"true": "1", "false": "0"}.get(cell) == page_cell


def _unlike_rows(
    release: OpenRelease, page: ShownReport, tables: Mapping[str, pl.DataFrame], tallies: Tallies, tokens_known: bool
) -> Iterator[str]:
    """Problems of tables, sentences and numbers that are not those that the rest of the release gives."""
    # imported late: matplotlib is slow to load
    from tasks.report.content import UNRELEASED, head_numbers, parts_of_rows
    from tasks.report.page import SECTIONS

    manifest = release.manifest
    gone, policy = Funnel.model_validate(manifest.funnel), Policy.model_validate(manifest.policy)
    all_parts = parts_of_rows(gone, policy, tallies, _TablesOfRelease(tables_of_votes(release)))
    skipped = (*UNRELEASED, *(() if tokens_known else ("answer_lengths",)))
    parts = {part.key: part for part in all_parts if part is not None and part.key not in skipped}
    for key in sorted(parts.keys() - tables.keys()):
        yield f"{REPORT}: it lacks the section {key}"
    for key in sorted(parts.keys() & tables.keys()):
        yield from _unlike_part(page.sections[key], tables[key], parts[key])
    for key in sorted(tables.keys() - parts.keys()):
        if key not in SECTIONS or not _worded(SECTIONS[key], page.sections[key]):
            yield f"{REPORT}: section {key}: its sentences are not those of such a section"
    topics = tables.get("topics", pl.DataFrame()).get_column("topic", default=pl.Series("topic", [], pl.String))
    numbers = head_numbers(tallies, pl.DataFrame(topics.cast(pl.Int64, strict=False)), 0)
    numbers |= dict(zip(_OUTCOMES, (gone.kept, gone.dropped, gone.rejected), strict=True))
    numbers[_ITEMS if is_benchmark_alone(release.folder) else _LINES] = gone.lines
    for name, number in numbers.items():
        if name != "benchmark prompts" and page.numbers.get(name) != f"{number:,}":
            yield f"{REPORT}: {name} are not the {number:,} that the release has"
    if strange := sorted(page.numbers.keys() - numbers.keys() - _REASONS):
        yield f"{REPORT}: has a count that no report has: {one_line(strange[0], 60)!r}"
    yield from _unlike_stand_ins(release, page)


def _unlike_part(section: PageSection, table: pl.DataFrame, part: "Part") -> Iterator[str]:
    """Problems of a section whose table can be made again."""
    from tasks.report.page import csv_frame

    if section.title != part.title or section.paragraphs[:-1] != [part.about]:
        yield f"{REPORT}: section {part.key}: its sentences are not what the release gives"
    right = csv_frame(part.table).with_columns((~pl.selectors.numeric()).cast(pl.String))
    keys = [name for name, dtype in right.schema.items() if not dtype.is_float()]
    try:
        page_table = table.cast({name: dtype for name, dtype in right.schema.items() if dtype.is_numeric()})
        page_table, right = page_table.sort(keys), right.sort(keys)
        for name in dict.fromkeys([*page_table.columns, *right.columns]):
            assert_series_equal(page_table[name], right[name], abs_tol=_last_digit(right[name]))
    except (AssertionError, pl.exceptions.PolarsError):
        yield f"{_TABLES}/{part.key}.csv: not what the release gives"


def _last_digit(column: pl.Series) -> float:
    """One in the last digit of a rounded column: machines add up in different order."""
    # A row is one number of the column, as the digits behind its point.
    digits = column.cast(pl.String).str.extract(r"\.(\d+)$").str.len_chars().max() if column.dtype.is_float() else None
    return max(RATING_DIFFERENCE_MAX, 1.001 * 10.0 ** -int(digits)) if isinstance(digits, int) else 0.0


def _worded(words: Mapping[str, object], section: PageSection) -> bool:
    """Whether title and text are those of `sections.yaml`, whatever stands at the places that the code fills in."""
    form = re.sub(r"\\{[^{}]*\\}", ".*", re.escape(str(words["about"])))
    more = ".*" if words.keys() - {"title", "group", "about"} else ""
    paragraph = section.paragraphs[0] if len(section.paragraphs) == _PARAGRAPHS else ""
    return section.title == words["title"] and bool(re.fullmatch(form + more, paragraph))


def _unlike_stand_ins(release: OpenRelease, page: ShownReport) -> Iterator[str]:
    """Problems of the warning: the page names the stand-ins of its run, the manifest those of earlier items, too."""
    warnings, in_manifest = _stand_ins(page), {*release.manifest.embedded_providers}
    if len(warnings) != bool(in_manifest) or not {*chain(*warnings)} <= in_manifest:
        yield f"{REPORT}: it does not say what the manifest says of embedded stand-ins"


def _stand_ins(page: ShownReport) -> list[list[str]]:
    """The names in each warning of stand-ins."""
    warnings = (text.removeprefix(_WARNING) for text in page.paragraphs if text.startswith(_WARNING))
    return [text.removesuffix(").").split(", ") for text in warnings]


def _unlike_page(release: OpenRelease, page: ShownReport, tables: Mapping[str, pl.DataFrame]) -> Iterator[str]:
    """A problem for a page that is not what this version writes of the sections and counts that it shows."""
    from tasks.report.page import ShownPart, report_page

    manifest = release.manifest
    # Each section again: its words and rows as the page has them, which were compared before, its figure from the file.
    sections = []
    for key, section in page.sections.items():
        figure = release.folder / FIGURES_FOLDER / f"{key}.svg"
        svg = figure.read_bytes() if figure.is_file() else b""
        about = section.paragraphs[0] if section.paragraphs else ""
        columns = [*zip(section.columns, section.numeric, strict=False)]
        sections.append(ShownPart(key, section.title, about, tables[key].height, svg, columns, section.rows))
    # What only the store knows is taken from the page; the rest of its head is the manifest's.
    withheld = next(filter(None, map(_WITHHELD.search, page.paragraphs)), None)
    page_of_ours = report_page(
        sections,
        funnel=Funnel.model_validate(manifest.funnel),
        numbers={
            name: _count(number) for name, number in page.numbers.items() if name not in (_LINES, _ITEMS, *_OUTCOMES)
        },
        withheld={name: _count(withheld[name]) if withheld else 0 for name in ("conversations", "battles")},
        version=manifest.version,
        first_day=manifest.first_day,
        last_day=manifest.last_day,
        policy=manifest.policy["name"],
        policy_hash=manifest.policy_hash,
        embedded=next(iter(_stand_ins(page)), []),
        benchmark_alone=is_benchmark_alone(release.folder),
    )
    page_of_release = (release.folder / REPORT).read_text(encoding="utf-8")
    pairs_of_lines = zip_longest(page_of_release.split("\n"), page_of_ours.split("\n"), fillvalue="")
    for number, (line, line_of_ours) in enumerate(pairs_of_lines, 1):
        if line != line_of_ours:
            yield f"{REPORT}: line {number} is not what this version writes there: {one_line(line, 60)!r}"
            return


def _count(text: str) -> int:
    """The number; 0 for a text that is none."""
    digits = text.replace(",", "")[:20]
    return int(digits) if digits.isdecimal() else 0
