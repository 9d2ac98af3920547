"""Our resampling is Pillow's, byte for byte: whatever was measured on Pillow's pixels is measured on the same ones."""

import numpy as np
import PIL.Image
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tasks.resample import Filter, brightness, on_its_side, resized, resized_grey

SIDES = st.integers(1, 150)
PILLOW = {
    Filter.BILINEAR: PIL.Image.Resampling.BILINEAR,
    Filter.BICUBIC: PIL.Image.Resampling.BICUBIC,
    Filter.LANCZOS: PIL.Image.Resampling.LANCZOS,
}


def noise(width, height, seed=0):
    """Levels of 0 and 255 above all, where rounding overshoots."""
    generator = np.random.default_rng(seed)
    return (generator.integers(-200, 456, (height, width, 3)).clip(0, 255)).astype(np.uint8)


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(Filter), SIDES, SIDES, SIDES, SIDES, st.integers(0, 10**6))
@example(Filter.LANCZOS, 1, 1, 40, 40, 0)
@example(Filter.BICUBIC, 1, 150, 150, 1, 0)
def test_a_resized_picture_is_pillow_s(kernel, width, height, new_width, new_height, seed):
    rgb = noise(width, height, seed)
    pillow = PIL.Image.fromarray(rgb).resize((new_width, new_height), PILLOW[kernel])
    assert np.array_equal(resized(on_its_side(rgb), (new_width, new_height), kernel), np.asarray(pillow))


@settings(max_examples=60, deadline=None)
@given(SIDES, SIDES, st.integers(0, 10**6))
def test_the_small_brightness_of_a_picture_is_pillow_s(width, height, seed):
    rgb = noise(width, height, seed)
    grey = PIL.Image.fromarray(rgb).convert("L")
    ours = brightness(on_its_side(rgb))
    assert np.array_equal(ours.T, np.asarray(grey))
    small = grey.resize((32, 32), PIL.Image.Resampling.LANCZOS)
    assert np.array_equal(resized_grey(ours, (32, 32), Filter.LANCZOS), np.asarray(small))


@pytest.mark.parametrize("size", [(1, 20_000), (20_000, 1), (2031, 1523)])
@pytest.mark.parametrize("kernel", Filter)
def test_a_picture_of_any_size_is_made_as_pillow_makes_it(size, kernel):
    rgb = noise(*size)
    pillow = PIL.Image.fromarray(rgb).resize((224, 97), PILLOW[kernel])
    assert np.array_equal(resized(on_its_side(rgb), (224, 97), kernel), np.asarray(pillow))


@pytest.mark.parametrize("crop", [(0, 0, 60, 40), (7, 3, 20, 30), (59, 39, 1, 1)])
def test_a_part_of_a_resized_picture_is_that_part_of_the_whole(crop):
    left, top, width, height = crop
    columns = on_its_side(noise(200, 100))
    whole = resized(columns, (60, 40), Filter.BICUBIC)
    part = resized(columns, (60, 40), Filter.BICUBIC, crop)
    assert np.array_equal(part, whole[top : top + height, left : left + width])
