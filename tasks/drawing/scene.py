"""Scenes as data, as sentences and as drawings: the grammar that author and image model share, and what it looks like.

A drawing is a setting of pale colours in some light, and things of strong colours in the cells of a grid.
Left and right are always the observer's.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from random import Random

import PIL.Image
import PIL.ImageEnhance

from tasks.drawing.canvas import Canvas, CanvasBox, Colour, shade

Outline = list[tuple[float, float]]

_BOX = 0.82
_ARM = 0.34


def _around(corners: int, start: float = -math.pi / 2, radii: tuple[float, ...] = (1.0,)) -> Outline:
    """Points around the centre; with several `radii` they take turns, as in a star."""
    angles = (start + math.tau * index / corners for index in range(corners))
    return [(radii[i % len(radii)] * math.cos(a), radii[i % len(radii)] * math.sin(a)) for i, a in enumerate(angles)]


def _heart() -> Outline:
    points = []
    for step in range(60):
        angle = math.tau * step / 60
        x = 16 * math.sin(angle) ** 3
        y = 13 * math.cos(angle) - 5 * math.cos(2 * angle) - 2 * math.cos(3 * angle) - math.cos(4 * angle)
        points.append((x / 17, -y / 17))
    return points


def _moon() -> Outline:
    outer = [(math.cos(a), math.sin(a)) for a in (math.radians(60 + step * 5) for step in range(49))]
    inner = [(0.45 + 0.87 * math.cos(a), 0.87 * math.sin(a)) for a in (math.radians(265 - s * 5) for s in range(35))]
    return [*outer, *inner]


OUTLINES: Mapping[str, Outline] = {
    "ball": _around(48),
    "box": [(-_BOX, -_BOX), (_BOX, -_BOX), (_BOX, _BOX), (-_BOX, _BOX)],
    "kite": [(0, -1), (0.62, 0), (0, 1), (-0.62, 0)],
    "star": _around(10, radii=(1.0, 0.42)),
    "tent": [(0, -0.9), (0.98, 0.8), (-0.98, 0.8)],
    "cross": [
        (-_ARM, -1), (_ARM, -1), (_ARM, -_ARM), (1, -_ARM), (1, _ARM), (_ARM, _ARM),
        (_ARM, 1), (-_ARM, 1), (-_ARM, _ARM), (-1, _ARM), (-1, -_ARM), (-_ARM, -_ARM),
    ],
    "ring": _around(48),
    "moon": _moon(),
    "heart": _heart(),
    "arrow": [(-1, -0.3), (0.15, -0.3), (0.15, -0.85), (1, 0), (0.15, 0.85), (0.15, 0.3), (-1, 0.3)],
}  # fmt: skip
"""Kind of thing -> its outline."""
HOLES: Mapping[str, float] = {"ring": 0.55}
"""Kind of thing with a round hole -> radius of the hole."""

THING_KINDS = tuple(OUTLINES)
COLOURS = {
    "red": 0.0, "orange": 0.075, "yellow": 0.155, "green": 0.36, "turquoise": 0.49, "blue": 0.625, "purple": 0.755,
    "pink": 0.905,
}  # fmt: skip
"""Colour -> hue in turns."""
SIZES = ("small", "large")
SPELLED = ("One", "Two", "Three", "Four", "Five", "Six")
PLACES = (
    "at the top left", "at the top", "at the top right",
    "on the left", "in the middle", "on the right",
    "at the bottom left", "at the bottom", "at the bottom right",
)  # fmt: skip
"""Cells of a grid of three rows and three columns, row by row."""
PLAIN = "plain"
SCENE_SETTINGS = {
    PLAIN: "The background is plain.",
    "meadow": "The scene is set in a meadow.",
    "beach": "The scene is set on a beach.",
    "snowfield": "The scene is set on a snowfield.",
    "room": "The scene is set in a room.",
    "street": "The scene is set on a street.",
}
"""Setting -> its sentence."""
LIGHTS = {"day": "It is day.", "dusk": "It is dusk.", "night": "It is night."}
"""Light -> its sentence."""
PLACE_RELATIONS = ("to the left of", "to the right of", "above", "below")
LARGE_MAX = 4
"""More things than this of one kind are small, because a cell has no room for more large ones."""


@dataclass(frozen=True)
class Group:
    """Some things of one kind, colour and size in one place."""

    kind: str
    """One of KINDS."""
    number: int
    """1 to 6."""
    colour: str
    """One of COLOURS."""
    size: str
    """small or large."""
    place: str
    """One of PLACES."""

    @property
    def noun(self) -> str:
        """The kind in the right number."""
        return self.kind if self.number == 1 else plural(self.kind)

    @property
    def named(self) -> str:
        """The group in words, such as `the three large red balls`."""
        count = "" if self.number == 1 else f"{SPELLED[self.number - 1].lower()} "
        return f"the {count}{self.size} {self.colour} {self.noun}"

    @property
    def sentence(self) -> str:
        """One sentence, such as: Three large red balls are at the top left."""
        verb = "is" if self.number == 1 else "are"
        return f"{SPELLED[self.number - 1]} {self.size} {self.colour} {self.noun} {verb} {self.place}."


@dataclass(frozen=True)
class Scene:
    """Groups of things, each of another kind and in another place, with a setting and a light."""

    groups: tuple[Group, ...]
    setting: str = PLAIN
    light: str = "day"

    def with_group(self, index: int, **changes: object) -> "Scene":
        """The same scene with one group changed."""
        changed = replace(self.groups[index], **changes)  # type: ignore[arg-type]  # checked by the caller's grammar
        return replace(self, groups=(*self.groups[:index], changed, *self.groups[index + 1 :]))


def plural(kind: str) -> str:
    """More than one of a kind."""
    return kind + ("es" if kind.endswith(("x", "s")) else "s")


def relation(first: Group, second: Group) -> str | None:
    """Where the first is seen from the second; null unless both are in one row or in one column."""
    (row, column), (other_row, other_column) = (divmod(PLACES.index(group.place), 3) for group in (first, second))
    if row == other_row:
        return PLACE_RELATIONS[0] if column < other_column else PLACE_RELATIONS[1]
    if column == other_column:
        return PLACE_RELATIONS[2] if row < other_row else PLACE_RELATIONS[3]
    return None


def described(scene: Scene, relations: bool, light: bool) -> str:
    """The scene in sentences; `relations` adds one for each pair of neighbours that stand in a row or a column."""
    sentences = [group.sentence for group in scene.groups]
    for first, second in zip(scene.groups, scene.groups[1:], strict=False):
        if relations and (where := relation(first, second)):
            verb = "is" if first.number == 1 else "are"
            sentences.append(f"The {first.noun} {verb} {where} the {second.noun}.")
    sentences.append(SCENE_SETTINGS[scene.setting])
    return " ".join([*sentences, LIGHTS[scene.light]] if light else sentences)


_KINDS = "|".join([*THING_KINDS, *map(plural, THING_KINDS)])
_GROUP = re.compile(
    rf"\b({'|'.join(SPELLED)}) ({'|'.join(SIZES)}) ({'|'.join(COLOURS)}) ({_KINDS}) (?:is|are) ({'|'.join(PLACES)})\."
)


def scene_in(text: str) -> Scene | None:
    """The scene that a text describes in the words of the grammar; null when it has no sentence about things."""
    groups = []
    for number, size, colour, noun, place in _GROUP.findall(text):
        kind = next(kind for kind in THING_KINDS if noun in (kind, plural(kind)))
        groups.append(Group(kind, SPELLED.index(number) + 1, colour, size, place))
    setting = next((name for name, sentence in SCENE_SETTINGS.items() if sentence in text), PLAIN)
    light = next((name for name, sentence in LIGHTS.items() if sentence in text), "day")
    return Scene(tuple(groups), setting, light) if groups else None


SCENE_SIDE = 384
"""Pixels of an image's side."""
THING_RADIUS = {"small": 13, "large": 25}
"""Size -> pixels from the centre of a thing to its outline."""
BRIGHTNESS = {"day": 1.0, "dusk": 0.72, "night": 0.45}
"""Light -> factor of every colour."""
SKY: dict[str, Colour] = {
    "plain": shade(0.12, 0.03, 0.99),
    "meadow": shade(0.57, 0.14, 0.97),
    "beach": shade(0.56, 0.10, 0.99),
    "snowfield": shade(0.60, 0.10, 0.86),
    "room": shade(0.09, 0.10, 0.95),
    "street": shade(0.12, 0.08, 0.93),
}
"""Setting -> colour of its upper edge by day."""
GROUND: dict[str, Colour] = {
    "plain": shade(0.12, 0.03, 0.99),
    "meadow": shade(0.28, 0.24, 0.86),
    "beach": shade(0.12, 0.26, 0.93),
    "snowfield": shade(0.60, 0.02, 0.98),
    "room": shade(0.07, 0.29, 0.72),
    "street": shade(0.60, 0.03, 0.56),
}
"""Setting -> colour of its lower edge by day."""


