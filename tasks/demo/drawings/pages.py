"""Pages and screens: receipts, text pages, signs, a dashboard and source code, all of made-up shops and programs."""

from random import Random

from tasks.demo.drawings.canvas import GREY, INK, WHITE, Box, Canvas, Colour, Drawing, shade
from tasks.demo.words import load, things


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
    """A sign on a post, in front of something."""
    canvas = Canvas.any_size(rng, shade(rng.uniform(0.5, 0.62), rng.uniform(0.1, 0.4), rng.uniform(0.75, 0.97)))
    ground = canvas.height * rng.uniform(0.6, 0.85)
    canvas.draw.rectangle((0, ground, canvas.width, canvas.height), fill=shade(rng.uniform(0.05, 0.35), 0.4, 0.6))
    for _ in range(rng.randint(0, 4)):
        x = rng.uniform(0, canvas.width)
        box = (x, ground - rng.uniform(40, 180), x + rng.uniform(30, 110), ground)
        canvas.draw.rectangle(box, fill=shade(rng.random(), 0.25, rng.uniform(0.45, 0.8)))
    sign = rng.choice(load("signs"))
    wide, high = canvas.width * rng.uniform(0.5, 0.85), canvas.height * rng.uniform(0.22, 0.45)
    x, y = rng.uniform(0, canvas.width - wide), rng.uniform(10, canvas.height * 0.3)
    canvas.draw.rectangle((x + wide / 2 - 6, y, x + wide / 2 + 6, canvas.height), fill=(96, 98, 104))
    _board(canvas, (x, y, x + wide, y + high), sign["text"])
    return Drawing(canvas.image, {"what": "sign", **sign})


def dashboard(rng: Random) -> Drawing:
    """Cards with figures and little charts."""
    canvas, app, ink, (left, top, right, bottom) = _window(rng)
    columns, rows = rng.randint(1, 3), rng.randint(1, 3)
    names = rng.sample(things("measures"), columns * rows)
    wide, high = (right - left) / columns, (bottom - top) / rows
    for index, name in enumerate(names):
        x, y = left + wide * (index % columns) + 8, top + high * (index // columns) + 8
        colour = canvas.colours(5)[index % 5]
        canvas.draw.rounded_rectangle((x, y, x + wide - 16, y + high - 16), 8, outline=colour, width=3)
        canvas.text((x + 8, y + 6), name, 14, ink, wide - 34)
        canvas.text((x + 8, y + 26), str(rng.randint(10, 9900)), rng.randint(16, 28), ink)
        upper, lower, step = y + high * 0.55, y + high - 26, (wide - 34) / 10
        for bar in range(rng.randint(5, 10) if lower - upper > 12 else 0):
            at = x + 8 + step * bar
            canvas.draw.rectangle((at, rng.uniform(upper, lower), at + step * 0.7, lower), fill=colour)
    facts = {"what": "dashboard", "app": app, "title": names[0], "button": rng.choice(things("buttons"))}
    return Drawing(canvas.image, facts)


def code_editor(rng: Random) -> Drawing:
    """A few lines of program code, with a mistake in one of them."""
    sample, dark, size = rng.choice(load("programs")), rng.random() < 0.65, rng.randint(13, 16)
    lines = sample["code"].rstrip().splitlines()
    wide = max(300, min(512, int(max(len(line) for line in lines) * size * 0.61) + 64))
    canvas = Canvas(rng, wide, rng.randint(70, 130) + int(len(lines) * size * 1.5), (28, 30, 38) if dark else WHITE)
    canvas.font = "mono"
    colours = [shade(canvas.hue + index / 5, 0.45 if dark else 0.9, 0.95 if dark else 0.55) for index in range(5)]
    top = rng.randint(16, 50)
    for index, line in enumerate(lines):
        y = top + index * int(size * 1.5)
        canvas.text((8, y), str(index + 1), size, (120, 122, 130))
        canvas.text((38, y), line, size, rng.choice(colours))
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


def _board(canvas: Canvas, box: Box, text: str) -> None:
    left, top, right, bottom = box
    fill: Colour = canvas.rng.choice([WHITE, (30, 90, 190), (20, 120, 70), (250, 205, 40), (190, 30, 40)])
    ink = INK if sum(fill) > 400 else WHITE
    canvas.draw.rounded_rectangle(box, canvas.rng.uniform(0, 30), fill, ink, canvas.rng.randint(2, 7))
    words = text.split()
    middle = len(words) // 2 if canvas.text_width(text, 24, "bold") > right - left - 30 else len(words)
    lines = [" ".join(part) for part in (words[:middle], words[middle:]) if part]
    high = (bottom - top) / len(lines)
    for index, line in enumerate(lines):
        place = ((left + right) / 2, top + high * (index + 0.5))
        canvas.text(place, line, int(high * 0.5), ink, right - left - 30, font="bold", anchor="mm")


def _window(rng: Random) -> tuple[Canvas, str, Colour, Box]:
    """A window with its bar; the program's name, the colour of text, and the box that is left."""
    dark = rng.random() < 0.35
    canvas = Canvas.any_size(rng, (32, 34, 40) if dark else rng.choice([WHITE, (243, 244, 248)]))
    app, bar, side = rng.choice(things("apps")), rng.randint(22, 44), rng.choice([0, 0, rng.randint(60, 120)])
    canvas.draw.rectangle((0, 0, canvas.width, bar), fill=shade(canvas.hue, rng.uniform(0, 0.7), rng.uniform(0.3, 0.9)))
    canvas.text((12, bar / 2), app, 15, WHITE, anchor="lm")
    canvas.draw.rectangle((0, bar, side, canvas.height), fill=shade(canvas.hue, 0.3, rng.uniform(0.35, 0.8)))
    for index in range(rng.randint(3, 7) if side else 0):
        y = bar + 16 + 30 * index
        canvas.draw.rounded_rectangle((10, y, side - 10, y + 14), 5, fill=shade(canvas.hue, 0.15, 0.9))
    return canvas, app, (232, 233, 238) if dark else INK, (side + 8, bar + 8, canvas.width - 8, canvas.height - 10)
