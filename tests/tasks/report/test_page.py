"""The page: whole, offline, and deaf to what names and texts in a log try to do."""

import base64
import csv
import json
import re
import shutil
import subprocess
import xml.etree.ElementTree as ET
from html.parser import HTMLParser
from pathlib import Path

import PIL.Image
import polars as pl
import pytest

from flows.commands.export import write_new_figures
from schemas.run import Funnel
from tasks.export.destination import exports
from tasks.report.figures import bars
from tasks.report.page import ROWS_MAX, Content, Part, ShownPart, decisive_figures, write_report
from tasks.runtime.untrusted import one_line
from tests.cut_off import room_for
from tests.small_store import HOSTILE_MODEL, HOSTILE_PROMPT, HOSTILE_TOPIC

VOID = {"meta", "img", "br", "link", "input"}
ALLOWED = {"html", "head", "meta", "title", "style", "body", "h1", "h2", "p", "div", "b", "span", "nav", "a", "section"}
ALLOWED |= {"figure", "img", "details", "summary", "table", "thead", "tbody", "tr", "th", "td"}
CHROMIUM = Path("/usr/bin/chromium")
QUIET = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"]
QUIET += ["--disable-background-networking", "--disable-component-update", "--enable-logging=stderr", "--v=0"]


class Page(HTMLParser):
    """Elements and text of a page; tags that do not nest fail."""

    def __init__(self, html):
        super().__init__()
        self.open, self.elements, self.texts = [], [], []
        self.feed(html)
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)

    def of(self, tag, attribute):
        return [attributes[attribute] for name, attributes in self.elements if name == tag and attribute in attributes]


@pytest.fixture(scope="module")
def html(report):
    return (report / "index.html").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def page(html):
    return Page(html)


@pytest.fixture(scope="module")
def sections(page):
    return page.of("section", "id")


def test_elements_nest_ids_are_unique_and_every_image_says_what_it_shows(html, page, sections):
    assert html.startswith("<!doctype html>")
    assert {tag for tag, _ in page.elements} <= ALLOWED
    assert len(sections) == len(set(sections)) > 8
    assert len(page.of("img", "alt")) == len(page.of("img", "src"))
    assert all(page.of("img", "alt"))


def test_the_contents_of_the_chapters_lead_to_every_section_once(html, sections):
    contents = re.findall(r"<nav>(.*?)</nav>", html, re.DOTALL)
    assert re.findall(r'href="#(\w+)"', " ".join(contents)) == sections


def test_a_figure_that_decides_leads_to_a_section(page, sections):
    links = [link for link in page.of("a", "href") if link.startswith("#")]
    assert links and set(links) <= {f"#{key}" for key in sections}


def test_the_page_asks_nothing_of_the_network_and_runs_nothing(html, page):
    assert all(source.startswith("data:image/svg+xml;base64,") for source in page.of("img", "src"))
    assert all(re.match(r"#|tables/\w+\.csv$|figures/\w+\.svg$", link) for link in page.of("a", "href"))
    assert not {name for _, attributes in page.elements for name in attributes if name.startswith("on")}
    assert "default-src 'none'" in page.of("meta", "content")[1]
    (style,) = re.findall(r"<style>(.*?)</style>", html, re.DOTALL)
    assert not re.search(r"url\(|@import|@font-face", style)


def test_every_section_has_its_figure_and_its_table_and_both_are_files(report, page, sections):
    images = [base64.b64decode(source.partition(",")[2]).decode() for source in page.of("img", "src")]
    files = [(report / "figures" / f"{key}.svg").read_text(encoding="utf-8") for key in sections]
    assert images == files
    for folder, ending in (("figures", "svg"), ("tables", "csv")):
        assert {path.name for path in (report / folder).iterdir()} == {f"{key}.{ending}" for key in sections}
    assert all((report / link).is_file() for link in page.of("a", "href") if not link.startswith("#"))


def test_figures_hold_no_script_cells_no_formula_and_nothing_a_users_message(report):
    for path in (report / "figures").iterdir():
        for element in ET.parse(path).iter():
            assert element.tag.rpartition("}")[2] not in {"script", "image", "foreignObject", "a", "iframe"}
            for name, value in element.attrib.items():
                assert not name.rpartition("}")[2].startswith("on"), path.name
                assert not name.endswith("href") or value.startswith("#"), path.name
    for path in report.rglob("*.*"):
        assert HOSTILE_PROMPT not in path.read_text(encoding="utf-8")
        assert "What is in picture" not in path.read_text(encoding="utf-8")
    with (report / "tables" / "topics.csv").open(newline="", encoding="utf-8") as stream:
        rows = list(csv.reader(stream))
    assert rows[0] == ["topic", "name", "documents"]
    assert f"'{one_line(HOSTILE_TOPIC)}" in [row[1] for row in rows]
    for path in (report / "tables").iterdir():
        with path.open(newline="", encoding="utf-8") as stream:
            cells = [cell for row in csv.reader(stream) for cell in row]
        assert not [cell for cell in cells if re.match(r"[=+@]|-(?!\d)", cell)], path.name


