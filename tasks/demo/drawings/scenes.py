"""Places, outdoors and on plans: landscapes, skylines, street maps, floor plans and the sky at night."""

import math
from random import Random

from tasks.demo.drawings.canvas import INK, WHITE, Canvas, Drawing, shade
from tasks.demo.words import things


def landscape(rng: Random) -> Drawing:
    """Hills under a sun or moon."""
    canvas = Canvas.any_size(rng)
    top, bottom, light = rng.random(), rng.random(), rng.uniform(0.5, 1.0)
    for row in range(canvas.height):
        hue = top + (bottom - top) * 0.2 * row / canvas.height
        canvas.draw.line((0, row, canvas.width, row), fill=shade(hue, 0.4, light))
    x, y, size = rng.uniform(40, canvas.width - 40), rng.uniform(30, canvas.height * 0.45), rng.uniform(16, 60)
    canvas.draw.ellipse((x - size, y - size, x + size, y + size), fill=shade(rng.uniform(0.02, 0.17), 0.5, 1.0))
    for layer in range(rng.randint(2, 5)):
        base = canvas.height * (0.4 + 0.13 * layer)
        canvas.draw.polygon(_hills(canvas, base), fill=shade(bottom + 0.05 * layer, 0.5, 0.75 - 0.13 * layer))
    place = rng.choice(things("landscapes"))
    return Drawing(canvas.image, {"what": "painted landscape", "place": place, "mood": rng.choice(things("moods"))})


