"""Pages and screens: documents of made-up shops, signs in several languages, windows of made-up programs."""

from random import Random

from tasks.demo.drawings.canvas import GREY, INK, WHITE, Box, Canvas, Colour, Drawing, shade
from tasks.demo.words import load, things


def receipt(rng: Random, shop: str | None = None, items: int | None = None) -> Drawing:
    """A till receipt. Receipts of one shop look alike and differ in what was bought."""
    goods = rng.sample(things("groceries"), items or rng.randint(4, 10))
    bought = {name: rng.randint(40, 1900) / 100 for name in goods}
    width = 290 if shop else rng.randint(250, 330)
    shop = shop or _shop(rng)
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
    return Drawing(canvas.image, _bill("receipt", shop, day, f"{total:.2f}", bought))


def invoice(rng: Random) -> Drawing:
    """A letter-like bill with a table."""
    canvas = Canvas(rng, rng.randint(360, 440), rng.randint(400, 500), WHITE)
    shop = _shop(rng)
    day = f"{rng.randint(1, 28)} {rng.choice(things('months'))} {rng.randint(2018, 2024)}"
    canvas.draw.rectangle((0, 0, canvas.width, rng.randint(34, 90)), fill=canvas.colours(3)[0])
    canvas.text((rng.randint(14, 60), 8), shop, 22, WHITE)
    canvas.text((canvas.width - 20, 110), day, 14, anchor="ra")
    canvas.text((20, 110), f"Invoice {rng.randint(100, 999)}", 18)
    bought = {name: float(rng.randint(5, 900)) for name in rng.sample(things("goods"), rng.randint(3, 7))}
    for index, (name, price) in enumerate(bought.items()):
        y = 150 + 28 * index
        if index % 2:
            canvas.draw.rectangle((16, y - 5, canvas.width - 16, y + 21), fill=(238, 240, 244))
        canvas.text((24, y), name, 15)
        canvas.text((canvas.width - 28, y), f"{price:.2f}", 15, anchor="ra")
    total = f"{sum(bought.values()):.2f}"
    canvas.text((canvas.width - 28, 160 + 28 * len(bought)), f"Total {total}", 18, anchor="ra")
    return Drawing(canvas.image, _bill("invoice", shop, day, total, bought))


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


def table(rng: Random) -> Drawing:
    """Rows and columns of figures."""
    canvas = Canvas.any_size(rng)
    columns, rows = rng.randint(2, 4), rng.randint(3, 7)
    title = f"{rng.choice(things('measures'))} by {rng.choice(['town', 'month', 'crop'])}"
    canvas.text((14, 10), title, 18, width=canvas.width - 28)
    names = rng.sample(things(rng.choice(["towns", "months", "crops"])), rows)
    cells = [["", *(str(2017 + 2 * column) for column in range(columns))]]
    cells += [[name, *(str(rng.randint(2, 980)) for _ in range(columns))] for name in names]
    wide, high, head = (canvas.width - 28) / (columns + 1), (canvas.height - 60) / (rows + 1), canvas.colours(2)[0]
    for row, line in enumerate(cells):
        for column, words in enumerate(line):
            x, y = 14 + wide * column, 46 + high * row
            fill = canvas.paper if rng.random() < 0.8 else shade(canvas.hue, 0.12, 0.95)
            canvas.draw.rectangle((x, y, x + wide, y + high), fill=fill if row else head, outline=GREY)
            canvas.text((x + wide / 2, y + high / 2), words, 14, width=wide - 6, anchor="mm")
    return Drawing(canvas.image, {"what": "table", "title": title, "line": f"{names[0]} comes first"})


