"""Uploads: faces, personal data, GPS metadata, broken, missing and hostile files, duplicates, look-alikes, presets."""

import io
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from random import Random

import PIL.Image
import PIL.ImageOps

from tasks.demo import drawings
from tasks.demo.drawings import FAMILIES
from tasks.demo.images import PoolImage
from tasks.demo.problems.plan import EXACT, IN_MESSAGES, Draw, Planter, Problem, about, later, planter, texts, upload
from tasks.demo.records import Era, LogLine, Moment, PlantedFact, new_conv_id
from tasks.demo.traffic import PlayedScene, Stage
from tasks.demo.words import chance, load, things
from tasks.drawing.canvas import WHITE, Canvas, DrawnImage, Photograph, photographs, view

_GPS_TAG, _MAKE_TAG = 0x8825, 0x010F

PictureChange = Callable[[PIL.Image.Image], PIL.Image.Image]


def faces(stage: Stage, rng: Random) -> Iterator[Problem]:
    """The shipped photographs with faces: as they are, mirrored, grey, and inside a drawn screen."""
    for photograph in photographs("faces"):
        for detail, change in APPEARANCES.items():
            yield Problem(partial(_uploaded, "face", detail, partial(_changed, photograph, change)))


def misread_patterns(stage: Stage, rng: Random) -> Iterator[Problem]:
    """An abstract pattern that the embedded NSFW classifier scores as pornography."""
    for _ in range(3):
        yield Problem(partial(_uploaded, "nsfw_probe", "pattern", later(drawings.misread_pattern, rng)), EXACT)


def written_data(stage: Stage, rng: Random) -> Iterator[Problem]:
    """Personal data written in an image."""
    for detail, lines in load("written_data").items():
        yield Problem(partial(_uploaded, "pii_image", detail, later(_note, rng, lines)), EXACT)


def located(stage: Stage, rng: Random) -> Iterator[Problem]:
    """Images with a GPS position in their metadata."""
    for draw in (drawings.landscape, drawings.fish, drawings.plate):
        exif = PIL.Image.Exif()
        exif[_MAKE_TAG] = "Boxcam"
        exif[_GPS_TAG] = {1: "N", 2: (52.0, 31.0, 12.5), 3: "E", 4: (13.0, 24.0, 18.0)}
        yield Problem(partial(_uploaded, "exif_gps", "jpeg", later(draw, rng), exif=exif), frozenset({Era.JPG}))


def _uploaded(
    kind: str, detail: str, draw: Draw, stage: Stage, rng: Random, moment: Moment, exif: PIL.Image.Exif | None = None
) -> list[LogLine]:
    name = stage.images.save(draw(), moment.era, exif)
    return _asked_about(stage, {"kind": kind, "detail": detail}, name, rng, moment)


def _stored(kind: str, detail: str, stage: Stage, rng: Random, moment: Moment) -> list[LogLine]:
    """A file whose content is not a usable image."""
    name, content = new_conv_id(rng), CONTENTS[kind][detail](rng)
    suffix = "gif" if kind == "image_animated" else "png" if moment.era is Era.PNG else "jpg"
    stage.images.store(f"{name}.{suffix}", content)
    return _asked_about(stage, {"kind": kind, "detail": detail, "image": name}, name, rng, moment)


def _without_file(kind: str, name: str | None, stage: Stage, rng: Random, moment: Moment) -> list[LogLine]:
    """A name without a file, such as one that points outside the image folder; by default like any other."""
    name = name or new_conv_id(rng)
    return _asked_about(stage, {"kind": kind, "image": name}, name, rng, moment)


def _asked_about(stage: Stage, fact: PlantedFact, name: str, rng: Random, moment: Moment) -> list[LogLine]:
    """A direct chat about the upload, or sometimes a battle."""
    image, prompts = upload(name), [rng.choice(load("upload_prompts"))]
    if rng.random() < 0.3:
        talks = stage.pair(rng, image, prompts)
        return stage.battle(rng, moment, talks, fact | {"conversation_id": rng.choice(talks).conv_id})
    talk = stage.talk(rng, image, prompts)
    return stage.chat(rng, moment, talk, fact | {"conversation_id": talk.conv_id})


