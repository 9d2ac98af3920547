"""Uploads: people, personal data, places in metadata, broken files, files that are not there, hostile names."""

import io
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from random import Random
from typing import Any

import PIL.Image
import PIL.ImageOps

from tasks.demo.drawings import abstract, scenes
from tasks.demo.drawings.canvas import WHITE, Canvas, Drawing
from tasks.demo.log_writer import LogLine
from tasks.demo.photographs import Photograph, photographs, view
from tasks.demo.problems.plan import EXACT, IN_MESSAGES, Draw, Planter, Problem, later, upload
from tasks.demo.records import new_conv_id
from tasks.demo.stage import Stage, battle_lines, chat_lines
from tasks.demo.timeline import Era, Moment
from tasks.demo.words import load

_GPS_TAG, _MAKE_TAG = 0x8825, 0x010F


def faces(stage: Stage, rng: Random) -> Iterator[Problem]:
    """The shipped photographs with faces: as they are, mirrored, grey, and inside a drawn screen."""
    for photograph in photographs("faces"):
        for detail, appear in APPEARANCES.items():
            yield Problem(partial(_uploaded, stage, "face", detail, partial(_shown, photograph, appear)))


def misread_patterns(stage: Stage, rng: Random) -> Iterator[Problem]:
    """An abstract pattern that the embedded NSFW classifier takes for pornography."""
    for _ in range(3):
        yield Problem(partial(_uploaded, stage, "nsfw_probe", "pattern", later(abstract.misread_pattern, rng)), EXACT)


def written_data(stage: Stage, rng: Random) -> Iterator[Problem]:
    """Personal data written in a picture."""
    for detail, lines in load("written_data").items():
        yield Problem(partial(_uploaded, stage, "pii_image", detail, later(_note, rng, lines)), EXACT)


def located(stage: Stage, rng: Random) -> Iterator[Problem]:
    """Photographs that say in their metadata where they were taken."""
    for draw in (scenes.landscape, scenes.skyline, scenes.street_map):
        exif = PIL.Image.Exif()
        exif[_MAKE_TAG] = "Boxcam"
        exif[_GPS_TAG] = {1: "N", 2: (52.0, 31.0, 12.5), 3: "E", 4: (13.0, 24.0, 18.0)}
        yield Problem(partial(_uploaded, stage, "exif_gps", "jpeg", later(draw, rng), exif=exif), frozenset({Era.JPG}))


