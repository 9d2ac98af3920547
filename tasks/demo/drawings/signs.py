"""Signs and labels in several languages, with what they mean."""

from random import Random

from tasks.demo.drawings.canvas import INK, WHITE, Canvas, Colour, Drawing, shade
from tasks.demo.words import load


def street_sign(rng: Random) -> Drawing:
    """A sign on a post, in front of something."""
    canvas = Canvas.any_size(rng, shade(rng.uniform(0.5, 0.62), rng.uniform(0.1, 0.4), rng.uniform(0.75, 0.97)))
    ground = canvas.height * rng.uniform(0.6, 0.85)
    canvas.draw.rectangle((0, ground, canvas.width, canvas.height), fill=shade(rng.uniform(0.05, 0.35), 0.4, 0.6))
    for _ in range(rng.randint(0, 4)):
        x, wide = rng.uniform(0, canvas.width), rng.uniform(30, 110)
        box = (x, ground - rng.uniform(40, 180), x + wide, ground)
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
    sign = rng.choice(load("signs"))
    inset = rng.uniform(20, 70)
    box = (inset, inset * rng.uniform(0.4, 1.4), canvas.width - inset, canvas.height - inset * rng.uniform(0.4, 1.8))
    canvas.draw.rounded_rectangle(box, rng.uniform(0, 40), fill=WHITE, outline=canvas.colours(3)[1], width=6)
    for line in range(rng.randint(1, 4)):
        y = box[3] - 20 - line * 14
        canvas.draw.line((box[0] + 20, y, box[2] - rng.uniform(20, 120), y), fill=(150, 150, 156), width=3)
    wide = box[2] - box[0] - 24
    size = canvas.fitting(sign["text"], wide, 34, "bold")
    canvas.text((canvas.width / 2, box[1] + 24), sign["text"], size, face="bold", anchor="mt")
    seal = rng.uniform(16, 34)
    x, y = rng.uniform(box[0] + seal, box[2] - seal), (box[1] + box[3]) / 2 + 10
    canvas.draw.ellipse((x - seal, y - seal, x + seal, y + seal), fill=canvas.colours(3)[0])
    return Drawing(canvas.image, {"what": "label", **sign})


def _board(canvas: Canvas, box: tuple[float, float, float, float], text: str) -> None:
    left, top, right, bottom = box
    fill: Colour = canvas.rng.choice([WHITE, (30, 90, 190), (20, 120, 70), (250, 205, 40), (190, 30, 40)])
    ink = INK if sum(fill) > 400 else WHITE
    canvas.draw.rounded_rectangle(
        box, canvas.rng.uniform(0, 30), fill=fill, outline=ink, width=canvas.rng.randint(2, 7)
    )
    words = text.split()
    middle = len(words) // 2 if canvas.text_width(text, 24, "bold") > right - left - 30 else len(words)
    lines = [" ".join(part) for part in (words[:middle], words[middle:]) if part]
    for index, line in enumerate(lines):
        y = top + (bottom - top) * (index + 0.5) / len(lines)
        size = canvas.fitting(line, right - left - 30, int((bottom - top) / len(lines) * 0.5), "bold")
        canvas.text(((left + right) / 2, y), line, size, ink, face="bold", anchor="mm")
