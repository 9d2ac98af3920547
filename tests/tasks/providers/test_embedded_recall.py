"""What embedded stand-ins were measured to find is what the documentation says."""

import re
from pathlib import Path

from benchmarks.tags_by_hand import FILE, TAGS
from tasks.judging.released_texts import ITEM_JUDGE, JUDGE
from tasks.providers import EMBEDDED_RECALL, MAKERS, Providers
from tasks.signals.loose_files import read_tag_labels

DOCS = Path(__file__).parents[3] / "docs"


def test_every_stand_in_has_its_line():
    assert set(EMBEDDED_RECALL) == {*Providers().stand_ins, JUDGE, ITEM_JUDGE, *MAKERS}


def test_every_figure_is_one_of_the_documentation():
    told = "".join((DOCS / name).read_text(encoding="utf-8") for name in ("detectors.md", "tags.md"))
    figures = {f for line in EMBEDDED_RECALL.values() for f in re.findall(r"\d\.\d+ \[\d\.\d+, \d\.\d+\]", line)}
    assert len(figures) == 22
    assert {figure for figure in figures if figure not in told} == set()


def test_the_labels_by_hand_are_of_the_definitions_beside_them():
    halves = [said["half"] for said in read_tag_labels(FILE, ["half"], texts=True).values()]
    tags = read_tag_labels(FILE, TAGS, texts=False).values()
    assert (halves.count("work"), halves.count("unseen")) == (157, 163)
    assert {tag: sum(said[tag] is True for said in tags) for tag in ("homework", "ocr")} == {"homework": 55, "ocr": 168}
