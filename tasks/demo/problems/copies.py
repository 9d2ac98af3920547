"""Copies: the same question about the same picture, pictures that are nearly the same, and some that only look it."""

import io
from collections.abc import Callable, Iterator
from functools import partial
from random import Random

import PIL.Image
import PIL.ImageOps

from tasks.demo.chance import chance
from tasks.demo.drawings import abstract, creatures, documents, scenes
from tasks.demo.drawings.canvas import Canvas
from tasks.demo.log_writer import Fact, LogLine
from tasks.demo.photographs import Photograph, photographs, view
from tasks.demo.problems.plan import EXACT, Draw, Planter, Problem, later, texts, upload
from tasks.demo.stage import Stage, chat_lines
from tasks.demo.timeline import Moment
from tasks.demo.words import load, things

COPIES = 4
HOT_COUNT = 20
_SUBJECTS = {"coffee", "pets", "sights", "flowers", "rockets"}


def exact_duplicates(stage: Stage, rng: Random) -> Iterator[Problem]:
    """Different users ask the same about the same picture."""
    for text in texts("exact_duplicate"):
        draw = later(scenes.landscape, rng)
        fact = {"kind": "exact_duplicate", "group": f"{rng.getrandbits(32):08x}"}
        for _ in range(COPIES):
            yield Problem(partial(_asked, stage, fact, draw, text["prompt"]), EXACT)


def near_duplicates(stage: Stage, rng: Random) -> Iterator[Problem]:
    """A picture and its resized, recompressed, cropped and labelled versions, under almost the same question."""
    wordings = load("problem_texts")["near_duplicate_picture"]
    for number, draw in enumerate(_originals(rng)):
        group = f"{rng.getrandbits(32):08x}"
        prompts = wordings[number % len(wordings)]
        for (variant, change), prompt in zip(VERSIONS.items(), prompts, strict=True):
            fact = {"kind": "near_duplicate_picture", "group": group, "variant": variant}
            yield Problem(partial(_asked, stage, fact, partial(_changed, draw, change), prompt), EXACT)


def look_alikes(stage: Stage, rng: Random) -> Iterator[Problem]:
    """Receipts of one shop and pages of one book: different things that look alike, under the same question."""
    shop, title = f"The {rng.choice(things('shops'))}", rng.choice(things("titles"))
    group = f"{rng.getrandbits(32):08x}"
    for _ in range(COPIES):
        fact = {"kind": "not_near_duplicate", "group": f"receipts-{group}"}
        receipt = later(documents.receipt, rng, shop, 7)
        yield Problem(partial(_asked, stage, fact, receipt, "How much was paid in total on this slip?"), EXACT)
    for _ in range(COPIES - 1):
        fact = {"kind": "not_near_duplicate", "group": f"pages-{group}"}
        page = later(documents.text_page, rng, title)
        yield Problem(partial(_asked, stage, fact, page, "What is this page of the book about?"), EXACT)


def hot_prompts(stage: Stage, rng: Random) -> Iterator[Problem]:
    """One question that everybody asks, each about another picture."""
    fact = {"kind": "hot_prompt", "text": load("problem_texts")["hot_prompt"], "count": HOT_COUNT}
    for number in range(HOT_COUNT):
        draw = later(rng.choice([abstract.discs, abstract.shards, creatures.plate, scenes.skyline]), rng)
        yield Problem(partial(_asked_by_all, stage, fact if number == 0 else None, draw), EXACT)


def _asked(stage: Stage, fact: Fact, draw: Draw, prompt: str, rng: Random, moment: Moment) -> list[LogLine]:
    picture = upload(stage.pictures.save(draw(), moment.era))
    talk = stage.talk(rng, picture, [prompt])
    fact = fact | {"conversation_id": talk.conv_id, "image": picture.name}
    return chat_lines(rng, talk, moment, stage.crowd.anybody(rng), [fact])


def _asked_by_all(stage: Stage, fact: Fact | None, draw: Draw, rng: Random, moment: Moment) -> list[LogLine]:
    picture = upload(stage.pictures.save(draw(), moment.era))
    talk = stage.talk(rng, picture, [load("problem_texts")["hot_prompt"]])
    return chat_lines(rng, talk, moment, stage.crowd.anybody(rng), [fact] if fact else [])


def _originals(rng: Random) -> Iterator[Draw]:
    """Pictures of something, not of a repeating texture: photographs, mirrored, and drawings without fine lines."""
    of_something = [photograph for photograph in photographs("scenes") if photograph.family in _SUBJECTS]
    for photograph in rng.sample(of_something, 2):
        yield partial(_mirrored, photograph)
    yield later(creatures.plate, rng)
    yield later(abstract.discs, rng)


def _mirrored(photograph: Photograph) -> PIL.Image.Image:
    return PIL.ImageOps.mirror(view(photograph, (1, 0, 0)).image)


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
    """The picture with a small word in a corner, as sharing sites add it."""
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
"""What happens to pictures on their way around the world."""

PLANTERS: dict[str, Planter] = {
    "exact_duplicate": exact_duplicates,
    "near_duplicate_picture": near_duplicates,
    "not_near_duplicate": look_alikes,
    "hot_prompt": hot_prompts,
}
"""Kind -> what plants it."""