def recipe_card(rng: Random) -> Drawing:
    """A dish, what goes in and how long it takes."""
    canvas = Canvas.any_size(rng, shade(rng.random(), 0.12, 0.97))
    dish, colours = rng.choice(things("dishes")), canvas.colours(3)
    bar = rng.choice([0, canvas.height - 44])
    canvas.draw.rectangle((0, bar, canvas.width, bar + 44), fill=colours[0])
    canvas.text((14, bar + 10), dish, 22, WHITE, canvas.width - 120)
    canvas.text((canvas.width - 12, bar + 14), f"{rng.randint(2, 12) * 5} min", 16, WHITE, anchor="ra")
    size, left = rng.uniform(40, 75), rng.random() < 0.5
    x, y = rng.uniform(size, size + 40), rng.uniform(60 + size, canvas.height - 60 - size)
    for ring in range(rng.randint(1, 4)):
        canvas.disc(x if left else canvas.width - x, y, size * (1 - ring / 4), colours[(ring + 1) % 3])
    goods = rng.sample(things("groceries"), rng.randint(3, 7))
    for index, name in enumerate(goods):
        y = 56 + (canvas.height - 112) * index / len(goods)
        canvas.text((canvas.width - 180 if left else 16, y), f"{rng.randint(1, 500)} g {name}", 15)
    return Drawing(canvas.image, {"what": "recipe card", "dish": dish})


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


def label(rng: Random) -> Drawing:
    """A label on a jar or a parcel."""
    canvas = Canvas.any_size(rng, shade(rng.uniform(0.02, 0.16), rng.uniform(0.1, 0.5), rng.uniform(0.5, 0.95)))
    sign, inset, colours = rng.choice(load("signs")), rng.uniform(20, 70), canvas.colours(3)
    left, top, right = inset, inset * rng.uniform(0.4, 1.4), canvas.width - inset
    bottom = canvas.height - inset * rng.uniform(0.4, 1.8)
    canvas.draw.rounded_rectangle((left, top, right, bottom), rng.uniform(0, 40), WHITE, colours[1], 6)
    for line in range(rng.randint(1, 4)):
        y = bottom - 20 - line * 14
        canvas.draw.line((left + 20, y, right - rng.uniform(20, 120), y), fill=(150, 150, 156), width=3)
    canvas.text((canvas.width / 2, top + 24), sign["text"], 34, width=right - left - 24, font="bold", anchor="mt")
    seal = rng.uniform(16, 34)
    canvas.disc(rng.uniform(left + seal, right - seal), (top + bottom) / 2 + 10, seal, colours[0])
    return Drawing(canvas.image, {"what": "label", **sign})


def settings_page(rng: Random) -> Drawing:
    """Switches under each other, with a side bar now and then."""
    canvas, app, ink, (left, top, right, bottom) = _window(rng)
    title, names = rng.choice(things("setting_pages")), rng.sample(things("switches"), rng.randint(3, 6))
    canvas.text((left + 12, top + 10), title, 20, ink, right - left - 24)
    for index, name in enumerate(names):
        x, y, on = right - 60, top + 50 + (bottom - top - 60) * index / len(names), rng.random() < 0.5
        canvas.text((left + 12, y), name, 14, ink)
        canvas.draw.rounded_rectangle((x, y, x + 40, y + 20), 10, fill=canvas.colours(2)[0] if on else (150, 150, 156))
        canvas.disc(x + (30 if on else 10), y + 10, 9, WHITE)
    return _screen(canvas, "settings page", app, title, names[0])


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
    return _screen(canvas, "dashboard", app, names[0], rng.choice(things("buttons")))


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


def _shop(rng: Random) -> str:
    return f"{rng.choice(things('shop_words'))} {rng.choice(things('shops'))}"


def _bill(what: str, shop: str, day: str, total: str, bought: dict[str, float]) -> dict[str, str]:
    item = max(bought, key=bought.__getitem__)
    return {"what": what, "shop": shop, "date": day, "total": total, "item": item, "price": f"{bought[item]:.2f}"}


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


def _screen(canvas: Canvas, what: str, app: str, title: str, button: str) -> Drawing:
    return Drawing(canvas.image, {"what": what, "app": app, "title": title, "button": button})
