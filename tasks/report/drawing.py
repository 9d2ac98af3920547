"""Shapes and texts of one figure as SVG text, the same bytes for the same calls.

Lengths are points (1/72 inch) from the top left corner. Text stays text, so the browser finds the glyphs; widths of
texts, which only margins need, are those of DejaVu Sans, near enough.
"""

import re
import unicodedata
from collections.abc import Iterable
from html import escape
from typing import Literal

TEXT, SMALL = 9.0, 8.0
"""Sizes of letters, in points."""
_FONTS = "DejaVu Sans, Verdana, sans-serif"
_NOT_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
_WIDE, _MIDDLE = 0.98, 0.64
_EM = (
    dict.fromkeys("ijlI.,:;|!'` ", 0.33)
    | dict.fromkeys('frt()[]{}-/\\"', 0.41)
    | dict.fromkeys("mwMW@%", _WIDE)
    | dict.fromkeys("ABCDEFGHKLNOPQRSTUVXYZ&…", 0.75)
)
"""Widths of characters, in letter sizes; others are as wide as a digit, or full."""


def text_width(text: str, size: float = TEXT) -> float:
    """About how wide a text is drawn, in points."""
    return size * sum(_em(character) for character in text)


def _em(character: str) -> float:
    known = _EM.get(character)
    if known is not None:
        return known
    if unicodedata.combining(character):
        return 0.0
    return 1.1 if unicodedata.east_asian_width(character) in "WF" else _MIDDLE


class Drawing:
    """A figure of a width and height; what is drawn later covers what is there."""

    def __init__(self, width: float, height: float) -> None:
        self._shapes: list[str] = []
        self.width, self.height = width, height
        self.rectangle(0, 0, width, height, "#ffffff")

    def rectangle(self, x: float, y: float, width: float, height: float, colour: str) -> None:
        """A filled rectangle, from its top left corner."""
        at = f'x="{_number(x)}" y="{_number(y)}" width="{_number(width)}" height="{_number(height)}"'
        self._shapes.append(f'<rect {at} fill="{colour}"/>')

    def line(self, points: Iterable[tuple[float, float]], colour: str = "#000000", width: float = 0.8) -> None:
        """Straight lines from point to point."""
        steps = "L".join(f"{_number(x)} {_number(y)}" for x, y in points)
        self._shapes.append(f'<path d="M{steps}" fill="none" stroke="{colour}" stroke-width="{_number(width)}"/>')

    def dots(self, points: Iterable[tuple[float, float]], colour: str, diameter: float) -> None:
        """Round dots, all of one colour: lines that are almost no longer than nothing, with round ends."""
        steps = "".join(f"M{_number(x)} {_number(y)}h.01" for x, y in points)
        if steps:
            ends = f'stroke="{colour}" stroke-width="{_number(diameter)}" stroke-linecap="round"'
            self._shapes.append(f'<path d="{steps}" {ends}/>')

    def text(
        self,
        x: float,
        y: float,
        text: str,
        anchor: Literal["start", "middle", "end"] = "start",
        size: float = TEXT,
        colour: str = "#000000",
        bold: bool = False,
        upwards: bool = False,
    ) -> None:
        """A text whose start, middle or end is at x and whose lower-case letters are about centred on y."""
        style = "" if anchor == "start" else f' text-anchor="{anchor}"'
        style += "" if size == TEXT else f' font-size="{_number(size)}"'
        style += "" if colour == "#000000" else f' fill="{colour}"'
        style += ' font-weight="bold"' if bold else ""
        low = 0.36 * size
        at = f'x="{_number(x)}" y="{_number(y + low)}"'
        if upwards:
            at = f'transform="translate({_number(x + low)} {_number(y)}) rotate(-90)"'
        self._shapes.append(f"<text {at}{style}>{escape(_NOT_XML.sub('', text))}</text>")

    def svg(self) -> str:
        """The whole figure."""
        width, height = _number(self.width), _number(self.height)
        size = f'width="{width}pt" height="{height}pt" viewBox="0 0 {width} {height}"'
        head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="{_FONTS}" font-size="{_number(TEXT)}">'
        return "\n".join([head, *self._shapes, "</svg>\n"])


def _number(value: float) -> str:
    """With two decimals at most, and never -0."""
    text = f"{value:.2f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text
