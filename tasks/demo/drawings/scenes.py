"""Scenes without people: places, the sky, animals, food, abstract art and memes."""

import math
from random import Random

import PIL.Image
import PIL.ImageFilter
import PIL.ImageOps

from tasks.demo.words import load, things
from tasks.drawing.canvas import INK, WHITE, Canvas, Drawing, shade


def landscape(rng: Random) -> Drawing:
    """Hills under a sun or moon."""
    canvas, hue = Canvas.any_size(rng, shade(rng.random(), 0.4, rng.uniform(0.5, 1.0))), rng.random()
    x, y = rng.uniform(40, canvas.width - 40), rng.uniform(30, canvas.height * 0.45)
    canvas.disc(x, y, rng.uniform(16, 60), shade(rng.uniform(0.02, 0.17), 0.5, 1.0))
    for layer in range(rng.randint(2, 5)):
        base = canvas.height * (0.4 + 0.13 * layer)
        canvas.draw.polygon(_hills(canvas, base), fill=shade(hue + 0.05 * layer, 0.5, 0.75 - 0.13 * layer))
    place = rng.choice(things("landscapes"))
    return Drawing(canvas.image, {"what": "painted landscape", "place": place, "mood": rng.choice(things("moods"))})


def night_sky(rng: Random) -> Drawing:
    """Stars, some joined to a figure."""
    canvas = Canvas.any_size(rng, shade(rng.uniform(0.55, 0.8), 0.7, rng.uniform(0.08, 0.25)))
    for _ in range(rng.randint(60, 260)):
        canvas.disc(*canvas.place(), rng.expovariate(1.2), shade(rng.random(), 0.15, 1.0))
    stars = [canvas.place(30) for _ in range(rng.randint(4, 8))]
    canvas.draw.line(stars, fill=(150, 170, 220), width=2)
    for star in stars:
        canvas.disc(*star, 6, (255, 250, 225))
    thing = rng.choice(things("constellations"))
    canvas.text((14, canvas.height - 28), thing, 18, (225, 230, 245))
    return Drawing(canvas.image, {"what": "star chart", "thing": thing})


def fish(rng: Random) -> Drawing:
    """A few fish in water."""
    canvas = Canvas.any_size(rng, shade(rng.uniform(0.48, 0.62), rng.uniform(0.3, 0.8), rng.uniform(0.4, 0.95)))
    for _ in range(rng.randint(3, 14)):
        canvas.disc(*canvas.place(), rng.uniform(2, 9), outline=WHITE, width=2)
    for _ in range(rng.randint(1, 4)):
        (x, y), size, way = canvas.place(65), rng.uniform(26, 80), rng.choice([-1, 1])
        colour, end = shade(rng.random(), 0.8, rng.uniform(0.5, 1.0)), x - way * size * 1.5
        canvas.draw.polygon([(x - way * size * 0.8, y), (end, y - size * 0.5), (end, y + size * 0.5)], fill=colour)
        canvas.disc(x, y, size, colour, outline=INK, flat=rng.uniform(0.35, 0.7))
        canvas.disc(x + way * size * 0.6, y - 4, 5, WHITE, outline=INK)
    return Drawing(canvas.image, {"what": "drawing of a fish", "animal": "fish"})


def plate(rng: Random) -> Drawing:
    """A dish on a plate, on a table."""
    canvas = Canvas.any_size(rng, shade(rng.uniform(0.02, 0.15), rng.uniform(0.2, 0.7), rng.uniform(0.3, 0.8)))
    for line in range(0, canvas.width, rng.randint(24, 60)):
        canvas.draw.line((line, 0, line + rng.uniform(-30, 30), canvas.height), fill=shade(0.08, 0.5, 0.4), width=2)
    x, y = canvas.width * rng.uniform(0.4, 0.6), canvas.height * rng.uniform(0.4, 0.6)
    size = min(canvas.width, canvas.height) * rng.uniform(0.32, 0.46)
    canvas.disc(x, y, size, WHITE)
    canvas.disc(x, y, size * 0.72, (232, 232, 236))
    for _ in range(rng.randint(6, 24)):
        angle, far, bite = rng.uniform(0, math.tau), size * 0.62 * rng.random() ** 0.5, rng.uniform(8, size * 0.3)
        hue, strong = rng.choice([0.02, 0.08, 0.12, 0.25, 0.32, 0.95]), rng.uniform(0.5, 0.95)
        at, up = x + far * math.cos(angle), y + far * math.sin(angle)
        canvas.disc(at, up, bite, shade(hue, strong, rng.uniform(0.45, 0.95)), flat=rng.uniform(0.4, 0.9))
    return Drawing(canvas.image, {"what": "plate of food", "dish": rng.choice(things("dishes"))})


