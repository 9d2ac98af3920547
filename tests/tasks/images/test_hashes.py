"""Perceptual hashes are imagehash's and pdqhash's, survive copies, and tell images apart."""

import io

import imagehash
import numpy as np
import pdqhash
import PIL.Image
import pytest
import skimage.data

from tasks.images.decode import open_image
from tasks.images.hashes import image_hashes, pdq_digits
from tests.builders import image_bytes

PHOTOGRAPHS = ("astronaut", "camera", "chelsea", "coffee", "rocket", "page", "text", "coins")
RADIUS = 31
"""Meta's own: images within 31 of 256 bits count as the same."""


def sample(name):
    return PIL.Image.fromarray(getattr(skimage.data, name)()).convert("RGB")


def saved(image, file_format="PNG", **options):
    sink = io.BytesIO()
    image.save(sink, file_format, **options)
    return sink.getvalue()


def hashes(image):
    return image_hashes(open_image(saved(image)))


def apart(one, other):
    return (int(hashes(one).pdq, 16) ^ int(hashes(other).pdq, 16)).bit_count()


def full_size_pdq(image):
    return int(np.packbits(pdqhash.compute(np.asarray(image))[0]).tobytes().hex(), 16)


@pytest.mark.parametrize("name", PHOTOGRAPHS)
def test_the_dct_hash_is_imagehash_s(name):
    assert hashes(sample(name)).phash == str(imagehash.phash(sample(name)))


@pytest.mark.parametrize("name", PHOTOGRAPHS)
def test_pdq_of_a_large_image_stays_close_to_that_of_the_full_size(name):
    large = sample(name).resize((1600, 1200), PIL.Image.Resampling.BICUBIC)
    assert (int(hashes(large).pdq, 16) ^ full_size_pdq(large)).bit_count() <= 10
    assert pdq_digits(np.asarray(large)) == hashes(large).pdq
    small = large.resize((500, 375))
    assert int(hashes(small).pdq, 16) == full_size_pdq(small)


def test_pdq_is_in_meta_s_bit_order():
    """The digits that python-threatexchange prints: the first bit of pdqhash's vector is the most significant."""
    image = sample("coffee").resize((400, 300))
    bits = "".join(map(str, pdqhash.compute(np.asarray(image))[0]))
    assert hashes(image).pdq == f"{int(bits, 2):064x}"


@pytest.mark.parametrize("name", ["astronaut", "chelsea", "coffee", "rocket"])
def test_pdq_survives_encoding_again_and_resizing(name):
    image = sample(name)
    again = open_image(saved(image, "JPEG", quality=40)).pil
    smaller = image.resize((image.width * 2 // 3, image.height * 2 // 3))
    assert max(apart(image, again), apart(image, smaller)) <= RADIUS


def test_pdq_tells_photographs_apart():
    found = [int(hashes(sample(name)).pdq, 16) for name in PHOTOGRAPHS]
    assert min((a ^ b).bit_count() for n, a in enumerate(found) for b in found[:n]) > 2 * RADIUS


def test_pdq_of_a_flat_image_has_no_quality_and_of_a_photograph_all():
    assert hashes(PIL.Image.new("RGB", (300, 200), "navy")).pdq_quality == 0
    assert hashes(sample("coffee")).pdq_quality == 100


@pytest.mark.parametrize("size", [(1, 1), (1, 20_000), (20_000, 1), (2, 3), (63, 65), (1025, 7)])
def test_every_shape_has_hashes(size):
    value = hashes(PIL.Image.new("RGB", size, "olive"))
    assert (len(value.phash), len(value.pdq), len(value.grey)) == (16, 64, 2048)


def test_the_thumbnail_is_the_brightness_at_32_by_32():
    opened = open_image(image_bytes(1, (200, 150)))
    thumbnail = opened.pil.convert("L").resize((32, 32), PIL.Image.Resampling.LANCZOS)
    assert bytes.fromhex(image_hashes(opened).grey) == thumbnail.tobytes()
