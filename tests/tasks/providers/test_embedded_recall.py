"""What embedded stand-ins were measured to find is what the documentation says."""

import re
from pathlib import Path

from tasks.judging.released_texts import JUDGE
from tasks.providers import EMBEDDED_RECALL, MAKERS, Providers

DOCS = Path(__file__).parents[3] / "docs"


def test_every_stand_in_has_its_line():
    assert set(EMBEDDED_RECALL) == {*Providers().stand_ins, JUDGE, *MAKERS}


def test_every_figure_is_one_of_the_documentation():
    told = "".join((DOCS / name).read_text(encoding="utf-8") for name in ("detectors.md", "tags.md"))
    figures = {f for line in EMBEDDED_RECALL.values() for f in re.findall(r"\d\.\d+ \[\d\.\d+, \d\.\d+\]", line)}
    assert len(figures) == 22
    assert {figure for figure in figures if figure not in told} == set()
