"""Charts, diagrams, geometry, receipts, text pages, signs, a dashboard and source code, all of made-up things."""

from random import Random

from tasks.demo.words import load, things
from tasks.drawing.canvas import GREY, INK, WHITE, Canvas, Drawing, shade

_BOARDS = [(30, 90, 190), (20, 120, 70), (200, 140, 20), (190, 30, 40)]
"""Colours of signs."""


def bar_chart(rng: Random) -> Drawing:
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
        canvas.text((x + size / 2, top - 4), str(value), 12, GREY, anchor="mb")
    high, low = max(bars, key=bars.__getitem__), min(bars, key=bars.__getitem__)
    facts = {"highest": high, "highest_value": str(bars[high]), "lowest": low, "lowest_value": str(bars[low])}
    return Drawing(canvas.image, {"what": "bar chart", "title": title} | facts)


def flow_chart(rng: Random) -> Drawing:
    """Steps in boxes on a line that zigzags down the sheet."""
    canvas, title = Canvas.any_size(rng), rng.choice(things("processes"))
    steps = rng.sample(things("steps"), rng.randint(3, 7))
    high, colours = (canvas.height - 40) / len(steps), canvas.colours(4)
    places = [(rng.uniform(0.3, 0.7) * canvas.width, 40 + high * (row + 0.5)) for row in range(len(steps))]
    canvas.draw.line(places, fill=INK, width=rng.randint(2, 4))
    for (x, y), step in zip(places, steps, strict=True):
        box = (x - canvas.width * 0.28, y - high * 0.32, x + canvas.width * 0.28, y + high * 0.32)
        canvas.draw.rounded_rectangle(box, rng.choice([0, high * 0.1, high * 0.3]), rng.choice(colours), INK, 2)
        canvas.text((x, y), step, 14, width=canvas.width * 0.5, anchor="mm")
    canvas.text((rng.randint(10, 40), 8), title, 18, width=canvas.width - 50)
    return Drawing(canvas.image, {"what": "flow chart", "title": title, "first": steps[0], "last": steps[-1]})


def right_triangle(rng: Random) -> Drawing:
    """A right triangle with two sides given."""
    a, b, c = rng.choice([(3, 4, 5), (6, 8, 10), (5, 12, 13), (8, 15, 17), (9, 12, 15), (7, 24, 25), (20, 21, 29)])
    canvas = Canvas.any_size(rng, WHITE)
    scale = min(canvas.width - 120, canvas.height - 120) / max(a, b)
    wide, high = rng.choice([-1, 1]) * a * scale, rng.choice([-1, 1]) * b * scale
    x, y = (canvas.width - wide) / 2, (canvas.height - high) / 2
    fill = rng.choice([None, *canvas.colours(3)])
    canvas.draw.polygon([(x, y), (x + wide, y), (x, y + high)], fill=fill, outline=INK, width=rng.randint(2, 4))
    for at, side in (((0.5, -0.06), f"{a} cm"), ((-0.12, 0.5), f"{b} cm"), ((0.58, 0.55), "x")):
        canvas.text((x + wide * at[0], y + high * at[1]), side, 17, anchor="mm")
    canvas.text((12, rng.choice([8, canvas.height - 24])), f"{rng.randint(1, 30)}. Find the hypotenuse x.", 17)
    facts = {"what": "right triangle", "given": f"legs of {a} cm and {b} cm"}
    return Drawing(canvas.image, facts | {"asked": "the hypotenuse x", "answer": f"{c} cm"})