def draw_scene(scene: Scene, rng: Random) -> PIL.Image.Image:
    """The scene; `rng` moves what the words leave open: the exact place and shade of each thing, the horizon."""
    canvas = Canvas(rng, SCENE_SIDE, SCENE_SIDE, SKY[scene.setting])
    _draw_setting(canvas, scene.setting)
    for group in scene.groups:
        _draw_group(canvas, group)
    return PIL.ImageEnhance.Brightness(canvas.image).enhance(BRIGHTNESS[scene.light])


def _draw_setting(canvas: Canvas, setting: str) -> None:
    if setting == "plain":
        return
    rng, horizon = canvas.rng, canvas.height * canvas.rng.uniform(0.42, 0.58)
    if setting == "beach":
        canvas.draw.rectangle((0, horizon - 50, SCENE_SIDE, horizon), fill=shade(0.54, 0.28, 0.85))
    if setting == "street":
        for house in range(0, SCENE_SIDE, 64):
            canvas.draw.rectangle(
                (house + 6, horizon - rng.uniform(40, 110), house + 56, horizon), shade(0.1, 0.05, 0.78)
            )
    if setting == "snowfield":
        canvas.draw.polygon(
            [(0, horizon), (SCENE_SIDE * rng.uniform(0.3, 0.7), horizon - 70), (SCENE_SIDE, horizon)], (232, 234, 240)
        )
    canvas.draw.rectangle((0, horizon, SCENE_SIDE, SCENE_SIDE), fill=GROUND[setting])
    if setting == "room":
        window = rng.uniform(40, 240)
        canvas.draw.rectangle(
            (window, 30, window + 90, 110), fill=shade(0.56, 0.1, 0.99), outline=(150, 140, 130), width=3
        )


