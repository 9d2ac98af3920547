"""Images that are thousands of times as long as wide have every fact, and their text is read where it stands."""

import numpy as np
import PIL.Image
import PIL.ImageDraw
import PIL.ImageFont
import pytest

from tasks.images.decode import DecodedImage
from tasks.providers import Providers
from tasks.providers.capabilities import Failed
from tasks.signals.registry import image_signals, signal_of


def of(image):
    return DecodedImage("1" * 32, b"", "png", np.asarray(image))


@pytest.fixture(scope="module")
def embedded():
    return Providers()


@pytest.mark.parametrize("size", [(1, 20_000), (20_000, 1), (1, 1)])
@pytest.mark.parametrize("signal", image_signals(Providers()))
def test_every_signal_measures_them(embedded, signal, size):
    (fact,) = signal_of(signal, embedded).values([of(PIL.Image.new("RGB", size, (200, 90, 90)))])
    assert not isinstance(fact, Failed)


def test_the_text_of_a_long_strip_is_found_where_it_stands(embedded):
    strip = PIL.Image.new("RGB", (6_000, 40), "white")
    PIL.ImageDraw.Draw(strip).text((4_300, 4), "invoice 4711", "black", PIL.ImageFont.load_default(28))
    (read,) = embedded["image_text"].read([of(strip)])
    assert "4711" in read.text
    left, top, width, height = read.boxes[0].box
    assert 4_280 <= left <= 4_310
    assert left + width <= 4_600
    assert 0 <= top < top + height <= 40