def test_hostile_names_are_shown_as_text(html, page, report):
    shown = "".join(page.texts)
    for hostile in (one_line(HOSTILE_MODEL), one_line(HOSTILE_TOPIC)):
        assert hostile in shown
    assert not re.search(r"<script|<img src=x|javascript:[^)]*\)[^ ]*\"", html)
    assert "\u202e" not in html
    svg = (report / "figures" / "models.svg").read_text(encoding="utf-8")
    assert "&lt;script" in svg
    assert "<script" not in svg


ABOUT = {
    "version": "1.0",
    "first_day": "a",
    "last_day": "b",
    "policy": "p",
    "policy_hash": "0",
    "embedded": [],
    "benchmark_alone": False,
}
NOTHING = Funnel(lines=0, kept=0, dropped=0, rejected=0, dropped_by={}, rejected_by={})
NONE_WITHHELD = {"conversations": 0, "battles": 0}


def test_a_long_table_is_cut_on_the_page_and_whole_in_its_file(tmp_path):
    table = pl.DataFrame({"name": [f"row {n}" for n in range(ROWS_MAX + 5)], "share": [None] * (ROWS_MAX + 5)})
    long = Part("models", "Long", "", table, bars({}, "rows"))
    write_report(tmp_path, Content(NOTHING, {}, NONE_WITHHELD, [long]), ABOUT)
    html = (tmp_path / "index.html").read_text()
    assert html.count("<td>row ") == ROWS_MAX
    assert f"the first {ROWS_MAX} of {ROWS_MAX + 5} rows" in html
    assert "None" not in html
    assert len((tmp_path / "tables" / "models.csv").read_text().splitlines()) == ROWS_MAX + 6


def test_only_an_embedded_build_is_marked_and_names_the_stand_ins_of_its_manifest(html, report, tmp_path):
    stand_ins = json.loads((report.parent / "manifest.json").read_text())["embedded_providers"]
    assert f"Not for publishing: measured with embedded stand-ins ({', '.join(stand_ins)})" in html
    write_report(tmp_path, Content(NOTHING, {}, NONE_WITHHELD, []), ABOUT)
    assert "Not for publishing" not in (tmp_path / "index.html").read_text()


