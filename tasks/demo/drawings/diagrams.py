"""Diagrams: flow charts, trees, overlapping circles, timelines and circuits of made-up processes."""

import math
from itertools import pairwise
from random import Random

from tasks.demo.drawings.canvas import INK, Canvas, Drawing
from tasks.demo.words import things


def flow_chart(rng: Random) -> Drawing:
    """Steps in boxes, joined by arrows, snaking over the sheet."""
    canvas = Canvas.any_size(rng)
    columns, rows = rng.randint(1, 3), rng.randint(2, 4)
    steps = rng.sample(things("steps"), columns * rows)
    colours = canvas.colours(4)
    wide, high = canvas.width / columns, (canvas.height - 40) / rows
    places = [(column, row) for row in range(rows) for column in _snake(row, columns)]
    centres = [((column + 0.5) * wide, 40 + (row + 0.5) * high) for column, row in places]
    for (x0, y0), (x1, y1) in pairwise(centres):
        way_x, way_y = math.copysign(wide * 0.38, x1 - x0), math.copysign(high * 0.3, y1 - y0)
        if x0 == x1:
            canvas.arrow((x0, y0 + way_y), (x1, y1 - way_y))
        else:
            canvas.arrow((x0 + way_x, y0), (x1 - way_x, y1))
    for centre, step in zip(centres, steps, strict=True):
        _node(canvas, centre, wide * 0.38, high * 0.3, step, rng.choice(colours))
    return _named(canvas, "flow chart", steps)


def tree(rng: Random) -> Drawing:
    """A root, its parts and their parts."""
    canvas = Canvas.any_size(rng)
    parts = rng.sample(things("steps"), rng.randint(5, 9))
    branches = rng.randint(2, 3)
    wide, high = canvas.width, canvas.height
    root = (wide * rng.uniform(0.4, 0.6), high * 0.24)
    colours = canvas.colours(3)
    upper = [(wide * (index + 0.5) / branches, high * 0.52) for index in range(branches)]
    lower_count = len(parts) - 1 - branches
    lower = [(wide * (index + 0.5) / lower_count, high * rng.uniform(0.76, 0.9)) for index in range(lower_count)]
    for place in upper:
        canvas.draw.line([root, place], fill=INK, width=2)
    for index, place in enumerate(lower):
        canvas.draw.line([upper[index * branches // lower_count], place], fill=INK, width=2)
    for place, part in zip([root, *upper, *lower], parts, strict=True):
        _node(canvas, place, wide * 0.4 / branches, 18, part, rng.choice(colours))
    return _named(canvas, "tree diagram", parts)


def overlapping_circles(rng: Random) -> Drawing:
    """Two or three sets and what they share."""
    canvas = Canvas.any_size(rng)
    names = rng.sample(things("crops") + things("goods"), 6)
    count = rng.randint(2, 3)
    size = min(canvas.width, canvas.height) * rng.uniform(0.2, 0.3)
    start = rng.uniform(0, math.tau)
    for index, colour in enumerate(canvas.colours(count)):
        angle = start + math.tau * index / count
        x = canvas.width / 2 + math.cos(angle) * size * 0.6
        y = canvas.height / 2 + 14 + math.sin(angle) * size * 0.6
        canvas.draw.ellipse((x - size, y - size, x + size, y + size), outline=colour, width=rng.randint(3, 9))
        far = (x + math.cos(angle) * size * 0.5, y + math.sin(angle) * size * 0.5)
        canvas.text(far, names[index], 14, anchor="mm")
    canvas.text((canvas.width / 2, canvas.height / 2 + 14), names[-1], 13, anchor="mm")
    return _named(canvas, "Venn diagram", names)


def timeline(rng: Random) -> Drawing:
    """Years along a line, with what happened above and below."""
    canvas = Canvas.any_size(rng)
    steps = rng.sample(things("steps"), rng.randint(3, 6))
    y = canvas.height * rng.uniform(0.45, 0.65)
    canvas.arrow((10, y), (canvas.width - 10, y))
    year = rng.randint(1880, 1990)
    for index, step in enumerate(steps):
        x = 36 + (canvas.width - 90) * index / (len(steps) - 1)
        year += rng.randint(2, 12)
        up = rng.uniform(30, 90) * (1 if index % 2 else -1)
        canvas.draw.line([(x, y), (x, y + up)], fill=canvas.colours(3)[0], width=3)
        canvas.draw.ellipse((x - 6, y - 6, x + 6, y + 6), fill=canvas.colours(3)[1])
        canvas.text((x, y + up + math.copysign(9, up)), step[:12], 12, anchor="mm")
        canvas.text((x, y - math.copysign(16, up)), str(year), 12, anchor="mm")
    return _named(canvas, "timeline", steps)


def circuit(rng: Random) -> Drawing:
    """A loop with resistors and a battery."""
    canvas = Canvas.any_size(rng, (255, 255, 255))
    left, top = rng.randint(40, 90), rng.randint(70, 110)
    right, bottom = canvas.width - rng.randint(40, 90), canvas.height - rng.randint(40, 80)
    canvas.draw.rectangle((left, top, right, bottom), outline=INK, width=3)
    count = rng.randint(2, 4)
    for index in range(count):
        x = left + (right - left) * (index + 0.5) / count
        y = rng.choice([top, bottom])
        canvas.draw.rectangle((x - 22, y - 9, x + 22, y + 9), fill=canvas.paper, outline=INK, width=3)
        canvas.text((x, y - 22), f"{rng.randint(1, 90)} ohm", 13, anchor="mm")
    middle = (top + bottom) / 2
    canvas.draw.rectangle((left - 8, middle - 7, left + 8, middle + 7), fill=canvas.paper)
    canvas.draw.line([(left - 16, middle - 7), (left + 16, middle - 7)], fill=INK, width=3)
    canvas.draw.line([(left - 8, middle + 7), (left + 8, middle + 7)], fill=INK, width=5)
    return _named(canvas, "circuit diagram", [f"{count} resistors", "a battery"])


def _named(canvas: Canvas, what: str, parts: list[str]) -> Drawing:
    title = canvas.rng.choice(things("processes"))
    canvas.text((canvas.rng.randint(10, 40), 8), title, canvas.fitting(title, canvas.width - 50, 18))
    return Drawing(canvas.image, {"what": what, "title": title, "first": parts[0], "last": parts[-1]})


def _snake(row: int, columns: int) -> list[int]:
    return list(range(columns))[:: -1 if row % 2 else 1]


def _node(
    canvas: Canvas, centre: tuple[float, float], wide: float, high: float, text: str, fill: tuple[int, int, int]
) -> None:
    x, y = centre
    box = (x - wide, y - high, x + wide, y + high)
    shape = canvas.rng.choice(["box", "round", "oval"])
    if shape == "oval":
        canvas.draw.ellipse(box, fill=fill, outline=INK, width=2)
    else:
        radius = 0 if shape == "box" else min(wide, high) * 0.5
        canvas.draw.rounded_rectangle(box, radius, fill=fill, outline=INK, width=2)
    canvas.text(centre, text, canvas.fitting(text, wide * 1.8, 14), anchor="mm")
