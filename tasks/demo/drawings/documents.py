"""Paper: receipts, pages of text, tables, recipes, menus and forms of made-up shops and people-free offices."""

from random import Random

from tasks.demo.drawings.canvas import INK, WHITE, Canvas, Drawing, shade
from tasks.demo.words import things

GREY = (110, 110, 116)


def receipt(rng: Random, shop: str | None = None, items: int | None = None) -> Drawing:
    """A till receipt. Receipts of one shop look alike and differ in what was bought."""
    bought = rng.sample(things("groceries"), items or rng.randint(4, 10))
    prices = [rng.randint(40, 1900) / 100 for _ in bought]
    width = 290 if shop else rng.randint(250, 330)
    shop = shop or f"{rng.choice(things('shop_words'))} {rng.choice(things('shops'))}"
    canvas = Canvas(rng, width, 150 + 24 * len(bought), rng.choice([WHITE, (250, 248, 240)]))
    canvas.face = rng.choice(["mono", "plain"])
    day = f"{rng.randint(1, 28):02}.{rng.randint(1, 12):02}.{rng.randint(2018, 2024)}"
    _receipt_lines(canvas, shop, day, list(zip(bought, prices, strict=True)))
    dearest = max(range(len(prices)), key=prices.__getitem__)
    facts = {"what": "receipt", "shop": shop, "date": day, "total": f"{sum(prices):.2f}", "item": bought[dearest]}
    return Drawing(canvas.image, facts | {"price": f"{prices[dearest]:.2f}"})


def invoice(rng: Random) -> Drawing:
    """A letter-like bill with a table."""
    canvas = Canvas(rng, rng.randint(360, 440), rng.randint(400, 500), WHITE)
    shop = f"{rng.choice(things('shop_words'))} {rng.choice(things('shops'))}"
    day = f"{rng.randint(1, 28)} {rng.choice(things('months'))} {rng.randint(2018, 2024)}"
    colour = canvas.colours(3)[0]
    canvas.draw.rectangle((0, 0, canvas.width, rng.randint(34, 90)), fill=colour)
    canvas.text((rng.randint(14, 60), 8), shop, 22, WHITE)
    canvas.text((canvas.width - 20, 110), day, 14, anchor="ra")
    canvas.text((20, 110), f"Invoice {rng.randint(100, 999)}", 18)
    rows = [(name, rng.randint(5, 900)) for name in rng.sample(things("goods"), rng.randint(3, 7))]
    for index, (name, price) in enumerate(rows):
        y = 150 + 28 * index
        if index % 2:
            canvas.draw.rectangle((16, y - 5, canvas.width - 16, y + 21), fill=(238, 240, 244))
        canvas.text((24, y), name, 15)
        canvas.text((canvas.width - 28, y), f"{price}.00", 15, anchor="ra")
    total = sum(price for _, price in rows)
    canvas.text((canvas.width - 28, 160 + 28 * len(rows)), f"Total {total}.00", 18, anchor="ra")
    name, price = max(rows, key=lambda row: row[1])
    facts = {"what": "invoice", "shop": shop, "date": day, "total": f"{total}.00", "item": name}
    return Drawing(canvas.image, facts | {"price": f"{price}.00"})


def text_page(rng: Random, title: str | None = None) -> Drawing:
    """A page of a story or a notice. Pages of one book look alike and say different things."""
    width, height = (440, 420) if title else (rng.randint(380, 500), rng.randint(360, 480))
    canvas = Canvas(rng, width, height, rng.choice([WHITE, (247, 243, 232)]))
    title = title or rng.choice(things("titles"))
    sentences = rng.sample(things("sentences"), rng.randint(4, 7))
    canvas.text((canvas.width / 2, 18), title, canvas.fitting(title, canvas.width - 40, 22), anchor="mt")
    size, y, indent = rng.randint(14, 17), 62, rng.randint(16, 34)
    for line in _wrapped(canvas, " ".join(sentences), size, canvas.width - 2 * indent):
        if y > canvas.height - 36:
            break
        canvas.text((indent, y), line, size)
        y += int(size * 1.5)
    return Drawing(canvas.image, {"what": "page of text", "title": title, "line": sentences[0]})


def table(rng: Random) -> Drawing:
    """Rows and columns of figures."""
    canvas = Canvas.any_size(rng)
    columns, rows = rng.randint(2, 4), rng.randint(3, 7)
    title = f"{rng.choice(things('measures'))} by {rng.choice(['town', 'month', 'crop'])}"
    canvas.text((14, 10), title, canvas.fitting(title, canvas.width - 28, 18))
    names = rng.sample(things(rng.choice(["towns", "months", "crops"])), rows)
    left, wide, high = 14, (canvas.width - 28) / (columns + 1), (canvas.height - 60) / (rows + 1)
    head = canvas.colours(2)[0]
    for row in range(rows + 1):
        for column in range(columns + 1):
            x, y = left + wide * column, 46 + high * row
            fill = head if row == 0 else (canvas.paper if rng.random() < 0.8 else shade(canvas.hue, 0.12, 0.95))
            canvas.draw.rectangle((x, y, x + wide, y + high), fill=fill, outline=GREY)
            words = _cell(rng, row, column, names)
            canvas.text((x + wide / 2, y + high / 2), words, canvas.fitting(words, wide - 6, 14), anchor="mm")
    return Drawing(canvas.image, {"what": "table", "title": title, "line": f"{names[0]} comes first"})


