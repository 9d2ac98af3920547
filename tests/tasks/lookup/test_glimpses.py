"""A folder's duplicates are the same whether its JPEG files are glimpsed at first or all decoded whole."""

import io

import numpy as np
import PIL.Image
import PIL.ImageEnhance
import pytest
import skimage.data

import tasks.lookup.loose_duplicates as loose
from schemas.policy import NearPictures
from tasks.lookup.glimpses import BITS_OFF_MAX, Glimpse, glimpsed, maybe_near
from tasks.measure.perceptual_hash import phash_bits
from tasks.pixels.pictures import PictureRejected, glimpse, open_picture
from tasks.providers import Providers

PHOTOGRAPHS = ("astronaut", "chelsea", "coffee", "rocket", "page", "text", "coins", "camera")
SATURATED = [(255, 0, 0), (0, 255, 0), (0, 0, 255), (255, 255, 0), (255, 0, 255), (0, 255, 255)]


def jpeg(pixels, **how):
    sink = io.BytesIO()
    PIL.Image.fromarray(pixels).convert("RGB").save(sink, "JPEG", **{"quality": 88, **how})
    return sink.getvalue()


def photograph(name, size=(1100, 900)):
    return np.asarray(PIL.Image.fromarray(getattr(skimage.data, name)()).convert("RGB").resize(size))


def extremes():
    """Pictures whose hash hangs on little."""
    generator = np.random.default_rng(0)
    for seed in range(4):
        yield f"noise {seed}", generator.integers(0, 256, (700 + seed, 900, 3), np.uint8)
        yield f"flat {seed}", np.full((600, 800, 3), generator.integers(0, 256, 3), np.uint8)
        squares = np.array(SATURATED, np.uint8)[generator.integers(0, 6, 48)].reshape(6, 8, 3)
        yield f"saturated {seed}", squares.repeat(100, 0).repeat(100, 1)
    yield "tiny", generator.integers(0, 256, (1, 1, 3), np.uint8)
    yield "tall", generator.integers(0, 256, (20_000, 1, 3), np.uint8)
    yield "wide", generator.integers(0, 256, (1, 20_000, 3), np.uint8)


def off(content):
    """Bits by which a glimpse's hash differs from the hash."""
    bits = phash_bits(open_picture(content).small_grey)
    return (glimpsed(content).phash ^ int.from_bytes(np.packbits(bits).tobytes())).bit_count()


def looked_at(content):
    """What was known of a picture after the glimpse: its small brightness nearly, or exactly."""
    grey = open_picture(content).small_grey
    return "exactly" if np.array_equal(glimpsed(content).grey, grey.ravel()) else "nearly"


@pytest.mark.parametrize("how", [{}, {"quality": 30}, {"subsampling": 0}, {"progressive": True}])
@pytest.mark.parametrize("name", PHOTOGRAPHS)
def test_the_hash_of_a_glimpse_is_off_by_half_of_what_is_searched_for_at_most(name, how):
    assert off(jpeg(photograph(name), **how)) <= BITS_OFF_MAX // 2


def test_most_photographs_are_only_glimpsed_at():
    assert sum(looked_at(jpeg(photograph(name))) == "nearly" for name in PHOTOGRAPHS) >= len(PHOTOGRAPHS) - 2


@pytest.mark.parametrize("quality", [30, 75, 95])
def test_a_picture_whose_hash_hangs_on_rounding_is_decoded_whole(quality):
    for name, pixels in extremes():
        content = jpeg(pixels, quality=quality)
        assert off(content) <= BITS_OFF_MAX // 2
        assert looked_at(content) == "exactly" or not name.startswith(("flat", "noise", "tiny"))


@pytest.mark.parametrize("content", [b"", b"nonsense", jpeg(photograph("coffee"))[:20_000]])
def test_what_is_no_whole_jpeg_is_judged_as_ever(content):
    assert glimpse(content) is None
    with pytest.raises(PictureRejected) as whole:
        open_picture(content)
    with pytest.raises(PictureRejected, match=str(whole.value)):
        glimpsed(content)


def test_a_glimpse_is_upright():
    pixels = photograph("chelsea", (900, 600))
    exif = PIL.Image.Exif()
    exif[0x0112] = 6
    turned = jpeg(np.rot90(pixels).copy(), exif=exif)
    assert np.abs(glimpse(turned).astype(int) - open_picture(turned).small_grey).max() <= 4
    assert np.abs(glimpse(turned).astype(int) - open_picture(jpeg(pixels)).small_grey).max() <= 12


def test_pictures_at_the_edge_of_the_radius_are_looked_at_again():
    grey = np.random.default_rng(0).integers(0, 256, 1024, np.uint8)
    radius, bits = NearPictures(), NearPictures().phash_distance_max + 2 * BITS_OFF_MAX
    one, edge, beyond = (Glimpse((1 << count) - 1, grey) for count in (0, bits, 2 * bits + 1))
    assert maybe_near([one, edge, beyond], radius) == {0, 1}
    other = Glimpse(0, 255 - grey)
    assert maybe_near([one, other], radius) == set()


def folder_of_copies(folder):
    for name in PHOTOGRAPHS:
        pixels = photograph(name, (900, 700))
        picture = PIL.Image.fromarray(pixels)
        picture.save(folder / f"{name}.jpg", quality=90)
        picture.save(folder / f"{name} again.jpg", quality=40)
        picture.resize((400, 311)).save(folder / f"{name} small.jpg")
        picture.crop((30, 20, 870, 680)).save(folder / f"{name} cropped.jpg")
        PIL.ImageEnhance.Brightness(picture).enhance(1.3).save(folder / f"{name} brighter.jpg")
    (folder / "same.jpg").write_bytes((folder / "coffee.jpg").read_bytes())
    open_picture((folder / "coffee.jpg").read_bytes()).pil.save(folder / "same.png")
    for name, pixels in extremes():
        (folder / f"{name}.jpg").write_bytes(jpeg(pixels))


def both_ways(folder, monkeypatch):
    providers = Providers()
    found = loose.loose_duplicates(folder, providers, workers=2)
    monkeypatch.setattr(loose, "maybe_near", lambda glimpses, radius: set(range(len(glimpses))))
    return found, loose.loose_duplicates(folder, providers, workers=2)


def test_glimpses_change_no_pair_and_no_group(tmp_path, monkeypatch):
    folder_of_copies(tmp_path)
    found, whole = both_ways(tmp_path, monkeypatch)
    assert found == whole
    assert len(found.pairs) > 3 * len(PHOTOGRAPHS)
    assert {"exact", "perceptual"} == {pair.relation for pair in found.pairs}


def test_only_pictures_that_may_look_like_another_are_decoded_whole(tmp_path, monkeypatch):
    for name in ("astronaut", "coffee", "rocket"):
        (tmp_path / f"{name}.jpg").write_bytes(jpeg(photograph(name)))
    (tmp_path / "again.jpg").write_bytes(jpeg(photograph("rocket"), quality=50))
    whole = []
    monkeypatch.setattr(loose, "open_picture", lambda content: whole.append(content) or open_picture(content))
    found = loose.loose_duplicates(tmp_path, Providers(), workers=1)
    assert found.pictures == 4 and [(pair.a, pair.b) for pair in found.pairs] == [("again.jpg", "rocket.jpg")]
    assert len(whole) == 2
