"""Figures of geometry homework, with what is given, what is asked and the answer."""

import math
from random import Random

from tasks.demo.drawings.canvas import INK, WHITE, Canvas, Drawing


def right_triangle(rng: Random) -> Drawing:
    """A right triangle with two sides given."""
    a, b, c = rng.choice([(3, 4, 5), (6, 8, 10), (5, 12, 13), (8, 15, 17), (9, 12, 15), (7, 24, 25), (20, 21, 29)])
    canvas = Canvas.any_size(rng, WHITE)
    scale = min((canvas.width - 120) / max(a, b), (canvas.height - 120) / max(a, b))
    turn, flip = rng.choice([-1, 1]), rng.choice([-1, 1])
    x, y = canvas.width / 2 - turn * a * scale / 2, canvas.height / 2 - flip * b * scale / 2
    corners = [(x, y), (x + turn * a * scale, y), (x, y + flip * b * scale)]
    fill = rng.choice([None, *canvas.colours(3)])
    canvas.draw.polygon(corners, fill=fill, outline=INK, width=rng.randint(2, 4))
    square = 14
    canvas.draw.rectangle(sorted_box(x, y, x + turn * square, y + flip * square), outline=INK, width=2)
    _note(canvas, (x + turn * a * scale / 2, y - flip * 14), f"{a} cm")
    _note(canvas, (x - turn * 24, y + flip * b * scale / 2), f"{b} cm")
    _note(canvas, (x + turn * a * scale / 2 + turn * 16, y + flip * b * scale / 2 + flip * 14), "x")
    return _exercise(canvas, "right triangle", f"legs of {a} cm and {b} cm", "the hypotenuse x", f"{c} cm")


def circle(rng: Random) -> Drawing:
    """A circle with its radius or diameter, and sometimes a square around it."""
    canvas = Canvas.any_size(rng, WHITE)
    radius = rng.randint(2, 19)
    size = min(canvas.width, canvas.height) * rng.uniform(0.2, 0.42)
    x = rng.uniform(size + 10, canvas.width - size - 10)
    y = rng.uniform(size + 10, canvas.height - size - 10)
    box = (x - size, y - size, x + size, y + size)
    if rng.random() < 0.4:
        canvas.draw.rectangle(box, outline=INK, width=2)
    canvas.draw.ellipse(box, fill=rng.choice([None, *canvas.colours(3)]), outline=INK, width=rng.randint(2, 5))
    angle = rng.uniform(0, math.tau)
    end = (x + size * math.cos(angle), y + size * math.sin(angle))
    canvas.draw.line([(x, y), end], fill=INK, width=2)
    _note(canvas, ((x + end[0]) / 2, (y + end[1]) / 2 - 10), f"r = {radius} cm")
    for _ in range(rng.randint(0, 3)):
        start, stop = rng.uniform(0, math.tau), rng.uniform(0, math.tau)
        ends = [(x + size * math.cos(turn), y + size * math.sin(turn)) for turn in (start, stop)]
        canvas.draw.line(ends, fill=INK, width=1)
    return _exercise(canvas, "circle", f"a radius of {radius} cm", "the area", f"about {math.pi * radius**2:.1f} cm²")


def parallel_lines(rng: Random) -> Drawing:
    """Two parallel lines cut by a third, with one angle given."""
    canvas = Canvas.any_size(rng, WHITE)
    angle = rng.randint(35, 145)
    tilt = math.radians(rng.uniform(-20, 20))
    middle = canvas.height / 2
    for y in (middle - rng.uniform(40, 70), middle + rng.uniform(40, 70)):
        _long_line(canvas, (canvas.width / 2, y), tilt)
    _long_line(canvas, (canvas.width / 2, middle), tilt + math.radians(angle))
    _note(canvas, (canvas.width / 2 + 44, middle - 72), f"{angle}°")
    _note(canvas, (canvas.width / 2 + 44, middle + 40), "x")
    given = f"one angle of {angle} degrees at two parallel lines"
    return _exercise(canvas, "pair of parallel lines", given, "the angle x", f"{angle} degrees")


