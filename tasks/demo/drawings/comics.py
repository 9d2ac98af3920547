"""Memes and comics without faces: things that talk, and captions above and below."""

from random import Random

from tasks.demo.drawings import abstract, creatures, scenes
from tasks.demo.drawings.canvas import INK, WHITE, Canvas, Drawing, shade
from tasks.demo.words import load


def meme(rng: Random) -> Drawing:
    """A picture between two lines in capitals."""
    inner = rng.choice([creatures.fish, creatures.snail, creatures.bird, scenes.landscape, abstract.shards])(rng).image
    joke = rng.choice(load("jokes"))
    canvas = Canvas(rng, inner.width, min(512, inner.height + 90), (16, 16, 18) if rng.random() < 0.6 else WHITE)
    ink = WHITE if sum(canvas.paper) < 200 else INK
    canvas.image.paste(inner, (0, 45))
    for y, line, anchor in ((10, joke["first"], "mt"), (canvas.height - 10, joke["second"], "mb")):
        if anchor == "mb":
            canvas.draw.rectangle((0, canvas.height - 45, canvas.width, canvas.height), fill=canvas.paper)
        size = canvas.fitting(line.upper(), canvas.width - 20, 24, "bold")
        canvas.text((canvas.width / 2, y), line.upper(), size, ink, face="bold", anchor=anchor)
    return Drawing(canvas.image, {"what": "meme", **joke})


def comic(rng: Random) -> Drawing:
    """Two or three panels in which boxes talk to each other."""
    panels = rng.randint(2, 3)
    canvas = Canvas(rng, rng.randint(400, 512), rng.randint(220, 340), WHITE)
    joke, wide = rng.choice(load("jokes")), canvas.width / panels
    lines = [joke["first"], "...", joke["second"]] if panels == 3 else [joke["first"], joke["second"]]
    for index, line in enumerate(lines):
        left = wide * index
        sky = shade(canvas.hue + 0.2 * index, rng.uniform(0.1, 0.4), 0.95)
        canvas.draw.rectangle((left + 4, 4, left + wide - 4, canvas.height - 4), fill=sky, outline=INK, width=3)
        for colour in canvas.colours(rng.randint(1, 3)):
            x, high = left + rng.uniform(16, wide - 60), rng.uniform(30, 100)
            bottom = canvas.height - 10 - rng.uniform(0, 20)
            canvas.draw.rectangle(
                (x, bottom - high, x + rng.uniform(24, 50), bottom), fill=colour, outline=INK, width=2
            )
        canvas.draw.rounded_rectangle((left + 10, 12, left + wide - 10, 84), 14, fill=WHITE, outline=INK, width=2)
        _bubble(canvas, left, wide, line)
    return Drawing(canvas.image, {"what": "comic strip", **joke})


def _bubble(canvas: Canvas, left: float, wide: float, line: str) -> None:
    words = line.split()
    rows = [" ".join(words[start : start + 3]) for start in range(0, len(words), 3)][:4]
    for row, text in enumerate(rows):
        place = (left + wide / 2, 24 + 16 * row)
        canvas.text(place, text, canvas.fitting(text, wide - 30, 13), anchor="mm")