def _draw_group(canvas: Canvas, group: Group) -> None:
    rng, radius = canvas.rng, THING_RADIUS[group.size]
    cell, index = SCENE_SIDE / 3, PLACES.index(group.place)
    columns, rows = (1, 1) if group.number == 1 else (2, 2) if group.number <= 4 else (3, 2)
    spots = rng.sample([(c, r) for c in range(columns) for r in range(rows)], group.number)
    for column, row in spots:
        wide, high = cell / columns, cell / rows
        slack_x, slack_y = max(0.0, wide / 2 - radius - 5), max(0.0, high / 2 - radius - 5)
        x = index % 3 * cell + (column + 0.5) * wide + rng.uniform(-1, 1) * min(slack_x, 14)
        y = index // 3 * cell + (row + 0.5) * high + rng.uniform(-1, 1) * min(slack_y, 14)
        hue = COLOURS[group.colour] + rng.uniform(-0.012, 0.012)
        _draw_thing(canvas, group.kind, (x, y), radius, shade(hue, rng.uniform(0.8, 0.95), rng.uniform(0.78, 0.95)))


def _draw_thing(canvas: Canvas, kind: str, at: tuple[float, float], radius: float, fill: Colour) -> None:
    x, y = at
    below = canvas.image.getpixel((int(x), int(y)))
    canvas.draw.polygon([(x + radius * px, y + radius * py) for px, py in OUTLINES[kind]], fill=fill)
    if hole := HOLES.get(kind):
        inner = radius * hole
        box: CanvasBox = (x - inner, y - inner, x + inner, y + inner)
        canvas.draw.ellipse(box, fill=below)
