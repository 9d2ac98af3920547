"""What embedded stand-ins were measured to find is what the documentation says."""

import re
from pathlib import Path

from benchmarks.tags_by_hand import FILE, TAGS
from tasks.judging.released_texts import ITEM_JUDGE, JUDGE
from tasks.providers import EMBEDDED_RECALL, MAKERS, Providers
from tasks.signals.loose_files import read_tag_labels

ROOT = Path(__file__).parents[3]


def test_every_stand_in_has_its_line():
    assert set(EMBEDDED_RECALL) == {*Providers().stand_ins, JUDGE, ITEM_JUDGE, *MAKERS}


def test_every_figure_of_detectors_is_in_the_page_on_privacy():
    told = (ROOT / "docs" / "privacy.md").read_text(encoding="utf-8")
    detectors = [EMBEDDED_RECALL[name] for name in ("nsfw", "faces", "moderation")]
    figures = {figure for line in detectors for figure in re.findall(r"\d\.\d+ \[\d\.\d+, \d\.\d+\]", line)}
    assert len(figures) == 4
    assert {figure for figure in figures if figure not in told} == set()


def test_the_labels_by_hand_are_of_the_definitions_beside_them():
    halves = [said["half"] for said in read_tag_labels(FILE, ["half"], texts=True).values()]
    tags = read_tag_labels(FILE, TAGS, texts=False).values()
    assert (halves.count("work"), halves.count("unseen")) == (157, 163)
    assert {tag: sum(said[tag] is True for said in tags) for tag in ("homework", "ocr")} == {"homework": 55, "ocr": 168}
