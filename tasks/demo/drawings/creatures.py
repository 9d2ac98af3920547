"""Simple animals, and food on plates, put together from ovals and triangles."""

import math
from random import Random

from tasks.demo.drawings.canvas import INK, WHITE, Canvas, Colour, Drawing, shade
from tasks.demo.words import things


def fish(rng: Random) -> Drawing:
    """A few fish in water."""
    canvas = Canvas.any_size(rng, shade(rng.uniform(0.48, 0.62), rng.uniform(0.3, 0.8), rng.uniform(0.4, 0.95)))
    for _ in range(rng.randint(3, 14)):
        x, y, size = rng.uniform(0, canvas.width), rng.uniform(0, canvas.height), rng.uniform(2, 9)
        canvas.draw.ellipse((x - size, y - size, x + size, y + size), outline=WHITE, width=2)
    for _ in range(rng.randint(1, 4)):
        x, y, size = rng.uniform(70, canvas.width - 70), rng.uniform(60, canvas.height - 60), rng.uniform(26, 80)
        way, colour = rng.choice([-1, 1]), shade(rng.random(), 0.8, rng.uniform(0.5, 1.0))
        flat = rng.uniform(0.35, 0.7)
        tail = [
            (x - way * size * 0.8, y),
            (x - way * size * 1.5, y - size * 0.5),
            (x - way * size * 1.5, y + size * 0.5),
        ]
        canvas.draw.polygon(tail, fill=colour)
        canvas.draw.ellipse((x - size, y - size * flat, x + size, y + size * flat), fill=colour, outline=INK)
        eye = x + way * size * 0.6
        canvas.draw.ellipse((eye - 5, y - 9, eye + 5, y + 1), fill=WHITE, outline=INK)
    return _animal(canvas, "fish")


def snail(rng: Random) -> Drawing:
    """A snail with a spiral on its back."""
    canvas = Canvas.any_size(rng, shade(rng.uniform(0.15, 0.45), rng.uniform(0.1, 0.5), rng.uniform(0.7, 0.98)))
    y, size = canvas.height * rng.uniform(0.6, 0.85), min(canvas.width, canvas.height) * rng.uniform(0.18, 0.32)
    x, way = canvas.width * rng.uniform(0.35, 0.65), rng.choice([-1, 1])
    canvas.draw.rectangle((0, y, canvas.width, canvas.height), fill=shade(rng.uniform(0.2, 0.4), 0.6, 0.6))
    skin = shade(rng.uniform(0.05, 0.12), rng.uniform(0.2, 0.6), rng.uniform(0.5, 0.9))
    canvas.draw.ellipse((x - size * 1.5, y - size * 0.4, x + size * 1.5, y + size * 0.1), fill=skin)
    for horn in (1.2, 1.4):
        end = (x + way * size * (horn + 0.15), y - size * 0.9)
        canvas.draw.line([(x + way * size * horn, y - size * 0.2), end], fill=skin, width=6)
    for turn in range(6):
        ring = size * (1 - turn / 6)
        canvas.draw.ellipse((x - ring, y - size - ring, x + ring, y - size + ring), fill=canvas.colours(6)[turn])
    return _animal(canvas, "snail")


def butterfly(rng: Random) -> Drawing:
    """Four wings with spots, sometimes several butterflies."""
    canvas = Canvas.any_size(rng, shade(rng.random(), rng.uniform(0.05, 0.35), rng.uniform(0.75, 1.0)))
    for _ in range(rng.randint(1, 3)):
        x, y = rng.uniform(90, canvas.width - 90), rng.uniform(80, canvas.height - 80)
        size, colour = rng.uniform(34, 80), shade(rng.random(), rng.uniform(0.4, 0.9), rng.uniform(0.4, 1.0))
        for side in (-1, 1):
            for up, share in ((-1, 1.0), (1, 0.7)):
                cx, cy, wing = x + side * size * 0.6, y + up * size * 0.4, size * 0.6 * share
                canvas.draw.ellipse((cx - wing, cy - wing, cx + wing, cy + wing), fill=colour, outline=INK, width=3)
                spot = wing * rng.uniform(0.2, 0.5)
                canvas.draw.ellipse((cx - spot, cy - spot, cx + spot, cy + spot), fill=canvas.colours(4)[1])
        canvas.draw.ellipse((x - 5, y - size * 0.8, x + 5, y + size * 0.8), fill=INK)
    return _animal(canvas, "butterfly")


