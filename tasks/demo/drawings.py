"""Images that the demo draws itself: charts, pages, screens and scenes without people, all of made-up things.

In: a seeded generator. Out: an image and words for prompts and answers about it. A new family is one function and its
name at the end.
"""

import math
from collections.abc import Callable
from random import Random

import PIL.Image
import PIL.ImageFilter
import PIL.ImageOps

from tasks.demo.words import load, things
from tasks.drawing.canvas import CANVAS_GREY, CANVAS_INK, WHITE, Canvas, DrawnImage, shade

_BOARDS = [(30, 90, 190), (20, 120, 70), (200, 140, 20), (190, 30, 40)]
"""Colours of signs."""


def bar_chart(rng: Random) -> DrawnImage:
    """Bars with their values."""
    canvas = Canvas.any_size(rng)
    title = f"{rng.choice(things('measures'))} in {rng.choice(things('towns'))}, {rng.randint(2015, 2023)}"
    canvas.text((rng.randint(12, 24), rng.choice([12, canvas.height - 26])), title, 18, width=canvas.width - 40)
    values = rng.sample(range(8, 98), rng.randint(3, 9))
    labels = rng.sample(things(rng.choice(["goods", "towns", "crops"])), len(values))
    bars, step = dict(zip(labels, values, strict=True)), (canvas.width - 40) / len(values)
    size, bottom = step * rng.uniform(0.55, 0.9), canvas.height - 60
    for index, ((label, value), colour) in enumerate(zip(bars.items(), canvas.colours(len(bars)), strict=True)):
        x, top = 20 + step * index, bottom - (canvas.height - 130) * value / 100
        canvas.draw.rectangle((x, top, x + size, bottom), fill=colour)
        canvas.text((x + size / 2, bottom + 6), label, 12, width=step, anchor="mt")
        canvas.text((x + size / 2, top - 4), str(value), 12, CANVAS_GREY, anchor="mb")
    high, low = max(bars, key=bars.__getitem__), min(bars, key=bars.__getitem__)
    facts = {"highest": high, "highest_value": str(bars[high]), "lowest": low, "lowest_value": str(bars[low])}
    return DrawnImage(canvas.image, {"what": "bar chart", "title": title} | facts)


def flow_chart(rng: Random) -> DrawnImage:
    """Steps in boxes on a line that zigzags down the sheet."""
    canvas, title = Canvas.any_size(rng), rng.choice(things("processes"))
    steps = rng.sample(things("steps"), rng.randint(3, 7))
    high, colours = (canvas.height - 40) / len(steps), canvas.colours(4)
    places = [(rng.uniform(0.3, 0.7) * canvas.width, 40 + high * (row + 0.5)) for row in range(len(steps))]
    canvas.draw.line(places, fill=CANVAS_INK, width=rng.randint(2, 4))
    for (x, y), step in zip(places, steps, strict=True):
        box = (x - canvas.width * 0.28, y - high * 0.32, x + canvas.width * 0.28, y + high * 0.32)
        canvas.draw.rounded_rectangle(box, rng.choice([0, high * 0.1, high * 0.3]), rng.choice(colours), CANVAS_INK, 2)
        canvas.text((x, y), step, 14, width=canvas.width * 0.5, anchor="mm")
    canvas.text((rng.randint(10, 40), 8), title, 18, width=canvas.width - 50)
    return DrawnImage(canvas.image, {"what": "flow chart", "title": title, "first": steps[0], "last": steps[-1]})


def right_triangle(rng: Random) -> DrawnImage:
    """A right triangle with two sides given."""
    a, b, c = rng.choice([(3, 4, 5), (6, 8, 10), (5, 12, 13), (8, 15, 17), (9, 12, 15), (7, 24, 25), (20, 21, 29)])
    canvas = Canvas.any_size(rng, WHITE)
    scale = min(canvas.width - 120, canvas.height - 120) / max(a, b)
    wide, high = rng.choice([-1, 1]) * a * scale, rng.choice([-1, 1]) * b * scale
    x, y = (canvas.width - wide) / 2, (canvas.height - high) / 2
    fill = rng.choice([None, *canvas.colours(3)])
    canvas.draw.polygon([(x, y), (x + wide, y), (x, y + high)], fill=fill, outline=CANVAS_INK, width=rng.randint(2, 4))
    for at, side in (((0.5, -0.06), f"{a} cm"), ((-0.12, 0.5), f"{b} cm"), ((0.58, 0.55), "x")):
        canvas.text((x + wide * at[0], y + high * at[1]), side, 17, anchor="mm")
    canvas.text((12, rng.choice([8, canvas.height - 24])), f"{rng.randint(1, 30)}. Find the hypotenuse x.", 17)
    facts = {"what": "right triangle", "given": f"legs of {a} cm and {b} cm"}
    return DrawnImage(canvas.image, facts | {"asked": "the hypotenuse x", "answer": f"{c} cm"})


