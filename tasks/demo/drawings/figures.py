"""Charts and diagrams of made-up statistics and processes, and geometry exercises with their answers."""

import math
from itertools import pairwise
from random import Random

from tasks.demo.drawings.canvas import INK, WHITE, Box, Canvas, Drawing
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
    title = rng.choice(things("processes"))
    canvas.text((rng.randint(10, 40), 8), title, 18, width=canvas.width - 50)
    return Drawing(canvas.image, {"what": "flow chart", "title": title, "first": steps[0], "last": steps[-1]})


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
    canvas.text((x + wide / 2, y - flip * 14), f"{a} cm", 17, anchor="mm")
    canvas.text((x - turn * 24, y + high / 2), f"{b} cm", 17, anchor="mm")
    canvas.text((x + wide / 2 + turn * 16, y + high / 2 + flip * 14), "x", 17, anchor="mm")
    if rng.random() < 0.6:
        place = (12, canvas.height - 24 if rng.random() < 0.7 else 8)
        canvas.text(place, f"{rng.randint(1, 30)}. Find the hypotenuse x.", 17, width=canvas.width - 24)
    facts = {"what": "right triangle", "given": f"legs of {a} cm and {b} cm"}
    return Drawing(canvas.image, facts | {"asked": "the hypotenuse x", "answer": f"{c} cm"})


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
