"""Recall of the text finder on personal data that is written plainly, marked up or hidden, and its false alarms.

    python -m benchmarks.privacy_spellings --seed N [--each COUNT] [--misses COUNT] [--zones COUNT]

Every message is drawn from the seed: a value of a kind (`spelling_values`), in a sentence, with a mark of markdown,
HTML, LaTeX or a table, or with one or two transformations that hide it. So nobody can tune the finder to a list: it is
mended with one seed and measured with another. A value is found if findings cover every letter and digit of it, for
names and addresses half of them. Harmless messages (code, prices, dates, mathematics, tables) are drawn and marked too.
With --zones only: the machine-readable zones of cards and passports, as texts, a quarter as drawn pictures too.
"""

import argparse
import base64
import html
import io
import random
import re
import string
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import PIL.Image
import PIL.ImageDraw
import PIL.ImageFont
from matplotlib.font_manager import findfont

from benchmarks import spelling_values as values
from benchmarks.privacy_quality import figure
from schemas.signals import PiiSpan
from tasks.images.decode import DecodedImage, open_image
from tasks.providers import Providers

Draw = random.Random
Spell = Callable[[str, Draw], str]
HALVES = ("person", "address")
"""Kinds of which half of the letters is enough."""


class Message(NamedTuple):
    """A text, and the place of the value in it; start and end are equal in a harmless one."""

    kind: str
    group: str
    """Language of a name or address, else `any`."""
    written: str
    """plain, marked, hidden once, hidden twice."""
    how: str
    """Names of the marks or transformations."""
    text: str
    value: str
    start: int
    end: int


def _groups(value: str) -> list[str]:
    """Parts of a value between its blanks and signs, with the signs."""
    parts, part = [], ""
    for char in value:
        part += char
        if char in " -@.:/":
            parts.append(part)
            part = ""
    return [*parts, part] if part else parts


def _around(before: str, after: str) -> Spell:
    return lambda value, _: f"{before}{value}{after}"


def _each(before: str, after: str, between: str | None = None) -> Spell:
    """Every group in marks; the blanks between them replaced."""

    def spell(value: str, draw: Draw) -> str:
        groups = [group.strip(" ") for group in value.split(" ")]
        return (" " if between is None else between).join(f"{before}{group}{after}" for group in groups)

    return spell


def _inside(mark: str) -> Spell:
    """A mark between the groups, where the value has signs that part them, else in the middle."""

    def spell(value: str, draw: Draw) -> str:
        groups = _groups(value)
        at = draw.randrange(1, len(groups)) if len(groups) > 1 else 0
        return "".join(groups[:at]) + mark + "".join(groups[at:]) if at else value[:3] + mark + value[3:]

    return spell


def _gaps(instead: str) -> Spell:
    return lambda value, _: value.replace(" ", instead)


MARKS: dict[str, Spell] = {
    "bold": _around("**", "**"),
    "italic": _around("_", "_"),
    "underlined": _around("__", "__"),
    "code": _around("`", "`"),
    "struck": _around("~~", "~~"),
    "groups bold": _each("**", "**"),
    "groups in code": _each("`", "`"),
    "link": _around("[", "](https://lumenix.io)"),
    "tag": _around("<b>", "</b>"),
    "tags of groups": _each("<span>", "</span>", ""),
    "cell of HTML": _around("<td class='x'>", "</td>"),
    "comment inside": _inside("<!-- x -->"),
    "break tag": _inside("<wbr>"),
    "bold inside": _inside("****"),
    "texttt": _around(r"\texttt{", "}"),
    "LaTeX bold": _each(r"\textbf{", "}"),
    "thin spaces of LaTeX": _gaps(r"\,"),
    "ties of LaTeX": _gaps("~"),
    "mathematics": _around("$", "$"),
    "bullet": _around("\n* ", "\n"),
    "list item": _around("\n1. ", "\n2. done"),
    "middle dots": _gaps(" · "),
    "pipes": _gaps(" | "),
    "bullets between": _gaps(" • "),
    "many blanks": _gaps("   "),
    "tabs": _gaps("\t"),
    "no-break spaces": _gaps("\u00a0"),
    "line break": lambda value, _: "\n".join(value.rsplit(" ", 1)),
    "cell": _around("| ", " | ok |"),
    "row": lambda value, _: f"| {value.replace(' ', ' | ')} |",
    "entities twice": lambda value, _: html.escape("".join(f"&#{ord(c)};" if c in "@.-+ " else c for c in value)),
    "percent": lambda value, _: "".join(f"%{ord(c):02X}" if c in "@.-+ :/" else c for c in value),
    "percent twice": lambda value, _: "".join(f"%25{ord(c):02X}" if c in "@.-+ :/" else c for c in value),
    "JSON escapes": lambda value, _: "".join(f"\\u{ord(c):04x}" if c in "@.-+ " else c for c in value),
    "quoted": _around('{"value": "', '"}'),
    "quoted mail": _around("> ", ""),
    "highlighted": _around("==", "=="),
}

