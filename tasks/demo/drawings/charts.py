"""Charts: bars, lines, pies, labelled points and heat tables, about made-up statistics."""

import math
from random import Random

from tasks.demo.drawings.canvas import INK, WHITE, Canvas, Colour, Drawing
from tasks.demo.words import things

Box = tuple[float, float, float, float]


def bar_chart(rng: Random) -> Drawing:
    """Bars, upright or lying."""
    canvas, title, frame = _titled(rng)
    labels, values = _data(rng, rng.randint(3, 9))
    if rng.random() < 0.4:
        _lying(canvas, frame, labels, values)
    else:
        _upright(canvas, frame, labels, values)
    return Drawing(canvas.image, _facts("bar chart", title, labels, values))


def line_chart(rng: Random) -> Drawing:
    """One to three lines over the months."""
    canvas, title, frame = _titled(rng)
    labels = things("months")[: rng.randint(5, 12)]
    series = [_walk(rng, len(labels)) for _ in range(rng.randint(1, 3))]
    _axes(canvas, frame)
    for colour, values in zip(canvas.colours(3), series, strict=False):
        canvas.draw.line(_points(frame, values), fill=colour, width=rng.randint(2, 5), joint="curve")
    for (x, _), label in zip(_points(frame, series[0]), labels, strict=True):
        canvas.text((x, frame[3] + 6), label[:3], 11, anchor="mt")
    return Drawing(canvas.image, _facts("line chart", title, labels, series[0]))


def pie_chart(rng: Random) -> Drawing:
    """A pie or a ring, with a legend."""
    canvas, title, (left, top, right, bottom) = _titled(rng)
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
        hole = side * rng.uniform(0.2, 0.35)
        canvas.draw.ellipse((x + hole, y + hole, x + side - hole, y + side - hole), fill=canvas.paper)
    return Drawing(canvas.image, _facts("pie chart", title, labels, values))


def point_chart(rng: Random) -> Drawing:
    """Points with names, such as towns by rent and distance."""
    canvas, title, frame = _titled(rng)
    labels, values = _data(rng, rng.randint(7, 14))
    _axes(canvas, frame)
    left, top, right, bottom = frame
    colours = canvas.colours(len(labels))
    for index, label in enumerate(labels):
        x = left + (right - left) * rng.uniform(0.05, 0.9)
        y = bottom - (bottom - top) * values[index] / max(values)
        size = rng.uniform(3, 14)
        canvas.draw.ellipse((x - size, y - size, x + size, y + size), fill=colours[index])
        canvas.text((x + size + 2, y - 6), label, 11)
    return Drawing(canvas.image, _facts("scatter plot", title, labels, values))


def heat_table(rng: Random) -> Drawing:
    """A table whose cells are coloured by value."""
    canvas, title, (left, top, right, bottom) = _titled(rng)
    labels = rng.sample(things(rng.choice(["goods", "towns", "crops"])), rng.randint(3, 7))
    columns = rng.randint(4, 9)
    values = [[rng.random() for _ in range(columns)] for _ in labels]
    width, height = (right - left - 60) / columns, (bottom - top) / len(labels)
    dark = canvas.colours(2)[0]
    for row, label in enumerate(labels):
        canvas.text((left, top + height * (row + 0.5)), label, 12, anchor="lm")
        for column in range(columns):
            colour = _mixed(dark, WHITE, values[row][column])
            x, y = left + 60 + width * column, top + height * row
            canvas.draw.rectangle((x, y, x + width - 2, y + height - 2), fill=colour)
            canvas.text((x + width / 2, y + height / 2), str(int(values[row][column] * 99)), 11, anchor="mm")
    return Drawing(canvas.image, _facts("heat map", title, labels, [int(sum(row) * 99) for row in values]))


def _titled(rng: Random) -> tuple[Canvas, str, Box]:
    """A sheet with a title, and the box (left, top, right, bottom) that is left for the chart."""
    canvas = Canvas.any_size(rng)
    title = f"{rng.choice(things('measures'))} in {rng.choice(things('towns'))}, {rng.randint(2015, 2023)}"
    size = canvas.fitting(title, canvas.width - 30, rng.randint(14, 22))
    at_the_foot = rng.random() < 0.2
    y = canvas.height - 24 if at_the_foot else 12
    canvas.text((rng.randint(12, 24), y), title, size)
    frame = (rng.randint(40, 66), 20 if at_the_foot else 52, canvas.width - rng.randint(16, 44), canvas.height - 52)
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


def _facts(what: str, title: str, labels: list[str], values: list[int]) -> dict[str, str]:
    high, low = values.index(max(values)), values.index(min(values))
    return {
        "what": what,
        "title": title,
        "highest": labels[high],
        "highest_value": str(values[high]),
        "lowest": labels[low],
        "lowest_value": str(values[low]),
    }


def _axes(canvas: Canvas, frame: Box) -> None:
    left, top, right, bottom = frame
    for step in range(canvas.rng.choice([0, 3, 5, 6])):
        y = bottom - (bottom - top) * step / 5
        canvas.draw.line((left, y, right, y), fill=(205, 205, 210))
        canvas.text((left - 6, y), str(step * 20), 11, anchor="rm")
    canvas.draw.line([(left, top), (left, bottom), (right, bottom)], fill=INK, width=2)


def _points(frame: Box, values: list[int]) -> list[tuple[float, float]]:
    left, top, right, bottom = frame
    step = (right - left) / max(1, len(values) - 1)
    return [(left + step * index, bottom - (bottom - top) * value / 100) for index, value in enumerate(values)]


def _upright(canvas: Canvas, frame: Box, labels: list[str], values: list[int]) -> None:
    _axes(canvas, frame)
    left, top, right, bottom = frame
    step, gap = (right - left) / len(values), canvas.rng.uniform(0.1, 0.45)
    for index, colour in enumerate(_bar_colours(canvas, len(values))):
        x = left + step * (index + gap / 2)
        y = bottom - (bottom - top) * values[index] / 100
        canvas.draw.rectangle((x, y, x + step * (1 - gap), bottom), fill=colour)
        label = labels[index][: max(2, int(step // 7))]
        canvas.text((x + step * (1 - gap) / 2, bottom + 6), label, 11, anchor="mt")


def _lying(canvas: Canvas, frame: Box, labels: list[str], values: list[int]) -> None:
    left, top, right, bottom = frame
    step, gap = (bottom - top) / len(values), canvas.rng.uniform(0.1, 0.45)
    for index, colour in enumerate(_bar_colours(canvas, len(values))):
        y = top + step * (index + gap / 2)
        x = left + 30 + (right - left - 60) * values[index] / 100
        canvas.draw.rectangle((left + 30, y, x, y + step * (1 - gap)), fill=colour)
        canvas.text((left + 24, y + step * (1 - gap) / 2), labels[index][:9], 11, anchor="rm")
        canvas.text((x + 5, y + step * (1 - gap) / 2), str(values[index]), 11, anchor="lm")


def _bar_colours(canvas: Canvas, count: int) -> list[Colour]:
    colours = canvas.colours(count)
    return colours if canvas.rng.random() < 0.5 else [colours[0]] * count


def _mixed(first: Colour, second: Colour, share: float) -> Colour:
    red, green, blue = (math.floor(a * share + b * (1 - share)) for a, b in zip(first, second, strict=True))
    return red, green, blue
