"""Draws a scene: a setting of pale colours in some light, and things of strong colours in the cells of a grid."""

from random import Random

import PIL.Image
import PIL.ImageEnhance

from tasks.drawing.canvas import Box, Canvas, Colour, shade
from tasks.drawing.scene import COLOURS, HOLES, OUTLINES, PLACES, Group, Scene

SIDE = 384
"""Pixels of an image's side."""
RADIUS = {"small": 13, "large": 25}
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
    canvas = Canvas(rng, SIDE, SIDE, SKY[scene.setting])
    _draw_setting(canvas, scene.setting)
    for group in scene.groups:
        _draw_group(canvas, group)
    return PIL.ImageEnhance.Brightness(canvas.image).enhance(BRIGHTNESS[scene.light])


def _draw_setting(canvas: Canvas, setting: str) -> None:
    if setting == "plain":
        return
    rng, horizon = canvas.rng, canvas.height * canvas.rng.uniform(0.42, 0.58)
    if setting == "beach":
        canvas.draw.rectangle((0, horizon - 50, SIDE, horizon), fill=shade(0.54, 0.28, 0.85))
    if setting == "street":
        for house in range(0, SIDE, 64):
            canvas.draw.rectangle(
                (house + 6, horizon - rng.uniform(40, 110), house + 56, horizon), shade(0.1, 0.05, 0.78)
            )
    if setting == "snowfield":
        canvas.draw.polygon(
            [(0, horizon), (SIDE * rng.uniform(0.3, 0.7), horizon - 70), (SIDE, horizon)], (232, 234, 240)
        )
    canvas.draw.rectangle((0, horizon, SIDE, SIDE), fill=GROUND[setting])
    if setting == "room":
        window = rng.uniform(40, 240)
        canvas.draw.rectangle(
            (window, 30, window + 90, 110), fill=shade(0.56, 0.1, 0.99), outline=(150, 140, 130), width=3
        )


def _draw_group(canvas: Canvas, group: Group) -> None:
    rng, radius = canvas.rng, RADIUS[group.size]
    cell, index = SIDE / 3, PLACES.index(group.place)
    columns, rows = (1, 1) if group.number == 1 else (2, 2) if group.number <= 4 else (3, 2)
    spots = rng.sample([(c, r) for c in range(columns) for r in range(rows)], group.number)
    for column, row in spots:
        wide, high = cell / columns, cell / rows
        slack_x, slack_y = max(0.0, wide / 2 - radius - 5), max(0.0, high / 2 - radius - 5)
        x = index % 3 * cell + (column + 0.5) * wide + rng.uniform(-1, 1) * min(slack_x, 14)
        y = index // 3 * cell + (row + 0.5) * high + rng.uniform(-1, 1) * min(slack_y, 14)
        _draw_thing(canvas, group.kind, (x, y), radius, _shade_of(group.colour, rng))


def _shade_of(colour: str, rng: Random) -> Colour:
    return shade(COLOURS[colour] + rng.uniform(-0.012, 0.012), rng.uniform(0.8, 0.95), rng.uniform(0.78, 0.95))


def _draw_thing(canvas: Canvas, kind: str, at: tuple[float, float], radius: float, fill: Colour) -> None:
    x, y = at
    below = canvas.image.getpixel((int(x), int(y)))
    canvas.draw.polygon([(x + radius * px, y + radius * py) for px, py in OUTLINES[kind]], fill=fill)
    if hole := HOLES.get(kind):
        inner = radius * hole
        box: Box = (x - inner, y - inner, x + inner, y + inner)
        canvas.draw.ellipse(box, fill=below)
