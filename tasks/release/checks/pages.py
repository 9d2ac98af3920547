"""Elements that a browser may find in the report and its figures: those that this program writes, and none that acts.

The report is read as strictly as it is written: every tag in its plain form, closed in order, no other `<`. So another
parser finds the same elements. Figures are XML.
"""

import base64
import re
from dataclasses import dataclass, field
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from xml.parsers import expat

from tasks.runtime.untrusted import one_line

REPORT = "report/index.html"
FIGURES_FOLDER = "report/figures"
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
_VOID = {"meta", "img"}
_TEXT = r"[^\"<>]*"
_STYLES = re.compile(r"url\s*\(|@|\\|<|expression|javascript", re.IGNORECASE)
"""Parts of a style that load or run something; `url(#…)` of figures names a part of the same file."""
_PAGE: dict[str, dict[str, str]] = {
    **{tag: {} for tag in ("head", "title", "style", "body", "h1", "h2", "b", "nav", "figure", "summary")},
    **{tag: {} for tag in ("table", "thead", "tbody", "tr")},
    **{tag: {"class": r"[a-z ]+"} for tag in ("p", "div", "span", "th", "td")},
    "html": {"lang": "en"},
    "meta": {"charset": "utf-8", "name": "viewport", "content": _TEXT, "http-equiv": "Content-Security-Policy"},
    "section": {"id": r"[\w-]+"},
    "details": {"open": ""},
    "a": {"href": r"#[\w-]+|(?:tables/[\w-]+\.csv|figures/[\w-]+\.svg)"},
    "img": {"alt": _TEXT, "src": r"data:image/svg\+xml;base64,[A-Za-z0-9+/=]*"},
}
"""Element of the report -> its attributes and what they may be."""
_HERE = r"#[\w.-]+"
_NUMBERS = r"[-+.,\w\s()]*"
_SHAPE = {"id": r"[\w.-]+", "style": _TEXT, "transform": _NUMBERS, "clip-path": rf"url\({_HERE}\)"}
_PLACE = dict.fromkeys(("x", "y", "width", "height"), _NUMBERS)
_FIGURE: dict[str, dict[str, str]] = {
    "svg": {**_PLACE, "viewBox": _NUMBERS, "version": r"1\.1"},
    "style": {"type": "text/css"},
    **dict.fromkeys(("defs", "g", "text", "tspan", "clipPath"), _SHAPE | _PLACE),
    **dict.fromkeys(("rect", "path"), _SHAPE | _PLACE | {"d": _NUMBERS}),
    "use": _SHAPE | _PLACE | {"href": _HERE},
    "image": _SHAPE | _PLACE | {"href": r"data:image/png;base64,[A-Za-z0-9+/=\s]*"},
}
"""Element of a figure -> its attributes and what they may be."""
_SVG, _XLINK = "http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"


class _Odd(Exception):
    """Something that no report and no figure has."""


@dataclass
class PageSection:
    """A section of the report as a browser shows it."""

    title: str = ""
    summary: str = ""
    """The line above the table."""
    columns: list[str] = field(default_factory=list)
    numeric: list[bool] = field(default_factory=list)
    """Whether each column is shown as numbers."""
    rows: list[list[str]] = field(default_factory=list)
    paragraphs: list[str] = field(default_factory=list)


@dataclass
class ShownReport:
    """Texts that a browser shows of the report."""

    paragraphs: list[str] = field(default_factory=list)
    """Texts outside of sections."""
    numbers: dict[str, str] = field(default_factory=dict)
    """Name of a count -> the number at the head of the page."""
    sections: dict[str, PageSection] = field(default_factory=dict)


def read_pages(folder: Path) -> tuple[ShownReport | None, list[str]]:
    """The report, None without one that can be read; a problem for each page with something that no release has."""
    problems = []
    figures = {path: path.read_bytes() for path in sorted((folder / FIGURES_FOLDER).glob("*.svg"))}
    for path, content in figures.items():
        try:
            _read_figure(content)
        except (_Odd, expat.ExpatError) as error:
            problems.append(f"{FIGURES_FOLDER}/{path.name}: {error}")
    if not (page := folder / REPORT).is_file():
        return None, problems
    try:
        reader = _Page([base64.b64encode(content).decode() for content in figures.values()])
        return reader.read(page.read_text(encoding="utf-8")), problems
    except _Odd as error:
        return None, [*problems, f"{REPORT}: {error}"]


def _require(allowed: dict[str, dict[str, str]], tag: str, attributes: dict[str, str]) -> None:
    """Raises _Odd for an element or an attribute that is not on the list, or has another value."""
    if tag not in allowed:
        raise _Odd(f"has an element that it never has: {one_line(tag, 40)!r}")
    for name, value in attributes.items():
        if name not in allowed[tag] or not re.fullmatch(allowed[tag][name], value):
            raise _Odd(f"has an attribute of {tag!r} that it never has: {one_line(name, 40)!r}")


def _require_style(style: str) -> None:
    if active_style := _STYLES.search(re.sub(rf"url\({_HERE}\)", "", style)):
        raise _Odd(f"has a style that loads or runs something: {one_line(active_style[0], 40)!r}")