LOOK = str.maketrans("aeopcxyiABEHKMOPCTX", "аеорсхуіАВЕНКМОРСТХ")
FIGURES = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
CIRCLED = str.maketrans("0123456789", "⓪①②③④⑤⑥⑦⑧⑨")
SIGNS = {"@": " at ", ".": " dot ", "-": " dash ", "+": " plus ", "_": " underscore "}


def _every(mark: str) -> Spell:
    return lambda value, _: mark.join(value)


def _digits_from(zero: str) -> Spell:
    return lambda value, _: "".join(chr(ord(zero) + int(c)) if c in string.digits else c for c in value)


def _wide(value: str, _: Draw) -> str:
    return "".join(chr(ord(char) + 0xFEE0) if "!" <= char <= "~" else char for char in value)


def _in_words(value: str, _: Draw) -> str:
    return " ".join("".join(f" {FIGURES[int(c)]} " if c in string.digits else SIGNS.get(c, c) for c in value).split())


NUMBERS = ("phone", "card", "iban", "national_id")
TRANSFORMATIONS: dict[str, tuple[Spell, tuple[str, ...]]] = {
    "zero-width spaces": (_every("\u200b"), ()),
    "soft hyphens": (_every("\u00ad"), ()),
    "full width": (_wide, ()),
    "look-alike letters": (lambda value, _: value.translate(LOOK), ("email", "iban")),
    "letters for digits": (lambda value, _: value.replace("0", "O").replace("1", "l"), ("phone", "card")),
    "mathematical digits": (_digits_from("\U0001d7ce"), (*NUMBERS, "ip")),
    "Arabic digits": (_digits_from("\u0660"), (*NUMBERS, "ip")),
    "circled digits": (lambda value, _: value.translate(CIRCLED), NUMBERS),
    "spaced": (lambda value, _: " ".join(value.replace(" ", "")), ("email", *NUMBERS)),
    "dotted": (lambda value, _: ".".join(value.replace(" ", "")), ("card", "iban")),
    "slashes": (_gaps(" / "), NUMBERS),
    "commas": (_gaps(", "), NUMBERS),
    "words": (_in_words, ("phone", "card", "email")),
    "at and dot": (lambda value, _: value.replace("@", " [at] ").replace(".", " [dot] "), ("email",)),
    "at in words": (lambda value, _: value.replace("@", " (at) ").replace(".", " dot "), ("email",)),
    "joined strings": (lambda value, _: '" + "'.join(_groups(value)), ("email", "api_key", *NUMBERS)),
    "base64": (lambda value, _: base64.b64encode(value.encode()).decode(), ("email", "api_key", *NUMBERS)),
    "reversed": (lambda value, _: value[::-1], ("email", "card")),
    "accents": (_every("\u0301"), (*NUMBERS, "email")),
    "double blanks": (_gaps("  "), NUMBERS),
    "underscores": (_gaps("_"), NUMBERS),
    "defanged": (lambda value, _: value.replace(".", "[.]"), ("ip", "email")),
    "emoji": (lambda value, _: value.replace("@", "\uff20").replace(".", "\u3002"), ("email",)),
    "keycaps": (lambda value, _: "".join(c + "\ufe0f\u20e3" if c in string.digits else c for c in value), NUMBERS),
    "brackets": (lambda value, _: "".join(f"[{group}]" for group in value.split(" ")), NUMBERS),
}  # fmt: skip
"""Name -> how, and the kinds that a reader could still use; () are all."""