def receipt(rng: Random, shop: str | None = None, items: int | None = None) -> DrawnImage:
    """A till receipt. Receipts of one shop look alike and differ in what was bought."""
    goods = rng.sample(things("groceries"), items or rng.randint(4, 10))
    bought = {name: rng.randint(40, 1900) / 100 for name in goods}
    width = 290 if shop else rng.randint(250, 330)
    shop = shop or f"{rng.choice(things('shop_words'))} {rng.choice(things('shops'))}"
    canvas = Canvas(rng, width, 150 + 24 * len(bought), rng.choice([WHITE, (250, 248, 240)]))
    canvas.font = rng.choice(["mono", "plain"])
    day, total = f"{rng.randint(1, 28):02}.{rng.randint(1, 12):02}.{rng.randint(2018, 2024)}", sum(bought.values())
    canvas.text((width / 2, 20), shop, 19, width=width - 30, anchor="mt")
    canvas.text((width / 2, 48), day, 14, CANVAS_GREY, anchor="mt")
    for index, (name, price) in enumerate(bought.items()):
        canvas.text((14, 78 + 24 * index), name[:16], 14)
        canvas.text((width - 14, 78 + 24 * index), f"{price:.2f}", 14, anchor="ra")
    end = 82 + 24 * len(bought)
    canvas.draw.line([(14, end), (width - 14, end)], fill=CANVAS_INK, width=2)
    canvas.text((14, end + 8), "TOTAL", 17)
    canvas.text((width - 14, end + 8), f"{total:.2f}", 17, anchor="ra")
    item = max(bought, key=bought.__getitem__)
    facts = {"what": "receipt", "shop": shop, "date": day, "total": f"{total:.2f}"}
    return DrawnImage(canvas.image, facts | {"item": item, "price": f"{bought[item]:.2f}"})


def text_page(rng: Random, title: str | None = None) -> DrawnImage:
    """A page of a story or a notice. Pages of one book look alike and say different things."""
    width, height = (440, 420) if title else (rng.randint(380, 500), rng.randint(360, 480))
    canvas = Canvas(rng, width, height, rng.choice([WHITE, (247, 243, 232)]))
    title = title or rng.choice(things("titles"))
    sentences = rng.sample(things("sentences"), rng.randint(4, 7))
    canvas.text((width / 2, 18), title, 22, width=width - 40, anchor="mt")
    size, y, indent = rng.randint(14, 17), 62, rng.randint(16, 34)
    for line in _wrapped(canvas, " ".join(sentences), size, width - 2 * indent):
        if y <= height - 36:
            canvas.text((indent, y), line, size)
        y += int(size * 1.5)
    return DrawnImage(canvas.image, {"what": "page of text", "title": title, "line": sentences[0]})


def street_sign(rng: Random) -> DrawnImage:
    """A sign on a post."""
    canvas, sign = Canvas.any_size(rng, shade(rng.uniform(0.5, 0.62), 0.3, 0.9)), rng.choice(load("signs"))
    ground, middle = canvas.height * rng.uniform(0.6, 0.85), canvas.width * rng.uniform(0.4, 0.6)
    canvas.draw.rectangle((0, ground, canvas.width, canvas.height), fill=shade(rng.uniform(0.05, 0.35), 0.4, 0.6))
    canvas.draw.rectangle((middle - 6, 30, middle + 6, canvas.height), fill=CANVAS_GREY)
    half, top, colour = canvas.width * rng.uniform(0.3, 0.38), rng.uniform(10, ground * 0.4), rng.choice(_BOARDS)
    lines = _wrapped(canvas, sign["text"], 30, 2 * half - 20)
    box = (middle - half, top, middle + half, top + 24 + 36 * len(lines))
    canvas.draw.rounded_rectangle(box, rng.uniform(0, 30), colour, WHITE, rng.randint(2, 7))
    for row, line in enumerate(lines):
        canvas.text((middle, top + 30 + 36 * row), line, 28, WHITE, 2 * half - 20, font="bold", anchor="mm")
    return DrawnImage(canvas.image, {"what": "sign", **sign})


