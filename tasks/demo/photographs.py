"""Photographs that installed packages ship: scikit-image, scikit-learn and matplotlib (see their licence files)."""

from functools import cache
from typing import Any

import PIL.Image

from schemas.row import Row
from tasks.demo.drawings.canvas import Drawing, shipped
from tasks.demo.words import load

SIDE_MAX = 512


class Photograph(Row):
    """One shipped file."""

    package: str
    """Package that ships it."""
    file: str
    """Path inside the package."""
    family: str
    """Picture family that its topic names."""
    tiles: int
    """1 for the whole picture; n also cuts it into n x n."""
    facts: dict[str, str]
    """What it shows."""


@cache
def photographs(group: str) -> list[Photograph]:
    """The files of a group: `scenes`, which are fit for release, or `faces`, which are not."""
    listed: list[dict[str, Any]] = load("photographs")[group]
    return [Photograph(**entry) for entry in listed]


def views(photograph: Photograph) -> list[tuple[int, int, int]]:
    """What can be cut from a file: (n, column, row) of each tile of an n x n grid, the whole picture first."""
    grids = [1] if photograph.tiles == 1 else [1, photograph.tiles]
    return [(n, column, row) for n in grids for row in range(n) for column in range(n)]


def view(photograph: Photograph, cut: tuple[int, int, int]) -> Drawing:
    """One tile, shrunk to at most 512 pixels a side."""
    n, column, row = cut
    with PIL.Image.open(shipped(photograph.package, "") / photograph.file) as opened:
        image = opened.convert("RGB")
    wide, high = image.width // n, image.height // n
    tile = image.crop((column * wide, row * high, (column + 1) * wide, (row + 1) * high))
    tile.thumbnail((SIDE_MAX, SIDE_MAX))
    return Drawing(tile, dict(photograph.facts))
