"""Images of every mode and shape are measured as they are seen: nothing crashes, and nothing turns black unseen."""

import io

import numpy as np
import PIL.Image
import PIL.ImageDraw
import PIL.ImageFont
import pytest

from tasks.images.decode import DecodedImage, open_image
from tasks.providers import Providers
from tasks.providers.capabilities import Failed
from tasks.signals.registry import image_signals, signal_of
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
    return image.quantize(16) if mode == "P" else image.convert(mode)


@pytest.mark.parametrize(
    ("mode", "file_format"),
    [("CMYK", "JPEG"), ("L", "JPEG"), ("RGB", "JPEG"), ("L", "PNG"), ("P", "PNG"), ("LA", "PNG"), ("I;16", "PNG")],
)
def test_every_mode_shows_what_was_drawn(mode, file_format):
    opened = open_image(saved(in_mode(mode), file_format))
    assert np.abs(opened.rgb.astype(int) - SEEN).max() <= 12
    assert_measured(opened)


def assert_measured(opened):
    (hashes,) = signal_of("image_hash", Providers()).values([opened])
    assert len(bytes.fromhex(hashes.grey)) == 32 * 32
    assert np.frombuffer(bytes.fromhex(hashes.grey), np.uint8).max() > 100
    assert 0 <= image_layout(opened).flat_fraction <= 1


def decoded(image):
    return DecodedImage("1" * 32, b"", "png", np.asarray(image))


@pytest.mark.parametrize("size", [(1, 20_000), (20_000, 1), (1, 1)])
@pytest.mark.parametrize("signal", image_signals(Providers()))
def test_every_signal_measures_them(embedded, signal, size):
    (fact,) = signal_of(signal, embedded).values([decoded(PIL.Image.new("RGB", size, (200, 90, 90)))])
    assert not isinstance(fact, Failed)


def test_the_text_of_a_long_strip_is_found_where_it_stands(embedded):
    strip = PIL.Image.new("RGB", (6_000, 40), "white")
    PIL.ImageDraw.Draw(strip).text((4_300, 4), "invoice 4711", "black", PIL.ImageFont.load_default(28))
    (read,) = embedded["image_text"].read([decoded(strip)])
    assert "4711" in read.text
    left, top, width, height = read.boxes[0].box
    assert 4_280 <= left <= 4_310
    assert left + width <= 4_600
    assert 0 <= top < top + height <= 40
