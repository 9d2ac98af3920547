"""Screens of made-up programs: settings, sign-in, dashboards, errors, file lists, chats and program code."""

from random import Random

from tasks.demo.drawings.canvas import WHITE, Canvas, Colour, Drawing, shade
from tasks.demo.words import load, things

Box = tuple[float, float, float, float]


def settings_page(rng: Random) -> Drawing:
    """Switches under each other, with a side bar now and then."""
    canvas, app, ink, (left, top, right, bottom) = _window(rng)
    title = rng.choice(things("setting_pages"))
    canvas.text((left + 12, top + 10), title, canvas.fitting(title, right - left - 24, 20), ink)
    names = rng.sample(things("switches"), rng.randint(3, 6))
    for index, name in enumerate(names):
        y = top + 50 + (bottom - top - 60) * index / len(names)
        canvas.text((left + 12, y), name, 14, ink)
        on, x = rng.random() < 0.5, right - 60
        canvas.draw.rounded_rectangle((x, y, x + 40, y + 20), 10, fill=canvas.colours(2)[0] if on else (150, 150, 156))
        canvas.draw.ellipse((x + (21 if on else 1), y + 1, x + (39 if on else 19), y + 19), fill=WHITE)
    return _screen(canvas, "settings page", app, title, names[0])


def sign_in(rng: Random) -> Drawing:
    """Two fields and a button."""
    canvas, app, ink, (left, top, right, bottom) = _window(rng)
    wide, x = (right - left) * rng.uniform(0.45, 0.8), left + (right - left) * rng.uniform(0.05, 0.2)
    y = top + (bottom - top) * rng.uniform(0.08, 0.25)
    canvas.text((x, y), f"Welcome to {app}", canvas.fitting(f"Welcome to {app}", wide, 22), ink)
    for label in rng.choice([("User name", "Password"), ("Account", "PIN"), ("Team", "Key word")]):
        y += 46
        canvas.text((x, y - 6), label, 12, ink)
        canvas.draw.rounded_rectangle((x, y + 10, x + wide, y + 32), 4, outline=(140, 140, 150), width=2)
    button = rng.choice(things("buttons"))
    canvas.draw.rounded_rectangle((x, y + 50, x + wide * 0.6, y + 82), rng.randint(0, 14), fill=canvas.colours(3)[0])
    canvas.text((x + wide * 0.3, y + 66), button, 15, WHITE, anchor="mm")
    return _screen(canvas, "sign-in page", app, "Welcome", button)