def receipt(rng: Random, shop: str | None = None, items: int | None = None) -> Drawing:
    """A till receipt. Receipts of one shop look alike and differ in what was bought."""
    goods = rng.sample(things("groceries"), items or rng.randint(4, 10))
    bought = {name: rng.randint(40, 1900) / 100 for name in goods}
    width = 290 if shop else rng.randint(250, 330)
    shop = shop or f"{rng.choice(things('shop_words'))} {rng.choice(things('shops'))}"
    canvas = Canvas(rng, width, 150 + 24 * len(bought), rng.choice([WHITE, (250, 248, 240)]))
    canvas.font = rng.choice(["mono", "plain"])
    day, total = f"{rng.randint(1, 28):02}.{rng.randint(1, 12):02}.{rng.randint(2018, 2024)}", sum(bought.values())
    canvas.text((width / 2, 20), shop, 19, width=width - 30, anchor="mt")
    canvas.text((width / 2, 48), day, 14, GREY, anchor="mt")
    for index, (name, price) in enumerate(bought.items()):
        canvas.text((14, 78 + 24 * index), name[:16], 14)
        canvas.text((width - 14, 78 + 24 * index), f"{price:.2f}", 14, anchor="ra")
    end = 82 + 24 * len(bought)
    canvas.draw.line([(14, end), (width - 14, end)], fill=INK, width=2)
    canvas.text((14, end + 8), "TOTAL", 17)
    canvas.text((width - 14, end + 8), f"{total:.2f}", 17, anchor="ra")
    item = max(bought, key=bought.__getitem__)
    facts = {"what": "receipt", "shop": shop, "date": day, "total": f"{total:.2f}"}
    return Drawing(canvas.image, facts | {"item": item, "price": f"{bought[item]:.2f}"})


def text_page(rng: Random, title: str | None = None) -> Drawing:
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
    return Drawing(canvas.image, {"what": "page of text", "title": title, "line": sentences[0]})


def street_sign(rng: Random) -> Drawing:
    """A sign on a post."""
    canvas, sign = Canvas.any_size(rng, shade(rng.uniform(0.5, 0.62), 0.3, 0.9)), rng.choice(load("signs"))
    ground, middle = canvas.height * rng.uniform(0.6, 0.85), canvas.width * rng.uniform(0.4, 0.6)
    canvas.draw.rectangle((0, ground, canvas.width, canvas.height), fill=shade(rng.uniform(0.05, 0.35), 0.4, 0.6))
    canvas.draw.rectangle((middle - 6, 30, middle + 6, canvas.height), fill=GREY)
    half, top, colour = canvas.width * rng.uniform(0.3, 0.38), rng.uniform(10, ground * 0.4), rng.choice(_BOARDS)
    lines = _wrapped(canvas, sign["text"], 30, 2 * half - 20)
    box = (middle - half, top, middle + half, top + 24 + 36 * len(lines))
    canvas.draw.rounded_rectangle(box, rng.uniform(0, 30), colour, WHITE, rng.randint(2, 7))
    for row, line in enumerate(lines):
        canvas.text((middle, top + 30 + 36 * row), line, 28, WHITE, 2 * half - 20, font="bold", anchor="mm")
    return Drawing(canvas.image, {"what": "sign", **sign})


def dashboard(rng: Random) -> Drawing:
    """A window with cards of figures and little charts."""
    dark, columns, rows = rng.random() < 0.35, rng.randint(1, 3), rng.randint(1, 3)
    canvas, app = Canvas.any_size(rng, (32, 34, 40) if dark else None), rng.choice(things("apps"))
    bar, ink = rng.randint(22, 44), WHITE if dark else INK
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
    return Drawing(canvas.image, facts)


def code_editor(rng: Random) -> Drawing:
    """A few lines of program code, with a mistake in one of them."""
    sample, dark = rng.choice(load("programs")), rng.random() < 0.65
    canvas = Canvas.any_size(rng, (28, 30, 38) if dark else WHITE)
    colours = [shade(canvas.hue + index / 5, 0.45 if dark else 0.9, 0.95 if dark else 0.55) for index in range(5)]
    top, pace = rng.randint(8, 50), rng.randint(18, 24)
    for index, line in enumerate(sample["code"].rstrip().splitlines()):
        canvas.text((8, top + pace * index), str(index + 1), 14, GREY, font="mono")
        canvas.text((38, top + pace * index), line, 14, rng.choice(colours), canvas.width - 46, font="mono")
    facts = {name: sample[name] for name in ("language", "function", "bug")}
    return Drawing(canvas.image, {"what": "screenshot of code", **facts})


def _wrapped(canvas: Canvas, text: str, size: int, width: float) -> list[str]:
    lines = [""]
    for word in text.split():
        longer = f"{lines[-1]} {word}".strip()
        if canvas.text_width(longer, size) <= width:
            lines[-1] = longer
        else:
            lines.append(word)
    return lines