def grid_figure(rng: Random) -> Drawing:
    """Coloured squares on a grid, to be counted."""
    canvas = Canvas.any_size(rng, WHITE)
    columns, rows = rng.randint(5, 10), rng.randint(4, 9)
    side = min((canvas.width - 40) // columns, (canvas.height - 60) // rows)
    left, top = rng.randint(10, 30), rng.randint(10, 40)
    cells = rng.sample([(x, y) for x in range(columns) for y in range(rows)], rng.randint(6, columns * rows // 2))
    fill = rng.choice(canvas.colours(4))
    for x in range(columns):
        for y in range(rows):
            box = (left + side * x, top + side * y, left + side * (x + 1), top + side * (y + 1))
            canvas.draw.rectangle(box, fill=fill if (x, y) in cells else None, outline=(120, 120, 125))
    given = f"a grid of {columns} by {rows} squares"
    return _exercise(canvas, "grid", given, "how many squares are coloured", str(len(cells)))


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


def stacked_cubes(rng: Random) -> Drawing:
    """Towers of cubes seen from above a corner."""
    canvas = Canvas.any_size(rng, WHITE)
    side = rng.randint(22, 34)
    columns, rows = rng.randint(2, 5), rng.randint(2, 4)
    heights = [[rng.randint(1, 4) for _ in range(columns)] for _ in range(rows)]
    left, base = canvas.width * 0.35, canvas.height * 0.55
    tones = [rng.uniform(0.9, 1.0), rng.uniform(0.6, 0.8), rng.uniform(0.35, 0.5)]
    for row in range(rows):
        for column in range(columns):
            for level in range(heights[row][column]):
                x = left + (column - row) * side * 0.87
                y = base + (column + row) * side * 0.5 - level * side
                _cube(canvas, x, y, side, tones)
    count = sum(map(sum, heights))
    return _exercise(canvas, "pile of cubes", "no cube is hidden behind a gap", "the number of cubes", str(count))


def sorted_box(x0: float, y0: float, x1: float, y1: float) -> tuple[float, float, float, float]:
    """The box with its corners in the order that Pillow wants."""
    return min(x0, x1), min(y0, y1), max(x0, x1), max(y0, y1)


def _exercise(canvas: Canvas, what: str, given: str, asked: str, answer: str) -> Drawing:
    if canvas.rng.random() < 0.6:
        y = canvas.height - 24 if canvas.rng.random() < 0.7 else 8
        line = f"{canvas.rng.randint(1, 30)}. Find {asked}."
        canvas.text((12, y), line, canvas.fitting(line, canvas.width - 24, 17))
    return Drawing(canvas.image, {"what": what, "given": given, "asked": asked, "answer": answer})


def _note(canvas: Canvas, place: tuple[float, float], text: str) -> None:
    canvas.text(place, text, canvas.rng.randint(15, 20), anchor="mm")


def _long_line(canvas: Canvas, middle: tuple[float, float], angle: float) -> None:
    dx, dy = math.cos(angle) * 600, math.sin(angle) * 600
    canvas.draw.line([(middle[0] - dx, middle[1] + dy), (middle[0] + dx, middle[1] - dy)], fill=INK, width=3)


def _cube(canvas: Canvas, x: float, y: float, side: float, tones: list[float]) -> None:
    wide, half = side * 0.87, side * 0.5
    faces = [
        [(x, y), (x + wide, y - half), (x, y - side), (x - wide, y - half)],
        [(x, y), (x - wide, y - half), (x - wide, y + half), (x, y + side)],
        [(x, y), (x + wide, y - half), (x + wide, y + half), (x, y + side)],
    ]
    hue = canvas.colours(1)[0]
    for corners, tone in zip(faces, tones, strict=True):
        red, green, blue = (int(value * tone) for value in hue)
        canvas.draw.polygon(corners, fill=(red, green, blue), outline=INK)