def dashboard(rng: Random) -> Drawing:
    """Cards with figures and little charts."""
    canvas, app, ink, (left, top, right, bottom) = _window(rng)
    columns, rows = rng.randint(1, 3), rng.randint(1, 3)
    names = rng.sample(things("measures"), columns * rows)
    wide, high = (right - left) / columns, (bottom - top) / rows
    for index, name in enumerate(names):
        x, y = left + wide * (index % columns) + 8, top + high * (index // columns) + 8
        box = (x, y, x + wide - 16, y + high - 16)
        canvas.draw.rounded_rectangle(box, 8, outline=canvas.colours(5)[index % 5], width=3)
        canvas.text((x + 8, y + 6), name, canvas.fitting(name, wide - 34, 14), ink)
        canvas.text((x + 8, y + 26), str(rng.randint(10, 9900)), rng.randint(16, 28), ink)
        _spark(canvas, (x + 8, y + high * 0.55, x + wide - 26, y + high - 26), canvas.colours(5)[index % 5])
    return _screen(canvas, "dashboard", app, names[0], rng.choice(things("buttons")))


def error_dialog(rng: Random) -> Drawing:
    """A window in the way, with a message and buttons."""
    canvas, app, _, (left, top, right, bottom) = _window(rng)
    for _ in range(rng.randint(4, 12)):
        x, y = rng.uniform(left, right), rng.uniform(top, bottom)
        box = (x, y, min(right, x + rng.uniform(20, 160)), min(bottom, y + rng.uniform(10, 60)))
        canvas.draw.rectangle(box, fill=shade(canvas.hue + rng.random(), 0.2, rng.uniform(0.5, 0.95)))
    wide, high = (right - left) * rng.uniform(0.6, 0.85), rng.uniform(110, 150)
    x, y = left + rng.uniform(0, right - left - wide), top + rng.uniform(0, max(1, bottom - top - high))
    canvas.draw.rectangle((x, y, x + wide, y + high), fill=(250, 250, 252), outline=(40, 40, 44), width=2)
    canvas.draw.rectangle((x, y, x + wide, y + 26), fill=canvas.colours(3)[0])
    message, button = rng.choice(things("errors")), rng.choice(things("buttons"))
    canvas.text((x + 8, y + 5), app, 14, WHITE)
    canvas.text((x + 14, y + 48), message, canvas.fitting(message, wide - 28, 16))
    canvas.draw.rounded_rectangle(
        (x + wide - 104, y + high - 36, x + wide - 12, y + high - 10), 5, fill=(215, 217, 224)
    )
    canvas.text((x + wide - 58, y + high - 23), button, canvas.fitting(button, 84, 14), anchor="mm")
    return _screen(canvas, "error message", app, message, button)


def file_list(rng: Random) -> Drawing:
    """Files or messages under each other, some marked."""
    canvas, app, ink, (left, top, right, bottom) = _window(rng)
    names = rng.sample(things("files"), rng.randint(5, 9))
    high = (bottom - top) / len(names)
    for index, name in enumerate(names):
        y = top + high * index
        if rng.random() < 0.25:
            canvas.draw.rectangle((left, y, right, y + high - 2), fill=shade(canvas.hue, 0.35, 0.85))
        canvas.draw.rectangle((left + 8, y + 6, left + 26, y + high - 8), fill=rng.choice(canvas.colours(4)))
        canvas.text((left + 36, y + high / 2), name, 14, ink, anchor="lm")
        canvas.text((right - 8, y + high / 2), f"{rng.randint(1, 900)} KB", 12, ink, anchor="rm")
    return _screen(canvas, "file list", app, names[0], rng.choice(things("buttons")))


def chat_window(rng: Random) -> Drawing:
    """Bubbles left and right."""
    canvas, app, _, (left, top, right, bottom) = _window(rng)
    y, mine, theirs = top + 6, shade(canvas.hue, 0.5, 0.9), (226, 228, 233)
    lines = rng.sample(things("sentences"), 6)
    for line in lines:
        wide, high = (right - left) * rng.uniform(0.45, 0.75), rng.randint(26, 60)
        if y + high > bottom:
            break
        own = rng.random() < 0.5
        x = right - wide - 8 if own else left + 8
        canvas.draw.rounded_rectangle((x, y, x + wide, y + high), 10, fill=mine if own else theirs)
        words = line[: int(wide // 8)]
        canvas.text((x + 10, y + high / 2), words, 13, anchor="lm")
        y += high + rng.randint(6, 18)
    return _screen(canvas, "chat window", app, lines[0], "Send")


def code_editor(rng: Random) -> Drawing:
    """A few lines of program code, with a mistake in one of them."""
    sample = rng.choice(load("programs"))
    dark = rng.random() < 0.65
    lines = sample["code"].rstrip().splitlines()
    size = rng.randint(13, 16)
    wide = max(300, min(512, int(max(len(line) for line in lines) * size * 0.61) + 64))
    canvas = Canvas(rng, wide, rng.randint(70, 130) + int(len(lines) * size * 1.5), (28, 30, 38) if dark else WHITE)
    canvas.face = "mono"
    colours = [shade(canvas.hue + index / 5, 0.45 if dark else 0.9, 0.95 if dark else 0.55) for index in range(5)]
    top = rng.randint(16, 50)
    for index, line in enumerate(lines):
        y = top + index * int(size * 1.5)
        canvas.text((8, y), str(index + 1), size, (120, 122, 130))
        canvas.text((38, y), line, size, rng.choice(colours))
    facts = {"what": "screenshot of code", "language": sample["language"], "function": sample["function"]}
    return Drawing(canvas.image, facts | {"bug": sample["bug"]})


def _window(rng: Random) -> tuple[Canvas, str, Colour, Box]:
    """A window with its bar; the program's name, the colour of text, and the box that is left."""
    dark = rng.random() < 0.35
    canvas = Canvas.any_size(rng, (32, 34, 40) if dark else rng.choice([WHITE, (243, 244, 248)]))
    ink = (232, 233, 238) if dark else (34, 35, 40)
    app = rng.choice(things("apps"))
    bar = rng.randint(22, 44)
    canvas.draw.rectangle((0, 0, canvas.width, bar), fill=shade(canvas.hue, rng.uniform(0, 0.7), rng.uniform(0.3, 0.9)))
    canvas.text((12, bar / 2), app, 15, WHITE, anchor="lm")
    side = rng.choice([0, 0, rng.randint(60, 120)])
    canvas.draw.rectangle((0, bar, side, canvas.height), fill=shade(canvas.hue, 0.3, rng.uniform(0.35, 0.8)))
    for index in range(rng.randint(3, 7) if side else 0):
        y = bar + 16 + 30 * index
        canvas.draw.rounded_rectangle((10, y, side - 10, y + 14), 5, fill=shade(canvas.hue, 0.15, 0.9))
    return canvas, app, ink, (side + 8, bar + 8, canvas.width - 8, canvas.height - 10)


def _spark(canvas: Canvas, box: Box, colour: Colour) -> None:
    left, top, right, bottom = box
    if bottom - top < 12:
        return
    count = canvas.rng.randint(5, 16)
    step = (right - left) / count
    for index in range(count):
        y = canvas.rng.uniform(top, bottom)
        canvas.draw.rectangle((left + step * index, y, left + step * index + step * 0.7, bottom), fill=colour)


def _screen(canvas: Canvas, what: str, app: str, title: str, button: str) -> Drawing:
    return Drawing(canvas.image, {"what": what, "app": app, "title": title, "button": button})
