"""Draws cases of failures: pictures on the left; on the right prompt, reference and answers with their marks.

In: texts and encoded pictures that may be shown. Out: a figure, as SVG or PDF, in which text stays text. Lengths are in
points. Long texts are cut; the page and the table beside the figures have them whole.
"""

import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch
from PIL import Image

from tasks.report.page import (
    COLUMN_WIDTH,
    EDGE,
    FADED,
    INK,
    SMALL,
    TEXT_POINTS,
    drawn_late,
    new_figure,
    panel,
    shown_name,
    text_width,
)
from tasks.storage.queries.failures import (
    BY_PEOPLE,
    BY_REFUSAL,
    BY_VOTES,
    PROPOSED,
    REFUSED,
    RIGHT,
    UNKNOWN_MARK,
    WRONG,
)

PICTURE_WIDTH, PICTURE_HEIGHT = 196.0, 190.0
PICTURES_MAX = 3
_GAP, _LINE, _HEAD = 14.0, 12.4, 20.0
"""Between pictures and texts, height of a line, and height of a case's heading."""
_MARK_WIDTH = 15.0
_SPARE = 1.02
"""Factor for the rounding of single characters."""
_PARAGRAPH_MAX = 2000
"""Characters of a paragraph that are looked at: more than any text has room for."""
_PROMPT_LINES_MAX, _REFERENCE_LINES_MAX, _ANSWER_LINES_MAX = 8, 8, 12
_PIXELS_A_POINT = 2.5
_GREEN, _RED, _BROWN = "#1f7a4d", "#b5483a", "#8a6a1f"
_LOOKS = {
    RIGHT: _GREEN, RIGHT + PROPOSED: _GREEN, WRONG: _RED, WRONG + PROPOSED: _RED, REFUSED: _BROWN, UNKNOWN_MARK: FADED,
}  # fmt: skip
"""Mark -> its colour."""
_WORDS = {RIGHT: "right", WRONG: "wrong", REFUSED: "refused", UNKNOWN_MARK: "not judged"}
_SAYS = {BY_PEOPLE: ", say reviewers", BY_VOTES: ", says every vote", BY_REFUSAL: ", as measured"}


@dataclass(frozen=True)
class CasePicture:
    """One picture of a case."""

    format: str
    """png or jpeg."""
    content: bytes
    """Encoded, without metadata."""


@dataclass(frozen=True)
class DrawnAnswer:
    """One model's answer; all null in the row of a case without an answer."""

    model: str | None
    text: str | None
    mark: str | None
    by: str | None
    """Whose word the mark is; null for `?`."""

    @property
    def verdict(self) -> str:
        """The mark in words, with whose word it is."""
        mark = self.mark or UNKNOWN_MARK
        if mark.endswith(PROPOSED):
            word = _WORDS[mark.removesuffix(PROPOSED)]
            return f"{word}, proposes {shown_name(self.by or '', 40)}, which read the reference"
        return f"{_WORDS[mark]}{_SAYS.get(self.by or '', '')}"


@dataclass(frozen=True)
class DrawnCase:
    """A case as it may be shown, or an example of what people ask, which has no answers."""

    question_id: str
    title: str
    """Type or class in words."""
    note: str
    """More about it, in a line."""
    prompt: str
    reference: str | None
    reference_by: str | None
    pictures: tuple[CasePicture, ...]
    answers: tuple[DrawnAnswer, ...]


@dataclass(frozen=True)
class _Block:
    """A text with its heading, and the mark and colour of an answer."""

    heading: str
    lines: list[str]
    mark: str = ""
    colour: str = FADED

    @property
    def height(self) -> float:
        """Height with the gap below."""
        return (1 + len(self.lines)) * _LINE + 8.0


@dataclass(frozen=True)
class _LaidOut:
    """A case with everything at its place: pictures with their sizes, and texts."""

    case: DrawnCase
    pictures: list[Image.Image]
    blocks: list[_Block]

    @property
    def height(self) -> float:
        """Height of heading, pictures or texts, whichever is higher, and the gap below."""
        drawn = sum(size_on_figure(picture)[1] + EDGE for picture in self.pictures)
        return _HEAD + max(drawn, sum(block.height for block in self.blocks)) + EDGE


@drawn_late
def drawn_cases(cases: Sequence[DrawnCase]) -> Figure:
    """Cases one below the other."""
    laid_out = [_laid_out(case) for case in cases]
    height = sum(case.height for case in laid_out) + EDGE
    figure = new_figure(height)
    axes = panel(figure, 0, 0, 0, 0)
    axes.set_xlim(0, COLUMN_WIDTH)
    axes.set_ylim(height, 0)
    axes.set_axis_off()
    tops = accumulate((case.height for case in laid_out), initial=EDGE)
    for top, case in zip(tops, laid_out, strict=False):
        _draw(axes, top, case)
    axes.set_xlim(0, COLUMN_WIDTH)  # pictures move the limits
    axes.set_ylim(height, 0)
    axes.set_aspect("auto")
    return figure