def discs(rng: Random) -> Drawing:
    """Discs and rings at random places."""
    canvas = Canvas.any_size(rng, shade(rng.random(), rng.uniform(0, 0.6), rng.uniform(0.1, 1.0)))
    for _ in range(rng.randint(6, 26)):
        (x, y), size = canvas.place(), rng.uniform(8, 120)
        for ring in range(rng.randint(1, 4)):
            colour = shade(rng.random(), rng.uniform(0.2, 0.9), rng.uniform(0.3, 1.0))
            canvas.disc(x, y, size * (1 - ring / 4), colour)
    return _abstract(rng, canvas.image, "composition of discs")


def shards(rng: Random) -> Drawing:
    """Triangles laid over each other."""
    canvas = Canvas.any_size(rng)
    for _ in range(rng.randint(12, 50)):
        (x, y), size = canvas.place(), rng.uniform(20, 150)
        angles = [rng.uniform(0, math.tau) for _ in range(3)]
        corners = [(x + size * math.cos(angle), y + size * math.sin(angle)) for angle in angles]
        colour = shade(canvas.hue + rng.uniform(-0.2, 0.2), rng.uniform(0.2, 0.9), rng.uniform(0.2, 1.0))
        canvas.draw.polygon(corners, fill=colour)
    return _abstract(rng, canvas.image, "pattern of shards")


def misread_pattern(rng: Random) -> Drawing:
    """Overlapping ovals on lilac, an abstract pattern found by seeded search that OpenNSFW scores above 0.85.

    It depicts nothing. It takes the place of real NSFW images, which cannot be shipped, so that the demo shows the NSFW
    rule at work. Small shifts and mirroring keep the score.
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
    return _abstract(rng, PIL.ImageOps.mirror(image) if rng.random() < 0.5 else image, "pattern of ovals")


def meme(rng: Random) -> Drawing:
    """An image without faces between two lines in capitals."""
    inner = rng.choice([fish, landscape, shards])(rng).image
    joke = rng.choice(load("jokes"))
    canvas = Canvas(rng, inner.width, min(512, inner.height + 90), (16, 16, 18) if rng.random() < 0.6 else WHITE)
    wide, high, ink = canvas.width, canvas.height, WHITE if sum(canvas.paper) < 200 else INK
    canvas.image.paste(inner, (0, 45))
    canvas.draw.rectangle((0, high - 45, wide, high), fill=canvas.paper)
    canvas.text((wide / 2, 10), joke["first"].upper(), 24, ink, wide - 20, font="bold", anchor="mt")
    canvas.text((wide / 2, high - 10), joke["second"].upper(), 24, ink, wide - 20, font="bold", anchor="mb")
    return Drawing(canvas.image, {"what": "meme", **joke})


def _hills(canvas: Canvas, base: float) -> list[tuple[float, float]]:
    rng = canvas.rng
    waves = [(rng.uniform(0.005, 0.03), rng.uniform(0, 6), rng.uniform(4, 34)) for _ in range(3)]
    xs = range(0, canvas.width + 8, 8)
    line = [(float(x), base + sum(high * math.sin(x * pace + start) for pace, start, high in waves)) for x in xs]
    return [*line, (canvas.width, canvas.height), (0, canvas.height)]


def _abstract(rng: Random, image: PIL.Image.Image, what: str) -> Drawing:
    return Drawing(image, {"what": what, "mood": rng.choice(things("moods"))})