@pytest.mark.skipif(not CHROMIUM.exists(), reason="no chromium on this machine")
def test_a_browser_shows_the_page_without_a_complaint(report, tmp_path):
    copy = shutil.copytree(report, tmp_path / "report")
    opened = (copy / "index.html").read_text(encoding="utf-8").replace("<details>", "<details open>")
    (copy / "index.html").write_text(opened, encoding="utf-8")  # with its chapters open, as a reader leaves it
    image = tmp_path / "page.png"
    where = [f"--user-data-dir={tmp_path / 'profile'}", f"--screenshot={image}", "--window-size=1200,4000"]
    shown = subprocess.run(
        [str(CHROMIUM), *QUIET, *where, f"file://{copy}/index.html"],
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    assert [line for line in shown.stderr.splitlines() if "CONSOLE" in line] == []
    colours = PIL.Image.open(image).convert("RGB").resize((300, 1000)).getcolors(300 * 1000)
    assert len(colours) > 50  # text, tiles and coloured bars, not a blank or an error page
    blue = sum(count for count, (r, g, b) in colours if b > 150 and r < 90)
    assert blue > 1000  # the figures, which are images of their own, are there


def test_every_figure_is_exported_for_print_with_its_table_and_the_same_bytes_twice(
    curate, refused, released_store, report, tmp_path
):
    arguments = ("export", "figures", "--store", released_store.root, "--out", tmp_path / "print")
    code, out, _ = curate(*arguments)
    assert code == 0 and re.search(r"\d+ figures, each as \.svg, \.pdf and \.csv", out)
    assert [(row.place, row.kind) for row in exports(released_store)] == [(str(tmp_path / "print"), "figures")], (
        "a takedown names the folder, which has prompts and pictures"
    )
    found = {path.name: path.read_bytes() for path in (tmp_path / "print").iterdir()}
    names = {name.removesuffix(".pdf") for name in found if name.endswith(".pdf")}
    assert set(found) == {f"{name}.{kind}" for name in names for kind in ("svg", "pdf", "csv")}
    # signals of the store are of versions that tests name, so what depends on them is not drawn by the command
    of_report = {path.stem for path in (report / "figures").iterdir()}
    assert "models" in names and names <= {*of_report, "mean_win_rates"}
    assert all(found[f"{name}.pdf"].startswith(b"%PDF") and b"Date" not in found[f"{name}.pdf"] for name in names)
    assert b"/FontFile2" in found["models.pdf"], "TrueType fonts are inside, so that text can be selected and edited"
    once, again = (bars({"a": 1, "b": 2}, "rows").pdf() for _ in range(2))
    assert once == again and once[1] is False and bars({"日本": 1}, "rows").pdf()[1] is True, "boxes are told"
    assert "exists already" in refused(*arguments)


def test_figures_for_which_there_is_no_room_leave_no_folder_that_would_be_refused_later(tmp_path):
    parts = [Part("models", "Models", "", pl.DataFrame({"model": ["a"], "rows": [1]}), bars({"a": 1}, "rows"))]
    with room_for(100), pytest.raises(OSError, match="too large"):
        write_new_figures(str(tmp_path / "print"), lambda: parts)
    assert not (tmp_path / "print").exists()
    write_new_figures(str(tmp_path / "print"), lambda: parts)
    assert [path.name for path in tmp_path.iterdir()] == ["print"]


def _section(key, names, *rows):
    """A section with a table of texts."""
    return ShownPart(key, key, "", len(rows), b"", [(name, False) for name in names], rows)


def _start(*sections, numbers=None, embedded=()):
    """Question -> value and words of the start of a page."""
    counts = {"dropped": 40, "rejected": 10, "dropped_by": {"face": 40}, "rejected_by": {"not_json": 10}}
    funnel = Funnel(lines=200, kept=150, **counts)
    figures = decisive_figures(sections, funnel, numbers or {}, embedded)
    return {figure.question: (figure.value, figure.about) for figure in figures}


def test_the_start_has_ten_figures_of_the_tables_below():
    told = _start(
        _section("removed", ["outcome", "reason", "lines"], ["dropped", "superseded", "77"], ["dropped", "face", "40"]),
        _section("redactions", ["part", "replaced"], ["text", "1,200"], ["image", "34"]),
        _section("detector_precision", ["type", "precision"], ["email", "0.98"], ["person", "0.7"]),
        _section("vote_checks", ["check", "votes"], ["suspects", "12"], ["not_in_full", "3"]),
        _section("fragility", ["slice", "contest", "removed"], ["overall", "first_place", "5"]),
        _section("leaderboard_overall", ["model", "battles", "flags"], ["ant", "900", ""]),
        _section("topics", ["topic", "documents"], ["-1", "25"], ["0", "75"]),
        numbers={"conversations": 1_000, "battles": 20},
        embedded=["faces"],
    )
    assert len(told) == 10
    assert told == {
        "Does a stand-in measure anything?": ("1", "stand-ins; publishing asks for 0"),
        "How much of the logs is kept?": ("75.0 %", "of 200"),
        "What removed most?": ("face", "40 lines"),
        "How much is released?": ("1,000 + 20", "conversations + battles"),
        "What was redacted?": ("1,234", "places in texts and images"),
        "Do people confirm the detectors?": ("0.7", "lowest precision, of person"),
        "Do votes look wrong?": ("12", "votes of suspects; 3 votes not in full"),
        "How few votes change the first place?": ("5", "votes removed, the fewest found"),
        "Which model is first?": ("ant", "900 battles, no flags"),
        "How many prompts fit no topic?": ("25.0 %", "of those with a place"),
    }


def test_the_start_says_what_is_missing():
    told = _start()
    assert told["Do people confirm the detectors?"] == ("–", "nobody reviewed what they found")
    assert told["Which model is first?"] == ("–", "there is no board")


def test_tables_of_another_form_end_nothing():
    told = _start(_section("topics", ["name"], ["x"]), _section("redactions", ["replaced"], ["many"]))
    assert told["How many prompts fit no topic?"][0] == "–"


def test_chapters_are_closed_and_each_has_its_sections(report):
    html = (report / "index.html").read_text(encoding="utf-8")
    chapters = html.split("<details>\n<summary>")[1:]
    assert len(chapters) > 3
    assert all(re.match(r"[\w ]+ \((\d+)\)</summary>", chapter) for chapter in chapters)
    assert html.index("What decides whether to publish") < html.index("<section")
