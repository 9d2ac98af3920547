"""Pictures that differ in colour alone are no near-duplicates; paler copies of one picture are."""

import io
import random

import PIL.Image
import PIL.ImageDraw
import PIL.ImageEnhance
import polars as pl
import pytest

from schemas.policy import NearImages
from tasks.dedup.loose_files import loose_duplicates
from tasks.dedup.near_images import near_hashes, near_images
from tasks.images.decode import open_image
from tasks.images.measures import image_colour, image_hashes
from tasks.providers import Providers
from tests.places import DATA, needs_data

SIDE = 256
PAINTS = {"red": (200, 60, 50), "green": (30, 134, 40), "blue": (96, 92, 220), "orange": (156, 94, 10),
          "purple": (150, 70, 160), "grey": (107, 107, 107)}  # fmt: skip
"""Colours of about equal brightness, so that no hash tells them apart."""
COLOURFUL, WHITE = (120, 170, 220), (255, 255, 255)
DRAWINGS = range(6)


def _drawing(seed: int, paint: str, background: tuple[int, int, int]) -> PIL.Image.Image:
    """Dark lines and one painted thing; the seed says where they are."""
    chance = random.Random(seed)
    picture = PIL.Image.new("RGB", (SIDE, SIDE), background)
    pen = PIL.ImageDraw.Draw(picture)
    for _ in range(12):
        pen.line([chance.randrange(SIDE) for _ in range(4)], (20, 20, 20), 5)
    left, top = chance.randrange(SIDE - 80), chance.randrange(SIDE - 80)
    shape = chance.choice([pen.rectangle, pen.ellipse])
    shape([left, top, left + chance.randrange(45, 80), top + chance.randrange(45, 80)], PAINTS[paint])
    return picture


def _photograph(seed: int) -> PIL.Image.Image:
    """A smooth picture with colour nearly everywhere."""
    chance = random.Random(seed)
    cells = PIL.Image.new("RGB", (8, 8))
    cells.putdata([tuple(chance.randrange(256) for _ in range(3)) for _ in range(64)])
    return cells.resize((SIDE, SIDE), PIL.Image.Resampling.BICUBIC)


def _file(picture: PIL.Image.Image, kind: str = "PNG", **options: int) -> bytes:
    sink = io.BytesIO()
    picture.save(sink, kind, **options)
    return sink.getvalue()


def _is_pair(one: bytes, other: bytes, coloured: bool = True) -> bool:
    images = [open_image(one), open_image(other)]
    rows = [
        {"image_id": image.image_id, **image_hashes(image).model_dump(), **image_colour(image).model_dump()}
        for image in images
    ]
    hashed = pl.DataFrame(rows).sort("image_id")
    pairs = near_hashes(hashed, NearImages())
    return near_images(pairs, hashed, NearImages(), hashed if coloured else hashed.clear()).height == 1


@pytest.mark.parametrize("background", [WHITE, COLOURFUL], ids=["white", "colourful"])
@pytest.mark.parametrize("seed", DRAWINGS)
def test_a_thing_in_another_paint_is_another_picture(seed, background):
    drawn = {paint: _file(_drawing(seed, paint, background)) for paint in PAINTS}
    assert [paint for paint in PAINTS if paint != "red" and _is_pair(drawn["red"], drawn[paint])] == []


@pytest.mark.parametrize("seed", DRAWINGS)
def test_hashes_alone_pair_the_two_paints(seed):
    red, green = (_file(_drawing(seed, paint, WHITE)) for paint in ("red", "green"))
    assert _is_pair(red, green, coloured=False)


CHANGES = {
    "JPEG": lambda picture: _file(picture, "JPEG", quality=40),
    "smaller": lambda picture: _file(picture.resize((SIDE // 2, SIDE // 2))),
    "paler": lambda picture: _file(PIL.ImageEnhance.Color(picture).enhance(0.5)),
    "darker": lambda picture: _file(PIL.ImageEnhance.Brightness(picture).enhance(0.7)),
    "grey": lambda picture: _file(picture.convert("L")),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("seed", DRAWINGS)
def test_a_copy_of_a_photograph_stays_a_copy(seed, change):
    picture = _photograph(seed)
    assert _is_pair(_file(picture), CHANGES[change](picture))


@needs_data
def test_reported_pictures_that_differ_in_colour_alone_are_all_kept():
    assert loose_duplicates(DATA / "public-reports" / "colour-alone", Providers(), 1).pairs == []