def _grey(image: PIL.Image.Image) -> PIL.Image.Image:
    return PIL.ImageOps.grayscale(image).convert("RGB").crop((0, 0, image.width, image.height * 4 // 5))


def _on_a_screen(image: PIL.Image.Image) -> PIL.Image.Image:
    screen = PIL.Image.new("RGB", (512, 420), (36, 38, 46))
    image.thumbnail((360, 330))
    screen.paste(image, (20, 50))
    for row in range(4):
        screen.paste((90 + 30 * row, 110, 140), (400, 50 + 90 * row, 500, 120 + 90 * row))
    return screen


def _note(rng: Random, lines: list[str]) -> DrawnImage:
    canvas = Canvas(rng, rng.randint(420, 500), 70 + 44 * len(lines), WHITE)
    for index, line in enumerate(lines):
        canvas.text((24, 30 + 44 * index), line, 24, width=canvas.width - 48, font="sans")
    return DrawnImage(canvas.image, {})


def _half_png(rng: Random) -> bytes:
    sink = io.BytesIO()
    drawings.landscape(rng).image.save(sink, "PNG")
    return sink.getvalue()[: len(sink.getvalue()) // 2]


def _animation(rng: Random) -> bytes:
    frames = [drawings.discs(rng).image.resize((120, 90)) for _ in range(3)]
    sink = io.BytesIO()
    frames[0].save(sink, "GIF", save_all=True, append_images=frames[1:], duration=200)
    return sink.getvalue()


def _huge_png(side: int) -> bytes:
    """A small PNG file whose header claims side x side pixels."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        return len(body).to_bytes(4, "big") + kind + body + zlib.crc32(kind + body).to_bytes(4, "big")

    header = chunk(b"IHDR", side.to_bytes(4, "big") * 2 + bytes((8, 2, 0, 0, 0)))
    return b"\x89PNG\r\n\x1a\n" + header + chunk(b"IDAT", zlib.compress(bytes(1000))) + chunk(b"IEND", b"")


CONTENTS: dict[str, dict[str, Callable[[Random], bytes]]] = {
    "image_corrupt": {
        "truncated": _half_png,
        "empty": lambda rng: b"",
        "html": lambda rng: b"<!DOCTYPE html><title>403</title><p>Forbidden",
    },
    "image_bomb": {"30000 x 30000": lambda rng: _huge_png(30_000), "30001 x 30001": lambda rng: _huge_png(30_001)},
    "image_animated": {"gif": _animation, "another gif": _animation},
}
"""Kind, detail -> function that makes the file's content."""

OUTSIDE = ("../../outside", "..\\..\\outside.png", "/etc/hostname")
"""Names that point outside the image folder."""

APPEARANCES: dict[str, PictureChange] = {
    "plain": lambda image: image,
    "mirrored": PIL.ImageOps.mirror,
    "grey": _grey,
    "on a screen": _on_a_screen,
}
"""Appearance of a face -> change of the photograph."""

COPIES = 4
HOT_COUNT = 20
_SUBJECTS = {"coffee", "pets", "sights", "flowers", "rockets"}
_DATASETS = {"Memes": "meme", "Flowcharts": "flow_chart", "Websites": "dashboard", "Charts": "bar_chart"}
_PRESETS_UNUSED = 2


def exact_duplicates(stage: Stage, rng: Random) -> Iterator[Problem]:
    """Different users ask the same about the same image."""
    for text in texts("exact_duplicate"):
        draw = later(drawings.landscape, rng)
        fact = {"kind": "exact_duplicate", "group": f"{rng.getrandbits(32):08x}"}
        for _ in range(COPIES):
            yield Problem(partial(_asked, fact, draw, text["prompt"]), EXACT)


def near_duplicates(stage: Stage, rng: Random) -> Iterator[Problem]:
    """An image and its resized, recompressed, cropped and labelled versions, under almost the same question."""
    wordings = load("problem_texts")["near_duplicate_picture"]
    for number, draw in enumerate(_originals(rng)):
        group = f"{rng.getrandbits(32):08x}"
        for (variant, change), prompt in zip(VERSIONS.items(), wordings[number % len(wordings)], strict=True):
            fact = {"kind": "near_duplicate_picture", "group": group, "variant": variant}
            yield Problem(partial(_asked, fact, partial(_changed, draw, change), prompt), EXACT)


def look_alikes(stage: Stage, rng: Random) -> Iterator[Problem]:
    """Receipts of one shop and pages of one book: different images that look alike, with the same question."""
    shop, title = f"The {rng.choice(things('shops'))}", rng.choice(things("titles"))
    receipts = [later(drawings.receipt, rng, shop, 7) for _ in range(COPIES)]
    book = [later(drawings.text_page, rng, title) for _ in range(COPIES - 1)]
    group = f"{rng.getrandbits(32):08x}"
    for name, draws, question in (
        ("receipts", receipts, "How much was paid in total on this slip?"),
        ("pages", book, "What is this page of the book about?"),
    ):
        for draw in draws:
            fact = {"kind": "not_near_duplicate", "group": f"{name}-{group}"}
            yield Problem(partial(_asked, fact, draw, question), EXACT)


def hot_prompts(stage: Stage, rng: Random) -> Iterator[Problem]:
    """One question that many users ask about different images. One fact covers all of them."""
    text = load("problem_texts")["hot_prompt"]
    for number in range(HOT_COUNT):
        fact = {"kind": "hot_prompt", "text": text, "count": HOT_COUNT} if number == 0 else None
        draw = later(rng.choice([drawings.discs, drawings.shards, drawings.plate, drawings.landscape]), rng)
        yield Problem(partial(_asked, fact, draw, text), EXACT)


def presets(stage: Stage, rng: Random) -> Iterator[Problem]:
    """Presets in chats of the last two eras, and unused presets. Log lines do not say that an image is a preset."""
    for dataset, family in _DATASETS.items():
        file = stage.presets.add(FAMILIES[family](rng).image, dataset)
        yield Problem(partial(_picked, dataset, file), EXACT)
    file = stage.presets.add(FAMILIES["meme"](rng).image, "Memes")
    yield Problem(partial(_picked, "Memes", file), frozenset({Era.JPG}))
    for _ in range(_PRESETS_UNUSED):
        stage.presets.add(FAMILIES["meme"](rng).image, "Memes")


def preset_votes(stage: Stage, rng: Random) -> Iterator[Problem]:
    """Votes on presets."""
    for dataset, family in _DATASETS.items():
        file = stage.presets.add(FAMILIES[family](rng).image, dataset)
        yield Problem(partial(_picked_in_battle, dataset, file), EXACT)


def _asked(
    fact: PlantedFact | None, draw: Draw, prompt: str, stage: Stage, rng: Random, moment: Moment
) -> list[LogLine]:
    name = stage.images.save(draw(), moment.era)
    talk = stage.talk(rng, upload(name), [prompt])
    facts = [fact | {"conversation_id": talk.conv_id, "image": name}] if fact else []
    return stage.chat(rng, moment, talk, *facts)


def _picked(dataset: str, file: Path, stage: Stage, rng: Random, moment: Moment) -> list[LogLine]:
    talk = stage.talk(rng, _served(file, stage, moment), _about_example(dataset))
    return stage.chat(rng, moment, talk, about("preset", talk, dataset=dataset))


def _picked_in_battle(dataset: str, file: Path, stage: Stage, rng: Random, moment: Moment) -> list[LogLine]:
    talks = stage.pair(rng, _served(file, stage, moment), _about_example(dataset))
    return stage.battle(rng, moment, talks, {"kind": "preset_battle", "battle": talks[0].conv_id, "dataset": dataset})


def _served(file: Path, stage: Stage, moment: Moment) -> PoolImage:
    """A preset as the server stores it: like an upload."""
    with PIL.Image.open(file) as image:
        return upload(stage.images.save(image, moment.era))


def _about_example(dataset: str) -> list[str]:
    return [f"What is the point of this example from {dataset.lower()}?"]


def _originals(rng: Random) -> Iterator[Draw]:
    """Mirrored photographs and drawings without fine lines or repeating textures."""
    of_something = [photograph for photograph in photographs("scenes") if photograph.family in _SUBJECTS]
    for photograph in rng.sample(of_something, 2):
        yield partial(_changed, photograph, PIL.ImageOps.mirror)
    yield later(drawings.plate, rng)
    yield later(drawings.discs, rng)


def _changed(picture: Photograph | Draw, change: PictureChange) -> PIL.Image.Image:
    return change(view(picture).image if isinstance(picture, Photograph) else picture())


def _cropped(image: PIL.Image.Image) -> PIL.Image.Image:
    wide, high = image.size
    return image.crop((wide // 100, high // 100, wide - wide // 100, high - high // 100))


def _recompressed(image: PIL.Image.Image) -> PIL.Image.Image:
    sink = io.BytesIO()
    image.save(sink, "JPEG", quality=35)
    return PIL.Image.open(sink).convert("RGB")


def _labelled(image: PIL.Image.Image) -> PIL.Image.Image:
    """The image with a small word in a corner, as sharing sites add it."""
    canvas = Canvas(chance("label"), *image.size)
    canvas.image.paste(image)
    canvas.text((8, image.height - 18), "kitebase", 12, (240, 240, 240))
    return canvas.image


VERSIONS: dict[str, PictureChange] = {
    "original": lambda image: image,
    "resize70": lambda image: image.resize((image.width * 7 // 10, image.height * 7 // 10)),
    "jpeg35": _recompressed,
    "crop2": _cropped,
    "label": _labelled,
}
"""Version of an image, as made by sharing -> how it is made."""


def _files(kind: str) -> Iterator[PlayedScene]:
    return (partial(_stored, kind, detail) for detail in CONTENTS[kind])


IMAGE_PLANTERS: dict[str, Planter] = {
    "face": faces,
    "nsfw_probe": misread_patterns,
    "pii_image": written_data,
    "exif_gps": located,
    "image_corrupt": planter(*_files("image_corrupt"), eras=IN_MESSAGES),
    "image_missing": planter(*3 * [partial(_without_file, "image_missing", None)]),
    "image_bomb": planter(*_files("image_bomb"), eras=EXACT),
    "image_animated": planter(*_files("image_animated"), eras=EXACT),
    "image_path_escape": planter(
        *(partial(_without_file, "image_path_escape", name) for name in OUTSIDE), eras=IN_MESSAGES
    ),
    "exact_duplicate": exact_duplicates,
    "near_duplicate_picture": near_duplicates,
    "not_near_duplicate": look_alikes,
    "hot_prompt": hot_prompts,
    "preset": presets,
    "preset_battle": preset_votes,
}
"""Kind -> function that plants it."""