def form(rng: Random) -> Drawing:
    """A paper form with boxes, ticks and empty lines."""
    canvas = Canvas(rng, rng.randint(340, 460), rng.randint(360, 480), WHITE)
    title = rng.choice(things("forms"))
    canvas.text((20, 16), title, canvas.fitting(title, canvas.width - 40, 22))
    questions = rng.sample(things("questions"), rng.randint(4, 6))
    for index, question in enumerate(questions):
        y = 66 + (canvas.height - 90) * index / len(questions)
        canvas.text((20, y), question, 14)
        if rng.random() < 0.5:
            canvas.draw.rectangle((20, y + 22, canvas.width - rng.randint(20, 160), y + 44), outline=GREY, width=2)
            continue
        for box in range(rng.randint(2, 4)):
            x = 24 + 74 * box
            canvas.draw.rectangle((x, y + 24, x + 16, y + 40), outline=INK, width=2)
            if rng.random() < 0.4:
                canvas.draw.line([(x, y + 24), (x + 16, y + 40)], fill=INK, width=2)
    return Drawing(canvas.image, {"what": "form", "title": title, "line": questions[0]})


def recipe_card(rng: Random) -> Drawing:
    """A dish, what goes in and how long it takes."""
    canvas = Canvas.any_size(rng, shade(rng.random(), 0.12, 0.97))
    dish, colours = rng.choice(things("dishes")), canvas.colours(3)
    bar = rng.choice([0, canvas.height - 44])
    canvas.draw.rectangle((0, bar, canvas.width, bar + 44), fill=colours[0])
    canvas.text((14, bar + 10), dish, canvas.fitting(dish, canvas.width - 120, 22), WHITE)
    canvas.text((canvas.width - 12, bar + 14), f"{rng.randint(2, 12) * 5} min", 16, WHITE, anchor="ra")
    size, left = rng.uniform(40, 75), rng.random() < 0.5
    x, y = rng.uniform(size, size + 40), rng.uniform(60 + size, canvas.height - 60 - size)
    x = x if left else canvas.width - x
    for ring in range(rng.randint(1, 4)):
        inner = size * (1 - ring / 4)
        canvas.draw.ellipse((x - inner, y - inner, x + inner, y + inner), fill=colours[(ring + 1) % 3])
    goods = rng.sample(things("groceries"), rng.randint(3, 7))
    for index, name in enumerate(goods):
        y = 56 + (canvas.height - 112) * index / len(goods)
        canvas.text((canvas.width - 180 if left else 16, y), f"{rng.randint(1, 500)} g {name}", 15)
    return Drawing(canvas.image, {"what": "recipe card", "dish": dish})


def menu(rng: Random) -> Drawing:
    """What a small place serves, with prices."""
    dark = rng.random() < 0.5
    canvas = Canvas(rng, rng.randint(280, 420), rng.randint(320, 500), (34, 40, 38) if dark else WHITE)
    ink = (240, 236, 220) if dark else INK
    name = f"Cafe {rng.choice(things('shops'))}"
    canvas.text((canvas.width / 2, 20), name, canvas.fitting(name, canvas.width - 30, 26), ink, anchor="mt")
    dishes = rng.sample(things("dishes"), rng.randint(4, 8))
    for index, dish in enumerate(dishes):
        y = 76 + (canvas.height - 96) * index / len(dishes)
        canvas.text((20, y), dish, canvas.fitting(dish, canvas.width - 100, 17), ink)
        canvas.text((canvas.width - 20, y), f"{rng.randint(4, 24)}.50", 16, ink, anchor="ra")
    return Drawing(canvas.image, {"what": "menu", "dish": dishes[0]})


def _receipt_lines(canvas: Canvas, shop: str, day: str, bought: list[tuple[str, float]]) -> None:
    canvas.text((canvas.width / 2, 20), shop, canvas.fitting(shop, canvas.width - 30, 19), anchor="mt")
    canvas.text((canvas.width / 2, 48), day, 14, GREY, anchor="mt")
    y = 78
    for name, price in bought:
        canvas.text((14, y), name[:16], 14)
        canvas.text((canvas.width - 14, y), f"{price:.2f}", 14, anchor="ra")
        y += 24
    canvas.draw.line([(14, y + 4), (canvas.width - 14, y + 4)], fill=INK, width=2)
    canvas.text((14, y + 12), "TOTAL", 17)
    canvas.text((canvas.width - 14, y + 12), f"{sum(price for _, price in bought):.2f}", 17, anchor="ra")


def _wrapped(canvas: Canvas, text: str, size: int, width: float) -> list[str]:
    lines = [""]
    for word in text.split():
        longer = f"{lines[-1]} {word}".strip()
        if canvas.text_width(longer, size) <= width:
            lines[-1] = longer
        else:
            lines.append(word)
    return lines


def _cell(rng: Random, row: int, column: int, names: list[str]) -> str:
    if row == 0:
        return "" if column == 0 else str(2015 + column * 2)
    return names[row - 1] if column == 0 else str(rng.randint(2, 980))