CARRIERS: dict[str, tuple[str, ...]] = {
    "email": ("Please write to {} before Friday.", "My address is {}, thanks!", "cc {}"),
    "phone": ("You can call me on {} after six.", "Tel: {}", "His number changed: phone {} now.", "WhatsApp {}"),
    "card": ("I paid with card {} yesterday.", "Charge it to {} please.", "card number {}"),
    "iban": ("Send the rent to {} by Monday.", "IBAN: {}", "The account is {}."),
    "ip": ("The login came from {} at night.", "IP: {}", "Can you block {} for me?"),
    "mac": ("The adapter {} is offline.", "MAC: {}"),
    "coordinates": ("My house is at {}.", "GPS: {}", "We live here: {}"),
    "passport": ("My passport number is {}.", "Passport No. {}", "passport: {}"),
    "wallet": ("Send it to my wallet {} today.", "wallet: {}", "My wallet address is {}."),
    "mrz": ("This is on the card:\n{}\n",),
    "api_key": ("Why does {} not work?", "I use this key: {} in the client.", 'key = "{}"'),
    "secret": ("Can you see what is wrong here?\n{}\nIt fails.",),
}


def drawn_value(kind: str, group: str, draw: Draw) -> tuple[str, str, str]:
    """A sentence with a place for the value, what stands before the value there, and the value."""
    if kind in HALVES:
        return draw.choice(values.WORDS[group][f"{kind}_said"]), "", getattr(values, kind)(group, draw)
    if kind in ("national_id", "named"):
        known = values.NATIONAL if kind == "national_id" else values.NAMED
        name, value = draw.choice(sorted(known.items(), key=lambda item: item[0]))
        return draw.choice((f"My {name} is {{}}.", f"{name}: {{}}")), "", value(draw)
    before, drawn = "", getattr(values, kind, None)
    if kind == "secret":
        before, value = draw.choice(values.CONTEXT_KEYS)(draw)
    else:
        value = drawn(draw) if drawn else draw.choice(values.KEYS)(draw)
    return draw.choice(CARRIERS[kind]), before, value


KINDS = (*CARRIERS, "national_id", "named")


def messages(seed: int, each: int) -> Iterator[Message]:
    """`each` messages of every kind, group and way of writing, with `each` * 20 harmless ones."""
    draw = Draw(seed)
    of_groups = [(kind, "any") for kind in KINDS] + [(kind, group) for kind in HALVES for group in values.WORDS]
    for kind, group in of_groups:
        for written in ("plain", "marked", "hidden once", "hidden twice"):
            if kind in ("mrz", "secret", "coordinates", "mac", "wallet", "named") and written.startswith("hidden"):
                continue
            if kind in HALVES and written.startswith("hidden"):
                continue
            for _ in range(each):
                yield drawn_message(kind, group, written, draw)
    for _ in range(each * 20):
        text = harmless(draw)
        name, mark = draw.choice((("none", lambda value, _: value), *MARKS.items()))
        yield Message("none", "any", "plain", name, mark(text, draw), "", 0, 0)


def drawn_message(kind: str, group: str, written: str, draw: Draw) -> Message:
    """One message."""
    carrier, context, value = drawn_value(kind, group, draw)
    names: list[str] = []
    spelt = value
    if written == "marked":
        whole = kind in ("mrz", "secret", "api_key")
        fits = [name for name, mark in MARKS.items() if mark(value, Draw(0)) != value]
        names = [draw.choice([name for name in fits if not whole or value in MARKS[name](value, Draw(0))])]
        spelt = MARKS[names[0]](value, draw)
    elif written != "plain":
        fits = [name for name, (_, kinds) in TRANSFORMATIONS.items() if not kinds or kind in kinds]
        fits = [name for name in fits if TRANSFORMATIONS[name][0](value, Draw(0)) != value]
        names = sorted(draw.sample(fits, 2 if written == "hidden twice" else 1), key=("reversed", "base64").count)
        for name in names:
            spelt = TRANSFORMATIONS[name][0](spelt, draw)
    before, after = carrier.split("{}")
    start = len(before + context)
    return Message(
        kind, group, written, ", ".join(names), before + context + spelt + after, value, start, start + len(spelt)
    )


