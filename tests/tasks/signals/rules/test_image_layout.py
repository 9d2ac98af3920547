"""Layout facts are the plain sums over the shrunk image, written out slowly here."""

import numpy as np
import PIL.Image
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.signals.rules.image_layout import image_layout
from tests.builders import drawn_image


def reference(drawn):
    """(flat fraction, colours, mean saturation, ink fraction), by numpy and Pillow alone."""
    pil = PIL.Image.fromarray(drawn.rgb)
    scale = min(1, 256 / max(pil.size))
    size = tuple(max(1, round(side * scale)) for side in pil.size)
    small = np.asarray(pil.resize(size, PIL.Image.Resampling.BILINEAR), np.int16).reshape(-1, 3)
    codes = (small >> 4) @ np.array([256, 16, 1])
    paper = np.median(small[codes == np.bincount(codes).argmax()], axis=0)
    away = np.abs(small - paper)
    thumbnail = np.asarray(pil.resize((64, 64), PIL.Image.Resampling.NEAREST), np.int16).reshape(-1, 3)
    return (
        (away.max(axis=1) <= 8).mean(),
        np.unique(thumbnail >> 4, axis=0).shape[0],
        (small.max(axis=1) - small.min(axis=1)).mean() / 255,
        (away.mean(axis=1) > 96).mean(),
    )


@settings(max_examples=40)
@given(st.integers(0, 10**6), st.integers(1, 500), st.integers(1, 300))
def test_layout_is_the_sum_over_the_shrunk_image(seed, width, height):
    drawn = drawn_image(seed, (width, height))
    measured = image_layout(drawn)
    facts = (measured.flat_fraction, measured.colour_count, measured.saturation_mean, measured.ink_fraction)
    assert facts == pytest.approx(reference(drawn), abs=1e-12)
