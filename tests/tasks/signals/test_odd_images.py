"""Images of every mode and shape are measured as they are seen: nothing crashes, and nothing turns black unseen."""

import io

import numpy as np
import PIL.Image
import pytest

from tasks.images.decode import open_image
from tasks.providers import Providers
from tasks.signals.registry import signal_of
from tasks.signals.rules.image_layout import image_layout

SEEN = np.full((40, 60, 3), 200, np.uint8)
"""What each file below shows: light grey with a darker bar."""
SEEN[10:20] = 120


def saved(image, file_format):
    sink = io.BytesIO()
    image.save(sink, file_format, **{"quality": 95} if file_format == "JPEG" else {})
    return sink.getvalue()


def in_mode(mode):
    image = PIL.Image.fromarray(SEEN)
    if mode == "I;16":
        return PIL.Image.fromarray(SEEN[..., 0].astype(np.uint16) * 257)
    if mode == "RGBA":
        clear = np.dstack([SEEN, np.full(SEEN.shape[:2], 255, np.uint8)])
        clear[30:] = 0  # nothing at all: white paper
        return PIL.Image.fromarray(clear)
    return image.quantize(16) if mode == "P" else image.convert(mode)


@pytest.mark.parametrize(
    ("mode", "file_format"),
    [("CMYK", "JPEG"), ("L", "JPEG"), ("RGB", "JPEG"), ("L", "PNG"), ("P", "PNG"), ("LA", "PNG"), ("I;16", "PNG")],
)
def test_every_mode_shows_what_was_drawn(mode, file_format):
    opened = open_image(saved(in_mode(mode), file_format))
    assert np.abs(opened.rgb.astype(int) - SEEN).max() <= 12
    assert_measured(opened)


def test_alpha_over_nothing_is_white_and_no_black():
    opened = open_image(saved(in_mode("RGBA"), "PNG"))
    assert (opened.rgb[30:] == 255).all()
    assert (opened.rgb[:30] == SEEN[:30]).all()
    assert image_layout(opened).ink_fraction < 0.5


@pytest.mark.parametrize("size", [(1, 1), (1, 20_000), (20_000, 1), (2, 3)])
@pytest.mark.parametrize("file_format", ["PNG", "JPEG"])
def test_images_of_any_shape_are_measured(size, file_format):
    opened = open_image(saved(PIL.Image.new("RGB", size, (200, 200, 200)), file_format))
    assert (opened.width, opened.height) == size
    assert abs(int(opened.rgb.mean()) - 200) <= 1
    assert_measured(opened)


def assert_measured(opened):
    (hashes,) = signal_of("image_hash", Providers()).values([opened])
    assert len(bytes.fromhex(hashes.grey)) == 32 * 32
    assert np.frombuffer(bytes.fromhex(hashes.grey), np.uint8).max() > 100
    assert 0 <= image_layout(opened).flat_fraction <= 1