def bird(rng: Random) -> Drawing:
    """A bird on a branch."""
    canvas = Canvas.any_size(rng, shade(rng.uniform(0.5, 0.7), rng.uniform(0.05, 0.4), rng.uniform(0.8, 1.0)))
    x, y = canvas.width * rng.uniform(0.35, 0.65), canvas.height * rng.uniform(0.35, 0.55)
    size, way, colour = rng.uniform(50, 90), rng.choice([-1, 1]), shade(rng.random(), 0.7, rng.uniform(0.4, 1.0))
    branch = y + size * 0.75
    canvas.draw.line([(0, branch + rng.uniform(-50, 50)), (canvas.width, branch)], fill=(110, 78, 50), width=12)
    for _ in range(rng.randint(3, 12)):
        lx, ly = rng.uniform(0, canvas.width), branch + rng.uniform(-40, 60)
        canvas.draw.ellipse((lx, ly, lx + 34, ly + 16), fill=shade(rng.uniform(0.22, 0.38), 0.6, 0.7))
    tail = [(x - way * size * 0.7, y), (x - way * size * 1.7, y + size * 0.5), (x - way * size * 0.6, y + size * 0.4)]
    canvas.draw.polygon(tail, fill=colour)
    canvas.draw.ellipse((x - size, y - size * 0.7, x + size, y + size * 0.7), fill=colour)
    hx, hy, head = x + way * size * 0.7, y - size * 0.6, size * 0.42
    canvas.draw.ellipse((hx - head, hy - head, hx + head, hy + head), fill=colour)
    beak = [(hx + way * head, hy - 8), (hx + way * head * 1.8, hy + 2), (hx + way * head, hy + 12)]
    canvas.draw.polygon(beak, fill=(245, 170, 40))
    canvas.draw.ellipse((hx + way * 8 - 4, hy - 8, hx + way * 8 + 4, hy), fill=INK)
    return _animal(canvas, "bird")


def plate(rng: Random) -> Drawing:
    """A dish on a plate, on a table."""
    canvas = Canvas.any_size(rng, shade(rng.uniform(0.02, 0.15), rng.uniform(0.2, 0.7), rng.uniform(0.3, 0.8)))
    for line in range(0, canvas.width, rng.randint(24, 60)):
        canvas.draw.line((line, 0, line + rng.uniform(-30, 30), canvas.height), fill=shade(0.08, 0.5, 0.4), width=2)
    x, y = canvas.width * rng.uniform(0.4, 0.6), canvas.height * rng.uniform(0.4, 0.6)
    size = min(canvas.width, canvas.height) * rng.uniform(0.32, 0.46)
    for share, colour in ((1.0, WHITE), (0.72, (232, 232, 236))):
        canvas.draw.ellipse((x - size * share, y - size * share, x + size * share, y + size * share), fill=colour)
    for _ in range(rng.randint(6, 24)):
        angle, far, bite = rng.uniform(0, math.tau), size * 0.62 * rng.random() ** 0.5, rng.uniform(8, size * 0.3)
        bx, by = x + far * math.cos(angle), y + far * math.sin(angle)
        colour = _food(rng)
        canvas.draw.ellipse((bx - bite, by - bite * rng.uniform(0.4, 1), bx + bite, by + bite * 0.6), fill=colour)
    return Drawing(canvas.image, {"what": "plate of food", "dish": rng.choice(things("dishes"))})


def _food(rng: Random) -> Colour:
    return shade(rng.choice([0.02, 0.08, 0.12, 0.25, 0.32, 0.95]), rng.uniform(0.5, 0.95), rng.uniform(0.45, 0.95))


def _animal(canvas: Canvas, animal: str) -> Drawing:
    return Drawing(canvas.image, {"what": f"drawing of a {animal}", "animal": animal})
