"""The DCT hash equals imagehash's bit for bit, and PDQ equals Meta's published algorithm, written out slowly here."""

import io

import imagehash
import numpy as np
import PIL.Image
import pytest
import skimage.data
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.fft import dctn

from tasks.measure import by_rule
from tasks.measure.perceptual_hash import hex_digits, pdq_bits, phash_bits
from tasks.pixels.pictures import open_picture
from tasks.pixels.resample import on_its_side, resized_grey
from tasks.pixels.resample_plan import Filter
from tests.builders import picture_bytes

PHOTOGRAPHS = ("astronaut", "camera", "chelsea", "coffee", "rocket", "page", "text", "coins")
RADIUS = 31
"""Meta's own: pictures within 31 of 256 bits count as the same."""


def sample(name):
    return PIL.Image.fromarray(getattr(skimage.data, name)()).convert("RGB")


def columns(image):
    return on_its_side(np.asarray(image.convert("RGB")))


def small(image):
    return resized_grey(np.asarray(image.convert("RGB")), (32, 32), Filter.LANCZOS)


def pdq(image):
    return pdq_bits(columns(image))


def apart(one, other):
    return int((pdq(one)[0] != pdq(other)[0]).sum())


def jpeg(image, quality):
    sink = io.BytesIO()
    image.save(sink, "JPEG", quality=quality)
    return sink.getvalue()


@pytest.mark.parametrize("name", PHOTOGRAPHS)
def test_dct_hash_of_a_photograph_is_imagehash_s(name):
    assert hex_digits(phash_bits(small(sample(name)))) == str(imagehash.phash(sample(name)))


@settings(max_examples=40)
@given(st.integers(0, 10**6), st.integers(1, 90), st.integers(1, 90))
def test_dct_hash_of_a_drawing_is_imagehash_s(seed, width, height):
    drawn = open_picture(picture_bytes(seed, (width, height))).pil
    assert hex_digits(phash_bits(small(drawn))) == str(imagehash.phash(drawn))


def test_dct_hash_of_flat_pictures_is_imagehash_s():
    for level in range(256):
        flat = PIL.Image.new("RGB", (64, 48), (level, level, level))
        assert hex_digits(phash_bits(small(flat))) == str(imagehash.phash(flat))


def reference_box(line, window):
    """The sliding mean of Meta's `downscaling.cpp`: accumulate, small windows, full windows, small windows."""
    half = (window + 2) // 2
    phases = [half - 1, window - half + 1, len(line) - window, half - 1]
    adds, drops, writes = (1, 1, 1, 0), (0, 0, 1, 1), (0, 1, 1, 1)
    means, total, count, ahead, behind = [], 0.0, 0, 0, 0
    for phase, repeats in enumerate(phases):
        for _ in range(repeats):
            if adds[phase]:
                total, count, ahead = total + line[ahead], count + 1, ahead + 1
            if drops[phase]:
                total, count, behind = total - line[behind], count - 1, behind + 1
            if writes[phase]:
                means.append(total / count)
    return np.array(means)


def reference_pdq(rgb):
    """256-bit hash as an integer: two passes of the box filter, 64 x 64 samples, 16 x 16 of the DCT, lower median."""
    plane = rgb.astype(np.float64) @ [0.299, 0.587, 0.114]
    height, width = plane.shape
    for _ in range(2):
        plane = np.apply_along_axis(reference_box, 1, plane, (width + 127) // 128)
        plane = np.apply_along_axis(reference_box, 0, plane, (height + 127) // 128)
    rows = [int((i + 0.5) * height / 64) for i in range(64)]
    columns = [int((j + 0.5) * width / 64) for j in range(64)]
    low = dctn(plane[rows][:, columns], norm="ortho")[1:17, 1:17]
    median = np.sort(low.ravel())[127]
    return sum(1 << (16 * i + j) for i in range(16) for j in range(16) if low[i, j] > median)


@pytest.mark.parametrize("name", ["astronaut", "coffee", "page", "text"])
def test_pdq_follows_the_published_algorithm(name):
    image = sample(name)
    ours = int(hex_digits(pdq(image)[0]), 16)
    assert (ours ^ reference_pdq(np.asarray(image))).bit_count() <= 2  # float32 here, float64 there


@pytest.mark.parametrize("name", PHOTOGRAPHS)
def test_half_of_the_pdq_bits_are_set(name):
    assert int(pdq(sample(name))[0].sum()) == 128


@pytest.mark.parametrize("name", ["astronaut", "chelsea", "coffee", "rocket"])
def test_pdq_survives_encoding_again_and_resizing(name):
    image = sample(name)
    smaller = image.resize((image.width * 2 // 3, image.height * 2 // 3))
    again = open_picture(jpeg(image, quality=40)).pil
    assert apart(image, again) <= RADIUS
    assert apart(image, smaller) <= RADIUS


def test_pdq_ignores_brightness():
    dim = sample("coffee").point(lambda level: level // 2)
    assert apart(dim, dim.point(lambda level: level + 100)) <= 4


def test_pdq_tells_photographs_apart():
    hashes = [pdq(sample(name))[0] for name in PHOTOGRAPHS]
    distances = [int((a != b).sum()) for n, a in enumerate(hashes) for b in hashes[:n]]
    assert min(distances) > 3 * RADIUS


def test_pdq_of_a_flat_picture_has_no_quality_and_of_a_photograph_all():
    assert pdq(PIL.Image.new("RGB", (300, 200), "navy"))[1] == 0
    assert pdq(sample("coffee"))[1] == 100


@settings(max_examples=30)
@given(st.integers(1, 300), st.integers(1, 300))
def test_pdq_takes_every_shape(width, height):
    bits, quality = pdq(PIL.Image.new("RGB", (width, height), "olive"))
    assert bits.shape == (256,)
    assert 0 <= quality <= 100


def test_the_signal_holds_both_hashes_as_hexadecimal_digits():
    (value,) = by_rule("image_hash").values([open_picture(picture_bytes(1, (200, 150)))])
    assert value.phash == str(imagehash.phash(open_picture(picture_bytes(1, (200, 150))).pil))
    assert len(bytes.fromhex(value.pdq)) == 32
