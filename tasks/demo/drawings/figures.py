"""Charts and diagrams about made-up statistics and processes, and figures of geometry exercises with their answers."""

import math
from itertools import pairwise
from random import Random

from tasks.demo.drawings.canvas import GREY, INK, WHITE, Box, Canvas, Drawing, Point
from tasks.demo.words import things


def bar_chart(rng: Random) -> Drawing:
    """Bars, upright or lying."""
    canvas, title, (left, top, right, bottom) = _chart(rng)
    labels, values = _data(rng, rng.randint(3, 9))
    lying, gap, length = rng.random() < 0.4, rng.uniform(0.1, 0.45), right - left - 60
    step = ((bottom - top) if lying else (right - left)) / len(values)
    colours = canvas.colours(len(values)) if rng.random() < 0.5 else canvas.colours(1) * len(values)
    if not lying:
        _axes(canvas, (left, top, right, bottom))
    for index, (label, value, colour) in enumerate(zip(labels, values, colours, strict=True)):
        start, thick = step * (index + gap / 2), step * (1 - gap)
        if lying:
            x, y = left + 30 + length * value / 100, top + start
            canvas.draw.rectangle((left + 30, y, x, y + thick), fill=colour)
            canvas.text((left + 24, y + thick / 2), label[:9], 11, anchor="rm")
            canvas.text((x + 5, y + thick / 2), str(value), 11, anchor="lm")
        else:
            x, y = left + start, bottom - (bottom - top) * value / 100
            canvas.draw.rectangle((x, y, x + thick, bottom), fill=colour)
            canvas.text((x + thick / 2, bottom + 6), label[: max(2, int(step // 7))], 11, anchor="mt")
    return Drawing(canvas.image, _chart_facts("bar chart", title, labels, values))


def line_chart(rng: Random) -> Drawing:
    """One to three lines over the months."""
    canvas, title, frame = _chart(rng)
    left, top, right, bottom = frame
    labels = things("months")[: rng.randint(5, 12)]
    series = [_walk(rng, len(labels)) for _ in range(rng.randint(1, 3))]
    _axes(canvas, frame)
    xs = [left + (right - left) * index / (len(labels) - 1) for index in range(len(labels))]
    for colour, values in zip(canvas.colours(3), series, strict=False):
        points = [(x, bottom - (bottom - top) * value / 100) for x, value in zip(xs, values, strict=True)]
        canvas.draw.line(points, fill=colour, width=rng.randint(2, 5), joint="curve")
    for x, label in zip(xs, labels, strict=True):
        canvas.text((x, bottom + 6), label[:3], 11, anchor="mt")
    return Drawing(canvas.image, _chart_facts("line chart", title, labels, series[0]))


def pie_chart(rng: Random) -> Drawing:
    """A pie or a ring, with a legend."""
    canvas, title, (left, top, right, bottom) = _chart(rng)
    labels, values = _data(rng, rng.randint(3, 7))
    side = min(right - left, bottom - top) * rng.uniform(0.7, 1.0)
    x, y, angle = left + (right - left - side) * rng.random() * 0.5, top, rng.uniform(0, 360)
    for index, colour in enumerate(canvas.colours(len(values))):
        sweep = 360 * values[index] / sum(values)
        canvas.draw.pieslice((x, y, x + side, y + side), angle, angle + sweep, fill=colour, outline=WHITE)
        canvas.draw.rectangle((right - 78, top + 20 * index, right - 66, top + 20 * index + 12), fill=colour)
        canvas.text((right - 60, top + 20 * index), labels[index], 12)
        angle += sweep
    if rng.random() < 0.4:
        canvas.disc(x + side / 2, y + side / 2, side * rng.uniform(0.15, 0.3), canvas.paper)
    return Drawing(canvas.image, _chart_facts("pie chart", title, labels, values))


def flow_chart(rng: Random) -> Drawing:
    """Steps in boxes, joined by arrows, snaking over the sheet."""
    canvas = Canvas.any_size(rng)
    columns, rows = rng.randint(1, 3), rng.randint(2, 4)
    steps = rng.sample(things("steps"), columns * rows)
    colours = canvas.colours(4)
    wide, high = canvas.width / columns, (canvas.height - 40) / rows
    places = [(column, row) for row in range(rows) for column in list(range(columns))[:: -1 if row % 2 else 1]]
    centres = [((column + 0.5) * wide, 40 + (row + 0.5) * high) for column, row in places]
    for (x0, y0), (x1, y1) in pairwise(centres):
        if x0 == x1:
            canvas.arrow((x0, y0 + high * 0.3), (x1, y1 - high * 0.3))
        else:
            way = math.copysign(wide * 0.38, x1 - x0)
            canvas.arrow((x0 + way, y0), (x1 - way, y1))
    for (x, y), step in zip(centres, steps, strict=True):
        box = (x - wide * 0.38, y - high * 0.3, x + wide * 0.38, y + high * 0.3)
        canvas.draw.rounded_rectangle(box, rng.choice([0, high * 0.1, high * 0.29]), rng.choice(colours), INK, 2)
        canvas.text((x, y), step, 14, width=wide * 0.68, anchor="mm")
    return _diagram(canvas, "flow chart", steps)


def overlapping_circles(rng: Random) -> Drawing:
    """Two or three sets and what they share."""
    canvas = Canvas.any_size(rng)
    names = rng.sample(things("crops") + things("goods"), 6)
    count = rng.randint(2, 3)
    size, start = min(canvas.width, canvas.height) * rng.uniform(0.2, 0.3), rng.uniform(0, math.tau)
    middle = (canvas.width / 2, canvas.height / 2 + 14)
    for index, colour in enumerate(canvas.colours(count)):
        angle = start + math.tau * index / count
        canvas.disc(*_around(middle, angle, size * 0.6), size, outline=colour, width=rng.randint(3, 9))
        canvas.text(_around(middle, angle, size * 1.1), names[index], 14, anchor="mm")
    canvas.text(middle, names[-1], 13, anchor="mm")
    return _diagram(canvas, "Venn diagram", names)


def right_triangle(rng: Random) -> Drawing:
    """A right triangle with two sides given."""
    a, b, c = rng.choice([(3, 4, 5), (6, 8, 10), (5, 12, 13), (8, 15, 17), (9, 12, 15), (7, 24, 25), (20, 21, 29)])
    canvas = Canvas.any_size(rng, WHITE)
    scale = min(canvas.width - 120, canvas.height - 120) / max(a, b)
    turn, flip = rng.choice([-1, 1]), rng.choice([-1, 1])
    wide, high = turn * a * scale, flip * b * scale
    x, y = (canvas.width - wide) / 2, (canvas.height - high) / 2
    fill = rng.choice([None, *canvas.colours(3)])
    canvas.draw.polygon([(x, y), (x + wide, y), (x, y + high)], fill=fill, outline=INK, width=rng.randint(2, 4))
    canvas.draw.line([(x + turn * 14, y), (x + turn * 14, y + flip * 14), (x, y + flip * 14)], fill=INK, width=2)
    _note(canvas, (x + wide / 2, y - flip * 14), f"{a} cm")
    _note(canvas, (x - turn * 24, y + high / 2), f"{b} cm")
    _note(canvas, (x + wide / 2 + turn * 16, y + high / 2 + flip * 14), "x")
    return _exercise(canvas, "right triangle", f"legs of {a} cm and {b} cm", "the hypotenuse x", f"{c} cm")


def grid_figure(rng: Random) -> Drawing:
    """Coloured squares on a grid, to be counted."""
    canvas = Canvas.any_size(rng, WHITE)
    columns, rows = rng.randint(5, 10), rng.randint(4, 9)
    side = min((canvas.width - 40) // columns, (canvas.height - 60) // rows)
    left, top = rng.randint(10, 30), rng.randint(10, 40)
    cells = [(x, y) for x in range(columns) for y in range(rows)]
    coloured = set(rng.sample(cells, rng.randint(6, columns * rows // 2)))
    fill = rng.choice(canvas.colours(4))
    for x, y in cells:
        box = (left + side * x, top + side * y, left + side * (x + 1), top + side * (y + 1))
        canvas.draw.rectangle(box, fill=fill if (x, y) in coloured else None, outline=GREY)
    given = f"a grid of {columns} by {rows} squares"
    return _exercise(canvas, "grid", given, "how many squares are coloured", str(len(coloured)))


def function_graph(rng: Random) -> Drawing:
    """A parabola or a straight line in a coordinate system."""
    canvas = Canvas.any_size(rng, WHITE)
    unit = rng.randint(18, 32)
    x0, y0 = canvas.width * rng.uniform(0.35, 0.65), canvas.height * rng.uniform(0.4, 0.75)
    for step in range(-20, 21):
        canvas.draw.line((x0 + step * unit, 0, x0 + step * unit, canvas.height), fill=(225, 228, 235))
        canvas.draw.line((0, y0 + step * unit, canvas.width, y0 + step * unit), fill=(225, 228, 235))
    canvas.arrow((6, y0), (canvas.width - 6, y0))
    canvas.arrow((x0, canvas.height - 6), (x0, 6))
    root, other, square = rng.randint(-4, 0), rng.randint(1, 5), rng.random() < 0.6
    factor = rng.choice([-0.6, -0.3, 0.3, 0.6]) if square else rng.choice([-1.5, -0.7, 0.7, 1.5])
    points = []
    for pixel in range(0, canvas.width, 3):
        x = (pixel - x0) / unit
        points.append((pixel, y0 - unit * factor * ((x - root) * (x - other) if square else (x - root))))
    canvas.draw.line(points, fill=canvas.colours(3)[0], width=rng.randint(2, 4))
    answer = f"{root} and {other}" if square else str(root)
    return _exercise(canvas, "function graph", "the curve on squared paper", "where it meets the x axis", answer)


def _chart(rng: Random) -> tuple[Canvas, str, Box]:
    """A sheet with a title, and the box that is left for the chart."""
    canvas = Canvas.any_size(rng)
    title = f"{rng.choice(things('measures'))} in {rng.choice(things('towns'))}, {rng.randint(2015, 2023)}"
    below = rng.random() < 0.2
    place = (rng.randint(12, 24), canvas.height - 24 if below else 12)
    canvas.text(place, title, rng.randint(14, 22), width=canvas.width - 30)
    frame = (rng.randint(40, 66), 20 if below else 52, canvas.width - rng.randint(16, 44), canvas.height - 52)
    return canvas, title, frame


def _data(rng: Random, count: int) -> tuple[list[str], list[int]]:
    values = rng.sample(range(8, 98), count)
    if rng.random() < 0.25:
        values.sort(reverse=rng.random() < 0.5)
    return rng.sample(things(rng.choice(["goods", "towns", "crops"])), count), values


def _walk(rng: Random, count: int) -> list[int]:
    level, values = rng.uniform(20, 80), []
    for _ in range(count):
        level = min(95.0, max(5.0, level + rng.gauss(0, 18)))
        values.append(int(level))
    return values


def _chart_facts(what: str, title: str, labels: list[str], values: list[int]) -> dict[str, str]:
    high, low = values.index(max(values)), values.index(min(values))
    highest = {"highest": labels[high], "highest_value": str(values[high])}
    return {"what": what, "title": title, **highest, "lowest": labels[low], "lowest_value": str(values[low])}


def _axes(canvas: Canvas, frame: Box) -> None:
    left, top, right, bottom = frame
    for step in range(canvas.rng.choice([0, 3, 5, 6])):
        y = bottom - (bottom - top) * step / 5
        canvas.draw.line((left, y, right, y), fill=(205, 205, 210))
        canvas.text((left - 6, y), str(step * 20), 11, anchor="rm")
    canvas.draw.line([(left, top), (left, bottom), (right, bottom)], fill=INK, width=2)


def _diagram(canvas: Canvas, what: str, parts: list[str]) -> Drawing:
    title = canvas.rng.choice(things("processes"))
    canvas.text((canvas.rng.randint(10, 40), 8), title, 18, width=canvas.width - 50)
    return Drawing(canvas.image, {"what": what, "title": title, "first": parts[0], "last": parts[-1]})


def _exercise(canvas: Canvas, what: str, given: str, asked: str, answer: str) -> Drawing:
    if canvas.rng.random() < 0.6:
        y = canvas.height - 24 if canvas.rng.random() < 0.7 else 8
        canvas.text((12, y), f"{canvas.rng.randint(1, 30)}. Find {asked}.", 17, width=canvas.width - 24)
    return Drawing(canvas.image, {"what": what, "given": given, "asked": asked, "answer": answer})


def _note(canvas: Canvas, place: Point, text: str) -> None:
    canvas.text(place, text, canvas.rng.randint(15, 20), anchor="mm")


def _around(middle: Point, angle: float, far: float) -> Point:
    return middle[0] + far * math.cos(angle), middle[1] + far * math.sin(angle)