def corrupt(stage: Stage, rng: Random) -> Iterator[Problem]:
    """Files that hold half a picture, nothing, or a web page."""
    whole = io.BytesIO()
    scenes.landscape(rng).image.save(whole, "PNG")
    contents = {
        "truncated": whole.getvalue()[: len(whole.getvalue()) // 2],
        "empty": b"",
        "html": b"<!DOCTYPE html><title>403</title><p>Forbidden",
    }
    for detail, content in contents.items():
        yield Problem(partial(_broken, stage, "image_corrupt", detail, content), IN_MESSAGES)


def missing(stage: Stage, rng: Random) -> Iterator[Problem]:
    """Names without a file."""
    for _ in range(3):
        yield Problem(partial(_broken, stage, "image_missing", "no file", None))


def bombs(stage: Stage, rng: Random) -> Iterator[Problem]:
    """Small files that claim to hold 900 million pixels."""
    for side in (30_000, 30_001):
        yield Problem(partial(_broken, stage, "image_bomb", f"{side} x {side}", _huge_png(side)), EXACT)


def animated(stage: Stage, rng: Random) -> Iterator[Problem]:
    """Animations, which are not one picture."""
    for _ in range(2):
        frames = [abstract.rectangles(rng).image.resize((120, 90)) for _ in range(3)]
        sink = io.BytesIO()
        frames[0].save(sink, "GIF", save_all=True, append_images=frames[1:], duration=200)
        yield Problem(partial(_broken, stage, "image_animated", "gif", sink.getvalue(), suffix="gif"), EXACT)


def path_escapes(stage: Stage, rng: Random) -> Iterator[Problem]:
    """Names that would lead out of the picture folder."""
    for name in ("../../outside", "..\\..\\outside.png", "/etc/hostname"):
        yield Problem(partial(_misnamed, stage, name), IN_MESSAGES)


def _uploaded(
    stage: Stage,
    kind: str,
    detail: str,
    draw: Draw,
    rng: Random,
    moment: Moment,
    exif: PIL.Image.Exif | None = None,
) -> list[LogLine]:
    name = stage.pictures.save(draw(), moment.era, exif)
    return _talked_about(stage, {"kind": kind, "detail": detail}, name, rng, moment)


def _broken(
    stage: Stage, kind: str, detail: str, content: bytes | None, rng: Random, moment: Moment, suffix: str | None = None
) -> list[LogLine]:
    name = new_conv_id(rng)
    if content is not None:
        stage.pictures.store(f"{name}.{suffix or ('png' if moment.era is Era.PNG else 'jpg')}", content)
    return _talked_about(stage, {"kind": kind, "detail": detail, "image": name}, name, rng, moment)


def _misnamed(stage: Stage, name: str, rng: Random, moment: Moment) -> list[LogLine]:
    return _talked_about(stage, {"kind": "image_path_escape", "detail": name}, name, rng, moment)


def _talked_about(stage: Stage, fact: dict[str, Any], name: str, rng: Random, moment: Moment) -> list[LogLine]:
    """A direct chat about the upload, or now and then a battle."""
    picture = upload(name)
    prompts = [rng.choice(load("upload_prompts"))]
    if rng.random() < 0.3:
        talks = stage.pair(rng, picture, prompts)
        fact = fact | {"conversation_id": rng.choice(talks).conv_id}
        return battle_lines(rng, talks, moment, stage.crowd.anybody(rng), [fact])
    talk = stage.talk(rng, picture, prompts)
    return chat_lines(rng, talk, moment, stage.crowd.anybody(rng), [fact | {"conversation_id": talk.conv_id}])


def _shown(photograph: Photograph, appear: Callable[[PIL.Image.Image], PIL.Image.Image]) -> PIL.Image.Image:
    return appear(view(photograph, (1, 0, 0)).image)


def _grey(image: PIL.Image.Image) -> PIL.Image.Image:
    return PIL.ImageOps.grayscale(image).convert("RGB").crop((0, 0, image.width, image.height * 4 // 5))


def _on_a_screen(image: PIL.Image.Image) -> PIL.Image.Image:
    screen = PIL.Image.new("RGB", (512, 420), (36, 38, 46))
    image.thumbnail((360, 330))
    screen.paste(image, (20, 50))
    for row in range(4):
        screen.paste((90 + 30 * row, 110, 140), (400, 50 + 90 * row, 500, 120 + 90 * row))
    return screen


def _note(rng: Random, lines: list[str]) -> Drawing:
    canvas = Canvas(rng, rng.randint(420, 500), 70 + 44 * len(lines), WHITE)
    canvas.face = "sans"
    for index, line in enumerate(lines):
        canvas.text((24, 30 + 44 * index), line, canvas.fitting(line, canvas.width - 48, 24))
    return Drawing(canvas.image, {})


def _huge_png(side: int) -> bytes:
    """A PNG whose header claims side x side pixels, with next to nothing behind it."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        return len(body).to_bytes(4, "big") + kind + body + zlib.crc32(kind + body).to_bytes(4, "big")

    size = side.to_bytes(4, "big") * 2
    header = chunk(b"IHDR", size + bytes((8, 2, 0, 0, 0)))
    return b"\x89PNG\r\n\x1a\n" + header + chunk(b"IDAT", zlib.compress(bytes(1000))) + chunk(b"IEND", b"")


APPEARANCES: dict[str, Callable[[PIL.Image.Image], PIL.Image.Image]] = {
    "plain": lambda image: image,
    "mirrored": PIL.ImageOps.mirror,
    "grey": _grey,
    "on a screen": _on_a_screen,
}
"""How a face comes into a picture."""

PLANTERS: dict[str, Planter] = {
    "face": faces,
    "nsfw_probe": misread_patterns,
    "pii_image": written_data,
    "exif_gps": located,
    "image_corrupt": corrupt,
    "image_missing": missing,
    "image_bomb": bombs,
    "image_animated": animated,
    "image_path_escape": path_escapes,
}
"""Kind -> what plants it."""
