"""Photographs that installed packages ship, for the demo and for the probes of every run."""

from functools import cache
from pathlib import Path
from typing import NamedTuple

import PIL.Image

from tasks.drawing.canvas import DrawnImage, shipped
from tasks.runtime.yaml_files import read_yaml

SIDE_MAX = 512


class Photograph(NamedTuple):
    """A photograph shipped with scikit-image, scikit-learn or matplotlib; see `photographs.yaml`."""

    package: str
    file: str
    family: str
    tiles: int
    facts: dict[str, str]


@cache
def photographs(group: str) -> list[Photograph]:
    """The photographs of a group: `scenes` (may be released) or `faces` (may not)."""
    return [Photograph(**entry) for entry in read_yaml(Path(__file__).with_suffix(".yaml"))[group]]


def view(photograph: Photograph, cut: tuple[int, int, int] = (1, 0, 0)) -> DrawnImage:
    """The tile (n, column, row) of an n x n grid, by default the whole photograph, at most 512 pixels a side."""
    n, column, row = cut
    with PIL.Image.open(shipped(photograph.package, "") / photograph.file) as opened:
        image = opened.convert("RGB")
    wide, high = image.width // n, image.height // n
    tile = image.crop((column * wide, row * high, (column + 1) * wide, (row + 1) * high))
    tile.thumbnail((SIDE_MAX, SIDE_MAX))
    return DrawnImage(tile, dict(photograph.facts))
