"""A sheet to draw on, with fonts that Pillow and matplotlib ship, and photographs that installed packages ship."""

import colorsys
import importlib.util
import math
from functools import cache
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import PIL.Image
import PIL.ImageDraw
import PIL.ImageFont

from tasks.runtime.untrusted import read_yaml

Colour = tuple[int, int, int]
Point = tuple[float, float]
CanvasBox = tuple[float, float, float, float]
"""left, top, right, bottom"""

CANVAS_INK: Colour = (30, 30, 34)
CANVAS_GREY: Colour = (110, 110, 116)
WHITE: Colour = (255, 255, 255)
FONTS = {
    "sans": "DejaVuSans.ttf",
    "bold": "DejaVuSans-Bold.ttf",
    "serif": "DejaVuSerif.ttf",
    "mono": "DejaVuSansMono.ttf",
}
"""Files of matplotlib's fonts. The font `plain` is Pillow's own, which has Basic Latin only."""


class DrawnImage(NamedTuple):
    """An image and what it shows."""

    image: PIL.Image.Image
    facts: dict[str, str]
    """Words that prompts and answers about the image are filled with."""


@cache
def font(name: str, size: int) -> PIL.ImageFont.FreeTypeFont:
    """`plain`, or a font of `FONTS`, at a size in pixels."""
    if name == "plain":
        plain = PIL.ImageFont.load_default(size=size)
        assert isinstance(plain, PIL.ImageFont.FreeTypeFont), "Pillow is built with FreeType"
        return plain
    return PIL.ImageFont.truetype(str(shipped("matplotlib", "mpl-data/fonts/ttf") / FONTS[name]), size)


@cache
def shipped(package: str, folder: str) -> Path:
    """A data folder of an installed package, which is not imported."""
    spec = importlib.util.find_spec(package)
    assert spec is not None and spec.submodule_search_locations, "a core dependency"
    return Path(spec.submodule_search_locations[0]) / folder


def shade(hue: float, saturation: float, brightness: float) -> Colour:
    """A colour from hue (turns), saturation and brightness (0 to 1)."""
    red, green, blue = colorsys.hsv_to_rgb(hue % 1, saturation, brightness)
    return int(red * 255), int(green * 255), int(blue * 255)


class Canvas:
    """A sheet with its own colours and font."""

    def __init__(self, rng: Random, width: int, height: int, paper: Colour | None = None) -> None:
        self.rng = rng
        self.width, self.height = width, height
        self.hue = rng.random()
        self.font = rng.choice(["plain", "sans", "serif"])
        self.paper = paper or rng.choice([WHITE, WHITE, shade(self.hue, 0.06, 0.97), shade(self.hue + 0.4, 0.1, 0.93)])
        self.image = PIL.Image.new("RGB", (width, height), self.paper)
        self.draw = PIL.ImageDraw.Draw(self.image)

    @classmethod
    def any_size(cls, rng: Random, paper: Colour | None = None) -> "Canvas":
        """A sheet of some size, upright or wide, at most 512 pixels a side."""
        return cls(rng, rng.randint(300, 512), rng.randint(240, 512), paper)

    def colours(self, count: int) -> list[Colour]:
        """Colours that are easily told apart."""
        saturation, brightness = self.rng.uniform(0.45, 0.9), self.rng.uniform(0.55, 0.95)
        return [shade(self.hue + index / count, saturation, brightness) for index in range(count)]

    def place(self, margin: float = 0.0) -> Point:
        """Any point that is `margin` pixels or more from the edges."""
        return self.rng.uniform(margin, self.width - margin), self.rng.uniform(margin, self.height - margin)

    def disc(self, x: float, y: float, radius: float, fill: Colour | None = None, **options: Any) -> None:
        """A circle around a point; `flat` (below 1) makes it an oval."""
        high = radius * options.pop("flat", 1.0)
        self.draw.ellipse((x - radius, y - high, x + radius, y + high), fill=fill, **options)

    def text(
        self, place: Point, text: str, size: int, fill: Colour = CANVAS_INK, width: float = math.inf, **more: Any
    ) -> None:
        """One line of text, at most `width` pixels wide; a `font` and Pillow's `anchor` are options."""
        name = more.pop("font", self.font)
        while size > 8 and self.text_width(text, size, name) > width:
            size -= 1
        self.draw.text(place, text, fill=fill, font=font(name, size), **more)

    def text_width(self, text: str, size: int, name: str | None = None) -> float:
        """Pixels that a line takes."""
        return float(font(name or self.font, size).getlength(text))


CANVAS_SIDE_MAX = 512


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
    return [Photograph(**entry) for entry in read_yaml(Path(__file__).with_name("photographs.yaml"))[group]]


def view(photograph: Photograph, cut: tuple[int, int, int] = (1, 0, 0)) -> DrawnImage:
    """The tile (n, column, row) of an n x n grid, by default the whole photograph, at most 512 pixels a side."""
    n, column, row = cut
    with PIL.Image.open(shipped(photograph.package, "") / photograph.file) as opened:
        image = opened.convert("RGB")
    wide, high = image.width // n, image.height // n
    tile = image.crop((column * wide, row * high, (column + 1) * wide, (row + 1) * high))
    tile.thumbnail((CANVAS_SIDE_MAX, CANVAS_SIDE_MAX))
    return DrawnImage(tile, dict(photograph.facts))
