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


def sample(name):
    return PIL.Image.fromarray(getattr(skimage.data, name)()).convert("RGB")


def saved(image, file_format="PNG", **options):
    sink = io.BytesIO()
    image.save(sink, file_format, **options)
    return sink.getvalue()


def hashes(image):
    return image_hashes(open_image(saved(image)))


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


def test_pdq_of_a_flat_image_has_no_quality_and_of_a_photograph_all():
    assert hashes(PIL.Image.new("RGB", (300, 200), "navy")).pdq_quality == 0
    assert hashes(sample("coffee")).pdq_quality == 100


def test_the_thumbnail_is_the_brightness_at_32_by_32():
    opened = open_image(image_bytes(1, (200, 150)))
    thumbnail = opened.pil.convert("L").resize((32, 32), PIL.Image.Resampling.LANCZOS)
    assert bytes.fromhex(image_hashes(opened).grey) == thumbnail.tobytes()