def skyline(rng: Random) -> Drawing:
    """Houses with lit windows."""
    canvas = Canvas.any_size(rng, shade(rng.random(), rng.uniform(0.2, 0.7), rng.uniform(0.15, 0.95)))
    x, lit = -20.0, shade(rng.uniform(0.1, 0.18), 0.5, 1.0)
    while x < canvas.width:
        wide, high = rng.uniform(28, 90), canvas.height * rng.uniform(0.2, 0.85)
        top = canvas.height - high
        canvas.draw.rectangle((x, top, x + wide, canvas.height), fill=shade(canvas.hue, 0.3, rng.uniform(0.1, 0.6)))
        if rng.random() < 0.4:
            canvas.draw.polygon(
                [(x, top), (x + wide / 2, top - wide * 0.6), (x + wide, top)], fill=canvas.colours(3)[0]
            )
        for row in range(int(high // 22)):
            for column in range(int(wide // 18)):
                if rng.random() < 0.6:
                    left, up = x + 6 + 18 * column, top + 8 + 22 * row
                    canvas.draw.rectangle((left, up, left + 8, up + 11), fill=lit)
        x += wide + rng.choice([0, 0, 6])
    return Drawing(canvas.image, {"what": "city skyline", "place": rng.choice(things("towns"))})


def street_map(rng: Random) -> Drawing:
    """Streets, a river, parks and a few names."""
    canvas = Canvas.any_size(rng, (238, 234, 224))
    wide, high = canvas.width, canvas.height
    for _ in range(rng.randint(2, 5)):
        x, y = rng.uniform(0, wide), rng.uniform(0, high)
        canvas.draw.ellipse((x, y, x + rng.uniform(40, 160), y + rng.uniform(40, 140)), fill=(190, 222, 170))
    river = [(wide * step / 8, high * (0.5 + 0.3 * math.sin(step * rng.uniform(0.3, 0.9)))) for step in range(9)]
    canvas.draw.line(river, fill=(160, 200, 232), width=rng.randint(12, 34), joint="curve")
    for _ in range(rng.randint(7, 14)):
        ends = [(rng.uniform(-80, wide + 80), -20.0), (rng.uniform(-80, wide + 80), high + 20.0)]
        if rng.random() < 0.5:
            ends = [(-20.0, rng.uniform(-80, high + 80)), (wide + 20.0, rng.uniform(-80, high + 80))]
        canvas.draw.line(ends, fill=rng.choice([WHITE, WHITE, (250, 214, 120)]), width=rng.randint(4, 12))
    town = rng.choice(things("towns"))
    for name in [town, *rng.sample(things("shops"), 3)]:
        canvas.text((rng.uniform(10, wide - 90), rng.uniform(10, high - 24)), name, rng.randint(13, 20))
    return Drawing(canvas.image, {"what": "street map", "place": town})


def floor_plan(rng: Random) -> Drawing:
    """Rooms of a flat, halved again and again."""
    canvas = Canvas.any_size(rng, WHITE)
    rooms = [(24, 24, canvas.width - 24, canvas.height - 24)]
    names = rng.sample(things("rooms"), rng.randint(4, 7))
    while len(rooms) < len(names):
        left, top, right, bottom = rooms.pop(max(range(len(rooms)), key=lambda index: _area(rooms[index])))
        share = rng.uniform(0.35, 0.65)
        if right - left > bottom - top:
            cut = int(left + (right - left) * share)
            rooms += [(left, top, cut, bottom), (cut, top, right, bottom)]
        else:
            cut = int(top + (bottom - top) * share)
            rooms += [(left, top, right, cut), (left, cut, right, bottom)]
    for room, name in zip(rooms, names, strict=True):
        fill = rng.choice([WHITE, WHITE, shade(canvas.hue, 0.15, 0.95)])
        canvas.draw.rectangle(room, fill=fill, outline=INK, width=4)
        canvas.draw.line((room[0] + 10, room[1], room[0] + 36, room[1]), fill=WHITE, width=6)
        middle = ((room[0] + room[2]) / 2, (room[1] + room[3]) / 2)
        canvas.text(middle, name, canvas.fitting(name, room[2] - room[0] - 10, 15), anchor="mm")
    return Drawing(canvas.image, {"what": "floor plan", "place": names[0]})


def night_sky(rng: Random) -> Drawing:
    """Stars, some joined to a figure."""
    canvas = Canvas.any_size(rng, shade(rng.uniform(0.55, 0.8), 0.7, rng.uniform(0.08, 0.25)))
    for _ in range(rng.randint(60, 260)):
        x, y, size = rng.uniform(0, canvas.width), rng.uniform(0, canvas.height), rng.expovariate(1.2)
        canvas.draw.ellipse((x - size, y - size, x + size, y + size), fill=shade(rng.random(), 0.15, 1.0))
    stars = [
        (rng.uniform(30, canvas.width - 30), rng.uniform(30, canvas.height - 30)) for _ in range(rng.randint(4, 8))
    ]
    canvas.draw.line(stars, fill=(150, 170, 220), width=2)
    for x, y in stars:
        canvas.draw.ellipse((x - 6, y - 6, x + 6, y + 6), fill=(255, 250, 225))
    thing = rng.choice(things("constellations"))
    canvas.text((14, canvas.height - 28), thing, 18, (225, 230, 245))
    return Drawing(canvas.image, {"what": "star chart", "thing": thing})


def planets(rng: Random) -> Drawing:
    """A sun and planets on their orbits."""
    canvas = Canvas.any_size(rng, shade(rng.uniform(0.6, 0.75), 0.6, rng.uniform(0.05, 0.2)))
    x, y = canvas.width * rng.uniform(0.1, 0.5), canvas.height * rng.uniform(0.35, 0.65)
    radius = rng.uniform(16, 34)
    canvas.draw.ellipse((x - radius, y - radius, x + radius, y + radius), fill=(255, 210, 90))
    names = rng.sample(things("planets"), rng.randint(3, 6))
    for name, colour in zip(names, canvas.colours(len(names)), strict=True):
        radius += rng.uniform(26, 62)
        canvas.draw.ellipse((x - radius, y - radius, x + radius, y + radius), outline=(110, 116, 140))
        angle, size = rng.uniform(-0.9, 0.9), rng.uniform(5, 18)
        px, py = x + radius * math.cos(angle), y + radius * math.sin(angle)
        canvas.draw.ellipse((px - size, py - size, px + size, py + size), fill=colour)
        canvas.text((px + size + 3, py - 8), name, 14, (226, 228, 240))
    return Drawing(canvas.image, {"what": "drawing of planets", "thing": names[0]})


def _hills(canvas: Canvas, base: float) -> list[tuple[float, float]]:
    rng = canvas.rng
    waves = [(rng.uniform(0.005, 0.03), rng.uniform(0, 6), rng.uniform(4, 34)) for _ in range(3)]
    line = [
        (float(x), base + sum(high * math.sin(x * pace + start) for pace, start, high in waves))
        for x in range(0, canvas.width + 8, 8)
    ]
    return [*line, (canvas.width, canvas.height), (0, canvas.height)]


def _area(room: tuple[int, int, int, int]) -> int:
    return (room[2] - room[0]) * (room[3] - room[1])
