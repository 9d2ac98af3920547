"""Abstract pictures, and one pattern that a pornography classifier takes for what it is not."""

import math
from itertools import pairwise
from random import Random

import numpy as np
import PIL.Image
import PIL.ImageFilter
import PIL.ImageOps

from tasks.demo.drawings.canvas import INK, Canvas, Drawing, shade
from tasks.demo.words import load, things


def rectangles(rng: Random) -> Drawing:
    """Coloured fields between black bars."""
    canvas = Canvas.any_size(rng)
    xs = sorted([0, canvas.width, *(rng.randint(0, canvas.width) for _ in range(rng.randint(2, 5)))])
    for left, right in pairwise(xs):
        ys = sorted([0, canvas.height, *(rng.randint(0, canvas.height) for _ in range(rng.randint(1, 4)))])
        for top, bottom in pairwise(ys):
            fill = rng.choice([*canvas.colours(5), canvas.paper, canvas.paper])
            canvas.draw.rectangle((left, top, right, bottom), fill=fill, outline=INK, width=rng.randint(3, 9))
    return _abstract(canvas, "arrangement of rectangles")


def discs(rng: Random) -> Drawing:
    """Discs and rings thrown onto the sheet."""
    canvas = Canvas.any_size(rng, shade(rng.random(), rng.uniform(0, 0.6), rng.uniform(0.1, 1.0)))
    for _ in range(rng.randint(6, 26)):
        x, y, size = rng.uniform(0, canvas.width), rng.uniform(0, canvas.height), rng.uniform(8, 120)
        for ring in range(rng.randint(1, 4)):
            inner = size * (1 - ring / 4)
            colour = shade(rng.random(), rng.uniform(0.2, 0.9), rng.uniform(0.3, 1.0))
            canvas.draw.ellipse((x - inner, y - inner, x + inner, y + inner), fill=colour)
    return _abstract(canvas, "composition of discs")


def shards(rng: Random) -> Drawing:
    """Triangles laid over each other."""
    canvas = Canvas.any_size(rng)
    for _ in range(rng.randint(12, 50)):
        x, y, size = rng.uniform(0, canvas.width), rng.uniform(0, canvas.height), rng.uniform(20, 150)
        angles = [rng.uniform(0, math.tau) for _ in range(3)]
        corners = [(x + size * math.cos(angle), y + size * math.sin(angle)) for angle in angles]
        colour = shade(canvas.hue + rng.uniform(-0.2, 0.2), rng.uniform(0.2, 0.9), rng.uniform(0.2, 1.0))
        canvas.draw.polygon(corners, fill=colour)
    return _abstract(canvas, "pattern of shards")


def waves(rng: Random) -> Drawing:
    """Interfering waves in two colours."""
    width, height = rng.randint(280, 420), rng.randint(240, 420)
    y, x = np.mgrid[0:height, 0:width].astype(np.float64)
    field = np.zeros((height, width))
    for _ in range(rng.randint(2, 5)):
        angle, length = rng.uniform(0, math.tau), rng.uniform(30, 160)
        bend = rng.uniform(0, 0.004) * ((x - rng.uniform(0, width)) ** 2 + (y - rng.uniform(0, height)) ** 2) ** 0.5
        phase = (x * math.cos(angle) + y * math.sin(angle)) / length * math.tau + bend * rng.uniform(0, 6)
        field += np.sin(phase + rng.uniform(0, 6))
    share = ((field - field.min()) / (field.max() - field.min()))[..., None]
    ends = [np.array(shade(rng.random(), rng.uniform(0.3, 0.9), bright)) for bright in (0.95, 0.3)]
    image = PIL.Image.fromarray((ends[0] * share + ends[1] * (1 - share)).astype(np.uint8))
    return Drawing(image, {"what": "pattern of waves", "mood": rng.choice(things("moods"))})


def misread_pattern(rng: Random) -> Drawing:
    """Overlapping ovals on lilac, which OpenNSFW gives more than 0.85: an abstract pattern found by seeded search.

    Nothing is depicted. It stands where a real arena has pictures that no one may ship, so that a demo can show
    the NSFW rule at work. Small shifts and mirroring keep the score (tests/tasks/demo).
    """
    recipe, side = load("misread_pattern"), 384
    paper = tuple(value + rng.randint(-6, 6) for value in recipe["paper"])
    image = PIL.Image.new("RGB", (side, side), paper)
    draw = PIL.ImageDraw.Draw(image)
    for x, y, wide, high, *colour in recipe["ovals"]:
        x, y = x + rng.uniform(-0.01, 0.01), y + rng.uniform(-0.01, 0.01)
        box = ((x - wide / 2) * side, (y - high / 2) * side, (x + wide / 2) * side, (y + high / 2) * side)
        draw.ellipse(box, fill=tuple(colour))
    image = image.filter(PIL.ImageFilter.GaussianBlur(recipe["blur"] * side))
    if rng.random() < 0.5:
        image = PIL.ImageOps.mirror(image)
    return Drawing(image, {"what": "pattern of ovals", "mood": rng.choice(things("moods"))})


def _abstract(canvas: Canvas, what: str) -> Drawing:
    return Drawing(canvas.image, {"what": what, "mood": canvas.rng.choice(things("moods"))})