def _laid_out(case: DrawnCase) -> _LaidOut:
    pictures = [picture_in_print(picture) for picture in case.pictures[:PICTURES_MAX]]
    left = EDGE + (PICTURE_WIDTH + _GAP if pictures else 0)
    blocks = [_Block("Prompt", _lines(case.prompt, COLUMN_WIDTH - left - EDGE, _PROMPT_LINES_MAX))]
    if case.reference is not None:
        lines = _lines(case.reference, COLUMN_WIDTH - left - EDGE, _REFERENCE_LINES_MAX)
        blocks.append(_Block(f"Reference, by {case.reference_by}", lines))
    for answer in case.answers:
        lines = _lines(answer.text or "", COLUMN_WIDTH - left - EDGE - _GAP, _ANSWER_LINES_MAX)
        mark = answer.mark or ""
        heading = f"{shown_name(answer.model or '', 40)}: {answer.verdict}"
        blocks.append(_Block(heading, lines, mark, _LOOKS.get(mark, FADED)))
    return _LaidOut(case, pictures, blocks)


def picture_in_print(picture: CasePicture) -> Image.Image:
    """The decoded picture, no larger than the figure shows it in print."""
    with Image.open(io.BytesIO(picture.content)) as opened:
        pixels = opened.convert("RGB")
    pixels.thumbnail((round(PICTURE_WIDTH * _PIXELS_A_POINT), round(PICTURE_HEIGHT * _PIXELS_A_POINT)))
    return pixels


def size_on_figure(picture: Image.Image) -> tuple[float, float]:
    """Width and height on the figure, in its proportions."""
    scale = min(PICTURE_WIDTH / picture.width, PICTURE_HEIGHT / picture.height)
    return picture.width * scale, picture.height * scale


def _draw(axes: Axes, top: float, case: _LaidOut) -> None:
    axes.plot([EDGE, COLUMN_WIDTH - EDGE], [top, top], color="#d5dae1", linewidth=0.6)
    axes.text(EDGE, top + 5, shown_name(case.case.title), va="top", fontsize=TEXT_POINTS + 1, fontweight="bold")
    axes.text(
        COLUMN_WIDTH - EDGE, top + 6, shown_name(case.case.note, 80), va="top", ha="right", fontsize=SMALL, color=FADED
    )
    below = top + _HEAD
    for picture in case.pictures:
        wide, high = size_on_figure(picture)
        pixels = np.asarray(picture)
        axes.imshow(pixels, extent=(EDGE, EDGE + wide, below + high, below), interpolation="none", aspect="auto")
        below += high + EDGE
    left, below = EDGE + (PICTURE_WIDTH + _GAP if case.pictures else 0), top + _HEAD
    for block in case.blocks:
        _draw_block(axes, left, below, block)
        below += block.height


def _draw_block(axes: Axes, left: float, top: float, block: _Block) -> None:
    start = left
    if block.mark:
        box = FancyBboxPatch(
            (left, top - 0.5), 15, 11, "round,pad=0,rounding_size=2.5", color=block.colour, linewidth=0
        )
        axes.add_patch(box)
        axes.text(left + _MARK_WIDTH / 2, top + 5, block.mark, ha="center", va="center", fontsize=SMALL, color="white")
        start += _MARK_WIDTH + 5
    axes.text(start, top + 5, block.heading, va="center", fontsize=SMALL, color=block.colour, fontweight="bold")
    for number, line in enumerate(block.lines, 1):
        axes.text(
            left + (_GAP if block.mark else 0), top + number * _LINE, line, va="top", fontsize=TEXT_POINTS, color=INK
        )


def _lines(text: str, width: float, lines_max: int) -> list[str]:
    """The text broken into lines of a width; the last one ends in … where there would be more."""
    lines = list[str]()
    for line in _broken(text, width):
        if len(lines) == lines_max:
            lines[-1] = f"{_pieces(lines[-1], width - _width(' …'))[0].rstrip()} …"
            break
        lines.append(line)
    return lines


def _broken(text: str, width: float) -> Iterator[str]:
    """Lines of at most a width, broken at spaces, and within words that are longer than a line."""
    for paragraph in text.splitlines():
        line, used = "", 0.0
        for word in shown_name(paragraph, _PARAGRAPH_MAX).split(" "):
            wide = _width(word)
            if line and used + _width(" ") + wide <= width:
                line, used = f"{line} {word}", used + _width(" ") + wide
                continue
            if line:
                yield line
            *whole, line = _pieces(word, width)
            yield from whole
            used = _width(line)
        if line:
            yield line


def _pieces(word: str, width: float) -> list[str]:
    """A word in pieces of at most a width; most words are one piece."""
    pieces, piece, used = list[str](), "", 0.0
    for sign in word:
        if piece and used + _width(sign) > width:
            pieces.append(piece)
            piece, used = "", 0.0
        piece, used = piece + sign, used + _width(sign)
    return [*pieces, piece]


def _width(text: str) -> float:
    """Width of a text from its characters, a little too large; measuring whole lines takes a hundred times as long."""
    return _SPARE * sum(map(_width_of_sign, text))


@lru_cache(4096)
def _width_of_sign(sign: str) -> float:
    """Width of one character between others."""
    return text_width(f"x{sign}x") - text_width("xx")