def dashboard(rng: Random) -> DrawnImage:
    """A window with cards of figures and little charts."""
    dark, columns, rows = rng.random() < 0.35, rng.randint(1, 3), rng.randint(1, 3)
    canvas, app = Canvas.any_size(rng, (32, 34, 40) if dark else None), rng.choice(things("apps"))
    bar, ink = rng.randint(22, 44), WHITE if dark else CANVAS_INK
    canvas.draw.rectangle((0, 0, canvas.width, bar), fill=shade(canvas.hue, 0.6, 0.6))
    canvas.text((12, bar / 2), app, 15, WHITE, anchor="lm")
    names = rng.sample(things("measures"), columns * rows)
    wide, high = canvas.width / columns, (canvas.height - bar) / rows
    for index, (name, colour) in enumerate(zip(names, canvas.colours(len(names)), strict=True)):
        x, y = wide * (index % columns) + 8, bar + high * (index // columns) + 8
        canvas.draw.rounded_rectangle((x, y, x + wide - 16, y + high - 16), 8, outline=colour, width=3)
        canvas.text((x + 8, y + 6), f"{name}: {rng.randint(10, 9900)}", 14, ink, wide - 34)
        for at in range(rng.randint(5, 10)):
            left, top = x + 8 + at * (wide - 34) / 10, y + high - 24 - rng.uniform(0, high - 60)
            canvas.draw.rectangle((left, top, left + wide / 20, y + high - 22), fill=colour)
    facts = {"what": "dashboard", "app": app, "title": names[0], "button": rng.choice(things("buttons"))}
    return DrawnImage(canvas.image, facts)


def code_editor(rng: Random) -> DrawnImage:
    """A few lines of program code, with a mistake in one of them."""
    sample, dark = rng.choice(load("programs")), rng.random() < 0.65
    canvas = Canvas.any_size(rng, (28, 30, 38) if dark else WHITE)
    colours = [shade(canvas.hue + index / 5, 0.45 if dark else 0.9, 0.95 if dark else 0.55) for index in range(5)]
    top, pace = rng.randint(8, 50), rng.randint(18, 24)
    for index, line in enumerate(sample["code"].rstrip().splitlines()):
        canvas.text((8, top + pace * index), str(index + 1), 14, CANVAS_GREY, font="mono")
        canvas.text((38, top + pace * index), line, 14, rng.choice(colours), canvas.width - 46, font="mono")
    facts = {name: sample[name] for name in ("language", "function", "bug")}
    return DrawnImage(canvas.image, {"what": "screenshot of code", **facts})


def _wrapped(canvas: Canvas, text: str, size: int, width: float) -> list[str]:
    lines = [""]
    for word in text.split():
        longer = f"{lines[-1]} {word}".strip()
        if canvas.text_width(longer, size) <= width:
            lines[-1] = longer
        else:
            lines.append(word)
    return lines


def landscape(rng: Random) -> DrawnImage:
    """Hills under a sun or moon."""
    canvas, hue = Canvas.any_size(rng, shade(rng.random(), 0.4, rng.uniform(0.5, 1.0))), rng.random()
    x, y = rng.uniform(40, canvas.width - 40), rng.uniform(30, canvas.height * 0.45)
    canvas.disc(x, y, rng.uniform(16, 60), shade(rng.uniform(0.02, 0.17), 0.5, 1.0))
    for layer in range(rng.randint(2, 5)):
        base = canvas.height * (0.4 + 0.13 * layer)
        canvas.draw.polygon(_hills(canvas, base), fill=shade(hue + 0.05 * layer, 0.5, 0.75 - 0.13 * layer))
    place = rng.choice(things("landscapes"))
    return DrawnImage(canvas.image, {"what": "painted landscape", "place": place, "mood": rng.choice(things("moods"))})


def night_sky(rng: Random) -> DrawnImage:
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
    return DrawnImage(canvas.image, {"what": "star chart", "thing": thing})


def fish(rng: Random) -> DrawnImage:
    """A few fish in water."""
    canvas = Canvas.any_size(rng, shade(rng.uniform(0.48, 0.62), rng.uniform(0.3, 0.8), rng.uniform(0.4, 0.95)))
    for _ in range(rng.randint(3, 14)):
        canvas.disc(*canvas.place(), rng.uniform(2, 9), outline=WHITE, width=2)
    for _ in range(rng.randint(1, 4)):
        (x, y), size, way = canvas.place(65), rng.uniform(26, 80), rng.choice([-1, 1])
        colour, end = shade(rng.random(), 0.8, rng.uniform(0.5, 1.0)), x - way * size * 1.5
        canvas.draw.polygon([(x - way * size * 0.8, y), (end, y - size * 0.5), (end, y + size * 0.5)], fill=colour)
        canvas.disc(x, y, size, colour, outline=CANVAS_INK, flat=rng.uniform(0.35, 0.7))
        canvas.disc(x + way * size * 0.6, y - 4, 5, WHITE, outline=CANVAS_INK)
    return DrawnImage(canvas.image, {"what": "drawing of a fish", "animal": "fish"})


def plate(rng: Random) -> DrawnImage:
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
    return DrawnImage(canvas.image, {"what": "plate of food", "dish": rng.choice(things("dishes"))})


def discs(rng: Random) -> DrawnImage:
    """Discs and rings at random places."""
    canvas = Canvas.any_size(rng, shade(rng.random(), rng.uniform(0, 0.6), rng.uniform(0.1, 1.0)))
    for _ in range(rng.randint(6, 26)):
        (x, y), size = canvas.place(), rng.uniform(8, 120)
        for ring in range(rng.randint(1, 4)):
            colour = shade(rng.random(), rng.uniform(0.2, 0.9), rng.uniform(0.3, 1.0))
            canvas.disc(x, y, size * (1 - ring / 4), colour)
    return _abstract(rng, canvas.image, "composition of discs")


def shards(rng: Random) -> DrawnImage:
    """Triangles laid over each other."""
    canvas = Canvas.any_size(rng)
    for _ in range(rng.randint(12, 50)):
        (x, y), size = canvas.place(), rng.uniform(20, 150)
        angles = [rng.uniform(0, math.tau) for _ in range(3)]
        corners = [(x + size * math.cos(angle), y + size * math.sin(angle)) for angle in angles]
        colour = shade(canvas.hue + rng.uniform(-0.2, 0.2), rng.uniform(0.2, 0.9), rng.uniform(0.2, 1.0))
        canvas.draw.polygon(corners, fill=colour)
    return _abstract(rng, canvas.image, "pattern of shards")


def misread_pattern(rng: Random) -> DrawnImage:
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


def meme(rng: Random) -> DrawnImage:
    """An image without faces between two lines in capitals."""
    inner = rng.choice([fish, landscape, shards])(rng).image
    joke = rng.choice(load("jokes"))
    canvas = Canvas(rng, inner.width, min(512, inner.height + 90), (16, 16, 18) if rng.random() < 0.6 else WHITE)
    wide, high, ink = canvas.width, canvas.height, WHITE if sum(canvas.paper) < 200 else CANVAS_INK
    canvas.image.paste(inner, (0, 45))
    canvas.draw.rectangle((0, high - 45, wide, high), fill=canvas.paper)
    canvas.text((wide / 2, 10), joke["first"].upper(), 24, ink, wide - 20, font="bold", anchor="mt")
    canvas.text((wide / 2, high - 10), joke["second"].upper(), 24, ink, wide - 20, font="bold", anchor="mb")
    return DrawnImage(canvas.image, {"what": "meme", **joke})


def _hills(canvas: Canvas, base: float) -> list[tuple[float, float]]:
    rng = canvas.rng
    waves = [(rng.uniform(0.005, 0.03), rng.uniform(0, 6), rng.uniform(4, 34)) for _ in range(3)]
    xs = range(0, canvas.width + 8, 8)
    line = [(float(x), base + sum(high * math.sin(x * pace + start) for pace, start, high in waves)) for x in xs]
    return [*line, (canvas.width, canvas.height), (0, canvas.height)]


def _abstract(rng: Random, image: PIL.Image.Image, what: str) -> DrawnImage:
    return DrawnImage(image, {"what": what, "mood": rng.choice(things("moods"))})


_FAMILIES = (
    bar_chart, flow_chart, right_triangle, receipt, text_page, street_sign, dashboard, code_editor, landscape,
    night_sky, fish, plate, meme, discs, shards,
)  # fmt: skip
FAMILIES: dict[str, Callable[[Random], DrawnImage]] = {draw.__name__: draw for draw in _FAMILIES}
"""Family, as the topics name it -> function that draws one image of it."""