def _read_figure(content: bytes) -> None:
    """Raises _Odd, or ExpatError for a file that is no XML."""
    parser = expat.ParserCreate("utf-8", namespace_separator=" ")
    inside: list[str] = []

    def plain(name: str, spaces: tuple[str, ...]) -> str:
        space, _, local = name.rpartition(" ")
        if space not in spaces:
            raise _Odd(f"has a name that it never has: {one_line(name, 60)!r}")
        return local

    def start(name: str, attributes: dict[str, str]) -> None:
        tag = plain(name, (_SVG,))
        inside.append(tag)
        _require(_FIGURE, tag, {plain(key, ("", _XLINK)): value for key, value in attributes.items()})
        _require_style(attributes.get("style", ""))

    def text(words: str) -> None:
        if inside[-1] == "style":
            _require_style(words)

    def never(*_: object) -> None:
        raise _Odd("has a declaration or an instruction that it never has")

    parser.buffer_text = True
    parser.StartElementHandler, parser.EndElementHandler = start, lambda _: inside.pop()
    parser.CharacterDataHandler = text
    parser.StartDoctypeDeclHandler = parser.ProcessingInstructionHandler = never
    parser.Parse(content, True)


class _Page(HTMLParser):
    """Reads a report; `figures` are its figures in base64."""

    def __init__(self, figures: list[str]) -> None:
        super().__init__(convert_charrefs=False)
        self._figures, self._inside, self._guarded = {*figures}, list[str](), False
        self._texts: list[list[str]] = [[]]
        """Texts so far of the elements that are open."""
        self._shown, self._section = ShownReport(), PageSection()
        self._row, self._number = list[str](), ""

    def read(self, text: str) -> ShownReport:
        """Text that is shown. Raises _Odd."""
        self.feed(text)
        self.close()
        if self._inside or not self._guarded:
            raise _Odd("ends too early, or lets a browser load more than it needs")
        return self._shown

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Check an element; raises _Odd."""
        written = "".join(f" {n}" if v is None else f' {n}="{v}"' for n, v in self._raw(attrs))
        values = {name: value or "" for name, value in attrs}
        _require(_PAGE, tag, values)
        if self.get_starttag_text() != f"<{tag}{written}>" or len(values) < len(attrs):
            raise _Odd(f"has a tag in a form that it never has: {tag!r}")
        if tag == "meta" and "http-equiv" in values:
            self._guarded = values.get("content") == _POLICY and self._inside == ["html", "head"]
        elif tag not in ("html", "head", "title", "meta", "style") and not self._guarded:
            raise _Odd("lets a browser load more than it needs")
        if tag == "img" and values.get("src", "").rpartition(",")[2] not in self._figures:
            raise _Odd("shows a figure that is not one of report/figures")
        if tag not in _VOID:
            self._inside.append(tag)
            self._texts.append([])
        if tag == "section":
            if values["id"] in self._shown.sections:
                raise _Odd(f"has a section twice: {one_line(values['id'], 40)!r}")
            self._section = self._shown.sections[values["id"]] = PageSection()
        elif tag == "th" and "section" in self._inside:
            self._section.numeric.append(values.get("class") == "n")

    def _raw(self, attrs: list[tuple[str, str | None]]) -> list[tuple[str, str | None]]:
        """The attributes as they stand in the file, with their character references."""
        raw = dict(re.findall(rf' ([\w-]+)="({_TEXT})"', self.get_starttag_text() or ""))
        return [(name, None if value is None else raw.get(name, value)) for name, value in attrs]

    def handle_endtag(self, tag: str) -> None:
        """Check that elements are closed in order; raises _Odd."""
        if not self._inside or self._inside.pop() != tag:
            raise _Odd(f"closes an element that is not open: {one_line(tag, 40)!r}")
        text = "".join(self._texts.pop())
        self._texts[-1].append(text)
        self._closed(tag, text)

    def _closed(self, tag: str, text: str) -> None:
        """Keep the text of an element that ends."""
        within, section = "section" in self._inside, self._section
        if tag in ("th", "td", "tr", "thead") and not within:  # the figures of the start, which are made again
            return
        if tag in ("th", "td"):
            self._row.append(text)
        elif tag == "tr":
            section.rows.append(self._row)
            self._row = []
        elif tag == "thead":
            section.columns = [name for row in section.rows for name in row]
            section.rows = []
        elif tag == "summary" and within:
            section.summary = text
        elif tag == "h2" and within:
            section.title = text
        elif tag == "p":
            (section if within else self._shown).paragraphs.append(text)
        elif tag == "b":
            self._number = text
        elif tag == "div" and not within and text.startswith(self._number) and "\n" not in text:
            self._shown.numbers[text.removeprefix(self._number)] = self._number

    def handle_entityref(self, name: str) -> None:
        """Take in an entity such as `&amp;`."""
        self._texts[-1].append(unescape(f"&{name};"))

    def handle_charref(self, name: str) -> None:
        """Take in a character by its number."""
        self._texts[-1].append(unescape(f"&#{name};"))

    def handle_data(self, data: str) -> None:
        """Check a text; raises _Odd."""
        self._texts[-1].append(data)
        if self._inside[-1:] == ["style"]:
            _require_style(re.sub(r"@media [a-z(): 0-9,-]+\{", "", data))
        elif "<" in data:
            raise _Odd("has a < that is no tag")

    def handle_decl(self, decl: str) -> None:
        """Raises _Odd for another declaration than that of HTML."""
        if decl != "doctype html":
            self.unknown_decl(decl)

    def unknown_decl(self, data: str) -> None:
        """Raises _Odd."""
        raise _Odd("has a comment, a declaration or an instruction that it never has")

    handle_comment = handle_pi = unknown_decl
