"""An image's identity is what one sees: pixels upright, transparency on white, whatever the file around them."""

import io

import numpy as np
import PIL.Image
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tasks.images.decode import DecodedImage, decode_stored, open_image
from tasks.storage.content_id import image_id
from tests.builders import drawn_image

PIXELS = np.array(drawn_image(3, (45, 31)).rgb)
PALETTED = PIL.Image.fromarray(PIXELS).quantize(16)
T = PIL.Image.Transpose
FROM_UPRIGHT = {
    1: [],
    2: [T.FLIP_LEFT_RIGHT],
    3: [T.ROTATE_180],
    4: [T.FLIP_TOP_BOTTOM],
    5: [T.FLIP_LEFT_RIGHT, T.ROTATE_90],
    6: [T.ROTATE_90],
    7: [T.FLIP_LEFT_RIGHT, T.ROTATE_270],
    8: [T.ROTATE_270],
}
"""EXIF orientation -> how an upright scene is stored under it (EXIF 2.3, tag 274)."""


def _saved(image: PIL.Image.Image, file_format: str, **options) -> bytes:
    sink = io.BytesIO()
    image.save(sink, file_format, **options)
    return sink.getvalue()


def _open(pixels: np.ndarray, file_format: str = "PNG", **options) -> DecodedImage:
    return open_image(_saved(PIL.Image.fromarray(pixels), file_format, **options))


@pytest.mark.parametrize(
    ("file_format", "mode", "options"),
    [
        ("PNG", "RGB", {}),
        ("PNG", "RGB", {"compress_level": 0}),
        ("PNG", "RGBA", {}),
        ("PNG", "P", {}),
        ("BMP", "RGB", {}),
        ("BMP", "P", {}),
        ("GIF", "P", {}),
        ("WEBP", "RGB", {"lossless": True}),
        ("WEBP", "RGBA", {"lossless": True}),
    ],
    ids=str,
)
def test_the_same_pixels_in_another_container_are_the_same_image(file_format, mode, options):
    opened = open_image(_saved(PALETTED.convert(mode), file_format, **options))
    assert opened.image_id == image_id(np.asarray(PALETTED.convert("RGB")))


def test_other_pixels_are_another_image():
    other = PIXELS.copy()
    other[-1, -1, -1] ^= 1
    assert _open(other).image_id != _open(PIXELS).image_id


@pytest.mark.parametrize("orientation", FROM_UPRIGHT)
@pytest.mark.parametrize("file_format", ["PNG", "WEBP"])
def test_an_image_is_the_same_however_the_camera_was_held(orientation, file_format):
    stored = PIL.Image.fromarray(PIXELS)
    for step in FROM_UPRIGHT[orientation]:
        stored = stored.transpose(step)
    exif = PIL.Image.Exif()
    exif[0x0112] = orientation
    opened = open_image(_saved(stored, file_format, exif=exif, **{"lossless": True} if file_format == "WEBP" else {}))
    assert opened.image_id == image_id(PIXELS)
    assert np.array_equal(decode_stored(opened.encoded, opened.format, opened.image_id).rgb, PIXELS)


def test_a_sideways_jpeg_is_stored_upright_with_no_further_loss():
    exif = PIL.Image.Exif()
    exif[0x0112] = 6
    content = _saved(PIL.Image.fromarray(PIXELS), "JPEG", exif=exif)
    upright = np.rot90(np.asarray(PIL.Image.open(io.BytesIO(content))), -1)
    opened = open_image(content)
    assert (opened.width, opened.height) == (31, 45)
    assert opened.image_id == image_id(np.ascontiguousarray(upright))


@pytest.mark.parametrize("orientation", [0, 9, 65535])
def test_an_orientation_that_does_not_exist_is_upright(orientation):
    exif = PIL.Image.Exif()
    exif[0x0112] = orientation
    assert _open(PIXELS, exif=exif).image_id == image_id(PIXELS)


def test_transparency_is_seen_on_white():
    layer = np.dstack([PIXELS, np.full(PIXELS.shape[:2], 255, np.uint8)])
    layer[:10, :, 3] = 0
    seen = PIXELS.copy()
    seen[:10] = 255
    for file_format, options in (("PNG", {}), ("WEBP", {"lossless": True})):
        assert open_image(_saved(PIL.Image.fromarray(layer), file_format, **options)).image_id == image_id(seen)


def test_colours_under_full_transparency_make_no_other_image():
    clear = np.zeros((8, 8, 4), np.uint8)
    coloured = clear.copy()
    coloured[..., 0] = 200
    first, second = (open_image(_saved(PIL.Image.fromarray(each), "PNG")) for each in (clear, coloured))
    assert first.image_id == second.image_id == image_id(np.full((8, 8, 3), 255, np.uint8))


def test_sixteen_bit_grey_is_the_same_image_as_eight_bit_grey():
    grey = PIXELS[..., 0]
    wide = PIL.Image.fromarray(grey.astype(np.uint16) * 257)
    assert open_image(_saved(wide, "PNG")).image_id == image_id(np.dstack([grey] * 3))


@settings(max_examples=60)
@given(
    pixels=hnp.arrays(np.uint8, st.tuples(st.integers(1, 20), st.integers(1, 20), st.just(3))),
    file_format=st.sampled_from(["PNG", "JPEG", "WEBP", "GIF", "BMP"]),
)
def test_what_is_stored_decodes_to_exactly_what_was_seen(pixels, file_format):
    opened = _open(pixels, file_format)
    again = decode_stored(opened.encoded, opened.format, opened.image_id)
    assert opened.format in ("png", "jpeg")
    assert np.array_equal(again.rgb, opened.rgb)
    assert image_id(again.rgb) == opened.image_id
    assert (opened.height, opened.width) == pixels.shape[:2]
    assert np.array_equal(np.asarray(opened.pil), opened.rgb)


@pytest.mark.parametrize(
    ("size", "side_max", "fitted"),
    [((100, 50), 10, (10, 5)), ((50, 100), 10, (5, 10)), ((8, 6), 10, (8, 6)), ((400, 1), 10, (10, 1))],
)
def test_fitting_keeps_the_shape_and_never_enlarges(size, side_max, fitted):
    assert drawn_image(0, size).fitted(side_max).shape == (*fitted[::-1], 3)
