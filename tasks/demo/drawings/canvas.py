"""A sheet to draw on. Fonts are the ones that Pillow and matplotlib ship, so no system font is needed."""

import colorsys
import importlib.util
from functools import cache
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import PIL.Image
import PIL.ImageDraw
import PIL.ImageFont

Colour = tuple[int, int, int]

INK: Colour = (30, 30, 34)
WHITE: Colour = (255, 255, 255)
FACES = {
    "plain": None,
    "sans": "DejaVuSans.ttf",
    "bold": "DejaVuSans-Bold.ttf",
    "serif": "DejaVuSerif.ttf",
    "mono": "DejaVuSansMono.ttf",
}
"""Typefaces by name. `plain` is Pillow's own, which knows Basic Latin only; the others know Cyrillic and Vietnamese."""


class Drawing(NamedTuple):
    """A picture and what it shows."""

    image: PIL.Image.Image
    facts: dict[str, str]
    """Words that prompts and answers about the picture are filled with."""


@cache
def font(face: str, size: int) -> PIL.ImageFont.FreeTypeFont:
    """A typeface of `FACES` at a size in pixels."""
    file = FACES[face]
    if file is None:
        plain = PIL.ImageFont.load_default(size=size)
        assert isinstance(plain, PIL.ImageFont.FreeTypeFont), "Pillow is built with FreeType"
        return plain
    return PIL.ImageFont.truetype(str(shipped("matplotlib", "mpl-data/fonts/ttf") / file), size)


@cache
def shipped(package: str, folder: str) -> Path:
    """A folder of data that an installed package ships; the package is not imported."""
    found = importlib.util.find_spec(package)
    assert found is not None and found.submodule_search_locations, "a core dependency"
    return Path(found.submodule_search_locations[0]) / folder


def shade(hue: float, saturation: float, brightness: float) -> Colour:
    """A colour from hue (turns), saturation and brightness (0 to 1)."""
    red, green, blue = colorsys.hsv_to_rgb(hue % 1, saturation, brightness)
    return int(red * 255), int(green * 255), int(blue * 255)


class Canvas:
    """A sheet with its own colours and typeface."""

    def __init__(self, rng: Random, width: int, height: int, paper: Colour | None = None) -> None:
        self.rng = rng
        self.width, self.height = width, height
        self.hue = rng.random()
        self.face = rng.choice(["plain", "sans", "serif"])
        self.paper = paper or rng.choice([WHITE, WHITE, shade(self.hue, 0.06, 0.97), shade(self.hue + 0.4, 0.1, 0.93)])
        self.image = PIL.Image.new("RGB", (width, height), self.paper)
        self.draw = PIL.ImageDraw.Draw(self.image)

    @classmethod
    def any_size(cls, rng: Random, paper: Colour | None = None) -> "Canvas":
        """A sheet of some size, upright or wide, at most 512 pixels a side."""
        width, height = rng.randint(300, 512), rng.randint(240, 512)
        return cls(rng, width, height, paper)

    def colours(self, count: int) -> list[Colour]:
        """Colours that are easily told apart."""
        saturation, brightness = self.rng.uniform(0.45, 0.9), self.rng.uniform(0.55, 0.95)
        return [shade(self.hue + index / count, saturation, brightness) for index in range(count)]

    def text(self, place: tuple[float, float], text: str, size: int, fill: Colour = INK, **options: Any) -> None:
        """Write one line; `face` and Pillow's `anchor` are options."""
        face = options.pop("face", self.face)
        self.draw.text(place, text, fill=fill, font=font(face, size), **options)

    def text_width(self, text: str, size: int, face: str | None = None) -> float:
        """Pixels that a line takes."""
        return float(font(face or self.face, size).getlength(text))

    def fitting(self, text: str, width: float, size: int, face: str | None = None) -> int:
        """The largest size, at most `size`, at which the line fits into `width` pixels."""
        while size > 8 and self.text_width(text, size, face) > width:
            size -= 1
        return size

    def arrow(self, start: tuple[float, float], end: tuple[float, float], fill: Colour = INK) -> None:
        """A line with a head at its end, for lines along an axis."""
        (x0, y0), (x, y) = start, end
        self.draw.line([start, end], fill=fill, width=2)
        back_x, back_y = (0 if x == x0 else (7 if x > x0 else -7)), (0 if y == y0 else (7 if y > y0 else -7))
        side_x, side_y = (5 if back_y else 0), (5 if back_x else 0)
        head = [(x, y), (x - back_x + side_x, y - back_y + side_y), (x - back_x - side_x, y - back_y - side_y)]
        self.draw.polygon(head, fill=fill)