def harmless(draw: Draw) -> str:
    """A message without personal data that is full of numbers, signs or letters without meaning."""
    number, small, hexes = (
        draw.randint(1000, 9999),
        draw.randint(2, 40),
        values.characters(draw, 40, "0123456789abcdef"),
    )
    row = [draw.randint(1000, 9999) for _ in range(5)]
    return draw.choice(
        (
            f"pip install numpy=={small}.{small}.{small} scipy>={small}.1.{small}",
            f"The price rose from {small},{number} to {small + 1}.{number} USD in {1950 + small}.",
            f"On {1950 + small}-0{small % 9 + 1}-1{small % 9} at 12:{small:02}:{small:02} it rained {small} mm.",
            f"for i in range({number}): x[i, {small}] = a[i] * {small}.{number} + b[::-1]",
            f"commit {hexes}\nMerge branch 'main'",
            "| " + " | ".join(map(str, row)) + " |\n| " + " | ".join(str(each + small) for each in row) + " |",
            "1. " + "\n2. ".join(map(str, row)),
            f"$x_{{{small}}} = {number} \\, y^2 + {small}.{number}e-{small}$ and $\\alpha_1 \\cdot {row[0]}$",
            f"uuid 550e8400-e29b-41d4-a716-{values.characters(draw, 12, string.digits)}",
            f"ISBN 978-3-16-148410-0, pages {small}-{small + 9}, {1950 + small}",
            " ".join(map(str, row)) + "\n" + " ".join(map(str, row[::-1])),
            f"color: #{hexes[:6]}; margin: {small}px {small}px; width: {number}px",
            f"loss {small / 41:.4f}, {small / 43:.4f}; accuracy {row[0] / 10000:.4f}, {row[1] / 10000:.4f}",
            f"data:image/png;base64,{values.characters(draw, 120)}",
            f"The server at 192.168.{small}.{small} listens on port {number}.",
            f"Solve {row[0]} + {row[1]} - {row[2]} and round to {small} digits: {row[3]}.{row[4]}{row[0]}",
            f"def f_{small}(self, key: str, token: str = 'none') -> dict[str, int]: return {{key: {number}}}",
            f"password = getpass('Password: ')  # line {number}",
            f"sha256:{values.characters(draw, 64, '0123456789abcdef')}",
            f"Order {number}-{row[1]}, item {row[2]}, part no. {row[3]}-{small}",
            f"A population of {small} {row[0] % 900 + 100} {row[1] % 900 + 100}, {small}.{small} % more than in 1950",
            f"<div id='{small}'><p>{row[0]}</p><p>{row[1]}</p><p>{row[2]}</p></div>",
            f"The token limit is {number}; the secret of a good key lime pie is {small} limes.",
            f"np.array([[{small}.5, {small}.25], [{row[0]}, {row[1]}]]) @ w.T",
        )
    )


def found(message: Message, spans: list[PiiSpan]) -> bool:
    """Whether findings cover the value: every group of a marked one, else every letter and digit that stands for it."""
    held = {place for span in spans for place in range(span.start, span.end)}
    least = 0.5 if message.kind in HALVES else 1.0
    if message.written == "marked":
        left = "".join(" " if place in held else message.text[place] for place in range(message.start, message.end))
        parts = [part for part in re.split(r"[\W_]+", message.value) if len(part) > 1]
        return sum(part not in left for part in parts) >= least * len(parts)
    places = [place for place in range(message.start, message.end) if message.text[place].isalnum()]
    return sum(place in held for place in places) >= least * len(places)


PICTURES = 4
"""One zone in so many is drawn as a picture too."""
_MONOSPACED = ("DejaVu Sans Mono", "cmtt10")


