"""Exact duplicates, near-duplicates, look-alikes, hot prompts and preset images."""

import io
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from random import Random

import PIL.Image
import PIL.ImageOps

from tasks.demo.drawings import FAMILIES, pages, scenes
from tasks.demo.drawings.canvas import Canvas
from tasks.demo.images import Photograph, photographs, view
from tasks.demo.log_writer import Fact, LogLine
from tasks.demo.problems.plan import EXACT, Draw, Planter, Problem, about, later, texts, upload
from tasks.demo.records import Era, Moment
from tasks.demo.traffic import Stage
from tasks.demo.words import chance, load, things

COPIES = 4
HOT_COUNT = 20
_SUBJECTS = {"coffee", "pets", "sights", "flowers", "rockets"}
_DATASETS = {"Memes": "meme", "Floorplans": "floor_plan", "Websites": "dashboard", "Charts": "bar_chart"}
_PRESETS_UNUSED = 2


def exact_duplicates(stage: Stage, rng: Random) -> Iterator[Problem]:
    """Different users ask the same about the same image."""
    for text in texts("exact_duplicate"):
        draw = later(scenes.landscape, rng)
        fact = {"kind": "exact_duplicate", "group": f"{rng.getrandbits(32):08x}"}
        for _ in range(COPIES):
            yield Problem(partial(_asked, stage, fact, draw, text["prompt"]), EXACT)


def near_duplicates(stage: Stage, rng: Random) -> Iterator[Problem]:
    """An image and its resized, recompressed, cropped and labelled versions, under almost the same question."""
    wordings = load("problem_texts")["near_duplicate_picture"]
    for number, draw in enumerate(_originals(rng)):
        group = f"{rng.getrandbits(32):08x}"
        for (variant, change), prompt in zip(VERSIONS.items(), wordings[number % len(wordings)], strict=True):
            fact = {"kind": "near_duplicate_picture", "group": group, "variant": variant}
            yield Problem(partial(_asked, stage, fact, partial(_changed, draw, change), prompt), EXACT)


def look_alikes(stage: Stage, rng: Random) -> Iterator[Problem]:
    """Receipts of one shop and pages of one book: different images that look alike, with the same question."""
    shop, title = f"The {rng.choice(things('shops'))}", rng.choice(things("titles"))
    receipts = [later(pages.receipt, rng, shop, 7) for _ in range(COPIES)]
    book = [later(pages.text_page, rng, title) for _ in range(COPIES - 1)]
    group = f"{rng.getrandbits(32):08x}"
    for name, draws, question in (
        ("receipts", receipts, "How much was paid in total on this slip?"),
        ("pages", book, "What is this page of the book about?"),
    ):
        for draw in draws:
            fact = {"kind": "not_near_duplicate", "group": f"{name}-{group}"}
            yield Problem(partial(_asked, stage, fact, draw, question), EXACT)


def hot_prompts(stage: Stage, rng: Random) -> Iterator[Problem]:
    """One question that many users ask about different images. One fact covers all of them."""
    text = load("problem_texts")["hot_prompt"]
    for number in range(HOT_COUNT):
        fact = {"kind": "hot_prompt", "text": text, "count": HOT_COUNT} if number == 0 else None
        draw = later(rng.choice([scenes.discs, scenes.shards, scenes.plate, scenes.skyline]), rng)
        yield Problem(partial(_asked_by_all, stage, text, fact, draw), EXACT)


def presets(stage: Stage, rng: Random) -> Iterator[Problem]:
    """Presets in chats of the last two eras, and unused presets. Log lines do not say that an image is a preset."""
    for dataset, family in _DATASETS.items():
        file = stage.presets.add(FAMILIES[family](rng).image, dataset)
        yield Problem(partial(_picked, stage, dataset, file), EXACT)
    file = stage.presets.add(FAMILIES["comic"](rng).image, "Memes")
    yield Problem(partial(_picked, stage, "Memes", file), frozenset({Era.JPG}))
    for _ in range(_PRESETS_UNUSED):
        stage.presets.add(FAMILIES["meme"](rng).image, "Memes")


def _asked(stage: Stage, fact: Fact, draw: Draw, prompt: str, rng: Random, moment: Moment) -> list[LogLine]:
    name = stage.images.save(draw(), moment.era)
    talk = stage.talk(rng, upload(name), [prompt])
    return stage.chat(rng, moment, talk, fact | {"conversation_id": talk.conv_id, "image": name})


def _asked_by_all(stage: Stage, text: str, fact: Fact | None, draw: Draw, rng: Random, moment: Moment) -> list[LogLine]:
    talk = stage.talk(rng, upload(stage.images.save(draw(), moment.era)), [text])
    return stage.chat(rng, moment, talk, *([fact] if fact else []))


def _picked(stage: Stage, dataset: str, file: Path, rng: Random, moment: Moment) -> list[LogLine]:
    with PIL.Image.open(file) as image:
        name = stage.images.save(image, moment.era)
    talk = stage.talk(rng, upload(name), [f"What is the point of this example from {dataset.lower()}?"])
    return stage.chat(rng, moment, talk, about("preset", talk, dataset=dataset))


def _originals(rng: Random) -> Iterator[Draw]:
    """Mirrored photographs and drawings without fine lines or repeating textures."""
    of_something = [photograph for photograph in photographs("scenes") if photograph.family in _SUBJECTS]
    for photograph in rng.sample(of_something, 2):
        yield partial(_mirrored, photograph)
    yield later(scenes.plate, rng)
    yield later(scenes.discs, rng)


def _mirrored(photograph: Photograph) -> PIL.Image.Image:
    return PIL.ImageOps.mirror(view(photograph).image)


def _changed(draw: Draw, change: Callable[[PIL.Image.Image], PIL.Image.Image]) -> PIL.Image.Image:
    return change(draw())


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


VERSIONS: dict[str, Callable[[PIL.Image.Image], PIL.Image.Image]] = {
    "original": lambda image: image,
    "resize70": lambda image: image.resize((image.width * 7 // 10, image.height * 7 // 10)),
    "jpeg35": _recompressed,
    "crop2": _cropped,
    "label": _labelled,
}
"""Version of an image, as made by sharing -> how it is made."""

PLANTERS: dict[str, Planter] = {
    "exact_duplicate": exact_duplicates,
    "near_duplicate_picture": near_duplicates,
    "not_near_duplicate": look_alikes,
    "hot_prompt": hot_prompts,
    "preset": presets,
}
"""Kind -> function that plants it."""
