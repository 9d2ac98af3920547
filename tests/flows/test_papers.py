"""docs/papers.md: the figures that it promises of a store are made by its command, with the columns that it names."""

import re
from collections import Counter
from pathlib import Path

import polars as pl
import pytest

PAGE = (Path(__file__).parents[2] / "docs/papers.md").read_text(encoding="utf-8")
ITEMS = {
    "VA Fig.": range(1, 29),
    "VA Table": range(1, 10),
    "WV Fig.": range(1, 12),
    "WV Table": range(1, 14),
    "VB Fig.": range(1, 19),
    "VB Table": range(1, 7),
    "AB Fig.": range(1, 22),
    "AB Table": range(1, 7),
}
"""Paper and kind -> numbers of its figures or tables."""


def _rows(heading):
    """Cells of the table below a heading."""
    section = PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[2:]]


def _named(cell):
    """Paper, kind and number of each figure or table in a cell."""
    paper = kind = ""
    for word in re.findall(r"[A-Z]{2}\b|Fig\.|Table|\d+", cell):
        if word.isdigit():
            yield f"{paper} {kind}", int(word)
        elif len(word) == 2:
            paper = word
        else:
            kind = word


def test_every_figure_and_table_of_the_papers_has_a_row():
    headings = ("From logs, by one command", "By other commands", "Not there yet, or by hand")
    named = Counter(each for heading in headings for row in _rows(heading) for each in _named(row[0]))
    expected = {(paper, number) for paper, numbers in ITEMS.items() for number in numbers}
    assert set(named) == expected
    assert [each for each, count in named.items() if count > 1] == [("VA Fig.", 21)]  # of four panels


MADE = ("From logs, by one command", "By other commands")


def test_the_page_says_how_many_figures_and_tables_commands_make():
    made = {each for heading in MADE for row in _rows(heading) for each in _named(row[0])}
    (count, total) = re.search(r"Commands make (\d+) of their (\d+) figures and tables", PAGE).groups()
    assert (int(count), int(total)) == (len(made), sum(map(len, ITEMS.values())))


@pytest.mark.parametrize("command", sorted({row[1].strip("`") for row in _rows("By other commands")}))
def test_every_command_of_the_second_table_is_there(curate, command):
    status, out, err = curate(*command.split()[1:], "--help")
    assert (status, err) == (0, "") and f"Usage: {command} " in " ".join(out.split())


def test_the_command_of_the_page_writes_every_file_with_its_columns(curated, curate, tmp_path):
    command = re.search(r"`curate (export figures [^`]+)`", PAGE)[1]
    words = {"STORE": curated.store.root, "DIR": str(tmp_path / "figures")}
    code, _, err = curate(*(words.get(word, word) for word in command.split()))
    assert code == 0, err
    rows = _rows("From logs, by one command")
    assert len(rows) > 15
    for _, file, columns, *_ in rows:
        table = pl.read_csv(tmp_path / "figures" / file.strip("`"), infer_schema_length=None)
        assert [name for name in columns.split(", ") if name not in table.columns] == [], file
        assert table.height, file
        for suffix in (".svg", ".pdf"):
            assert (tmp_path / "figures" / file.strip("`")).with_suffix(suffix).stat().st_size > 500
