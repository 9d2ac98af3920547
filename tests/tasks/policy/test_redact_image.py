"""What a box held is in no byte of the redacted image."""

import io

import numpy as np
import PIL.Image
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.images.decode import DecodedImage, open_image
from tasks.images.rebuild import is_pixels_alone
from tasks.policy.redact import BLOCK, fill_boxes, grown
from tasks.storage.content_id import image_id
from tests.builders import drawn_image


def of_pixels(rgb: np.ndarray, file_format: str) -> DecodedImage:
    return DecodedImage(image_id(rgb), b"", file_format, rgb)


SIDES = st.integers(1, 90)


@settings(max_examples=40)
@given(file_format=st.sampled_from(["png", "jpeg"]), width=SIDES, height=SIDES, seed=st.integers(0, 9), data=st.data())
def test_images_that_differ_only_inside_the_boxes_become_the_same_bytes(file_format, width, height, seed, data):
    corners = st.tuples(st.integers(0, width), st.integers(0, height), SIDES, SIDES)
    boxes = [grown(box, width, height) for box in data.draw(st.lists(corners, min_size=1, max_size=3))]
    draw = np.random.default_rng(seed).integers
    one = draw(0, 256, (height, width, 3), np.uint8)
    other = one.copy()
    for left, top, right, bottom in boxes:
        other[top:bottom, left:right] = draw(0, 256, (bottom - top, right - left, 3), np.uint8)
    released = [fill_boxes(of_pixels(rgb, file_format), boxes) for rgb in (one, other)]
    assert released[0].encoded == released[1].encoded
    assert released[0].image_id == released[1].image_id


@given(
    box=st.tuples(st.integers(-20, 300), st.integers(-20, 300), st.integers(0, 200), st.integers(0, 200)),
    width=st.integers(1, 300),
    height=st.integers(1, 300),
)
def test_a_box_grows_by_its_margin_to_whole_blocks_and_stays_inside(box, width, height):
    x, y, wide, high = box
    margin = max(4, round(0.25 * min(wide, high)))
    for low, high_edge, first, length, limit in zip(
        grown(box, width, height)[:2],
        grown(box, width, height)[2:],
        (x, y),
        (wide, high),
        (width, height),
        strict=True,
    ):
        assert 0 <= low <= limit and 0 <= high_edge <= limit
        assert low <= max(0, first - margin) and high_edge >= min(limit, first + length + margin)
        assert low % BLOCK == 0 or low == limit
        assert high_edge % BLOCK == 0 or high_edge == limit


@pytest.mark.parametrize("file_format", ["PNG", "JPEG"])
def test_a_redacted_image_is_an_image_of_its_own_of_the_same_size_and_format(file_format):
    original = drawn_image(1, (96, 80))
    sink = io.BytesIO()
    PIL.Image.fromarray(original.rgb).save(sink, file_format)
    original = open_image(sink.getvalue())
    made = fill_boxes(original, [(16, 16, 48, 64)])
    assert made.image_id != original.image_id
    assert (made.width, made.height, made.format) == (96, 80, file_format.lower())
    assert open_image(made.encoded).image_id == made.image_id
    assert is_pixels_alone(made.encoded)
    assert made.rgb[16:64, 16:48].max() <= 4  # JPEG rounds black


def test_nothing_outside_the_boxes_changes():
    original = drawn_image(2, (64, 64))
    made = fill_boxes(original, [(16, 16, 32, 48)])
    outside = np.ones((64, 64), bool)
    outside[16:48, 16:32] = False
    assert (made.rgb[outside] == original.rgb[outside]).all()
