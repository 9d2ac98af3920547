"""Charts and diagrams of made-up statistics and processes, and geometry exercises with their answers."""

from random import Random

from tasks.demo.words import things
from tasks.drawing.canvas import GREY, INK, WHITE, Canvas, Drawing


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