def zone_figures(seed: int, each: int) -> list[dict[str, Any]]:
    """Zones of each layout that are found, and of which every line is: as texts, right and misread, and as pictures."""
    draw, figures, providers = Draw(seed), list[dict[str, Any]](), Providers()
    find = providers["text_pii"].find_pii
    for layout in values.ZONES:
        zones = [values.zone(layout, draw) for _ in range(each)]
        misread = [values.misread(zone, draw) for zone in zones]
        for name, given in (("right", zones), ("misread", misread)):
            read = [(zone.split("\n"), zone, spans) for zone, spans in zip(given, find(given), strict=True)]
            figures += _of_zones(f"zones {layout}, {name}", read)
        seen = []
        for zone in zones[::PICTURES]:
            image, top = drawn_zone(zone, draw)
            (text,) = providers["image_text"].read([image])
            of_zone = [text.text[box.start : box.end] for box in text.boxes if box.box[1] + box.box[3] / 2 > top]
            seen.append((of_zone, text.text, find([text.text])[0]))
        figures += _of_zones(f"zones {layout}, pictures", seen)
    return figures


def _of_zones(name: str, read: list[tuple[list[str], str, Any]]) -> list[dict[str, Any]]:
    found, whole, left = 0, 0, []
    for lines, text, spans in read:
        places = [(span.start, span.end) for span in spans if span.type == "passport"]
        found += bool(places)
        starts = [text.rindex(line) for line in lines]
        touched = [any(start < at + len(line) and at < end for start, end in places)
                   for at, line in zip(starts, lines, strict=True)]  # fmt: skip
        whole += bool(lines) and all(touched)
        left += [] if lines and all(touched) else [f"{text!r}: {[text[start:end] for start, end in places]}"]
    return [figure(f"{name}: found", found, len(read)), figure(f"{name}: every line", whole, len(read), left)]


def drawn_zone(zone: str, draw: Draw) -> tuple[DecodedImage, int]:
    """A page of a document with its zone at the foot, and the height in pixels where the zone begins."""
    size, top = draw.choice((16, 20, 26)), 150
    font = PIL.ImageFont.truetype(findfont(draw.choice(_MONOSPACED)), size)
    width = round(font.getlength(max(zone.split("\n"), key=len))) + 60
    page = PIL.Image.new("RGB", (width, top + 140), draw.choice(("white", "ivory", "lightgrey")))
    pen = PIL.ImageDraw.Draw(page)
    pen.text((30, 30), "TRAVEL DOCUMENT", fill="navy", font_size=24)
    for place, line in enumerate(zone.split("\n")):
        pen.text((30, top + 10 + place * round(1.6 * size)), line, fill="black", font=font)
    file = io.BytesIO()
    page.rotate(draw.uniform(-0.5, 0.5), fillcolor=page.getpixel((0, 0))).save(file, "PNG")
    return open_image(file.getvalue()), top


def main(seed: int, each: int, shown: int) -> list[dict[str, Any]]:
    """The figures of every kind and way of writing, with some of the misses."""
    given = list(messages(seed, each))
    spans = Providers()["text_pii"].find_pii([message.text for message in given])
    rows: dict[tuple[str, str, str], list[tuple[bool, Message]]] = defaultdict(list)
    for message, of_message in zip(given, spans, strict=True):
        of_message = of_message if isinstance(of_message, list) else []
        alarm = [span for span in of_message if span.type != "person"]
        hit = found(message, of_message) if message.end else bool(alarm)
        keys = [(message.kind, message.group, message.written)]
        keys += [("all", "any", message.written)] if message.end and message.kind not in HALVES else []
        keys += [("all", "names and addresses", message.written)] if message.kind in HALVES else []
        for key in keys:
            rows[key].append((hit, message))
    figures = []
    for (kind, group, written), each_row in sorted(rows.items()):
        wrong = [] if kind == "all" else [message for hit, message in each_row if hit == (kind == "none")]
        failures = (f"{message.how}: {message.text!r}" for message in wrong[:shown])
        name = f"{kind}, {group}, {written}" if kind != "none" else "harmless messages dropped"
        figures.append(figure(name, sum(hit for hit, _ in each_row), len(each_row), failures))
    return figures


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks.privacy_spellings", description=__doc__)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--each", type=int, default=40, help="messages of each kind and way of writing")
    parser.add_argument("--misses", type=int, default=0, help="misses to show of each")
    parser.add_argument("--zones", type=int, default=0, help="only zones: so many of each layout")
    told = parser.parse_args()
    if told.zones:
        zone_figures(told.seed, told.zones)
    else:
        main(told.seed, told.each, told.misses)
