"""Images as sent to services."""

import io

import numpy as np
import PIL.Image
import pytest

from tasks.images.decode import open_image
from tasks.providers.upload import BYTES_MAX, for_upload


def opened(image, file_format="PNG"):
    sink = io.BytesIO()
    image.save(sink, file_format)
    return open_image(sink.getvalue())


def test_small_image_is_sent_as_stored(drawn_image):
    small = drawn_image()
    sent = for_upload(small)
    assert (sent.content, sent.mime_type, sent.width, sent.height) == (small.encoded, "image/png", 96, 64)


@pytest.mark.parametrize(("width", "height", "sent"), [(3200, 800, (1600, 400)), (8, 4000, (3, 1600))])
def test_large_image_is_shrunk_to_1600_pixels(drawn_image, width, height, sent):
    small = for_upload(drawn_image(width=width, height=height))
    assert (small.width, small.height) == sent
    assert open_image(small.content).pil.size == sent


def test_heavy_image_is_sent_as_jpeg(noise):
    heavy = noise(0)
    assert len(heavy.encoded) > BYTES_MAX
    assert for_upload(heavy).mime_type == "image/jpeg"


def test_transparent_image_is_sent_on_white_as_we_see_it():
    layer = PIL.Image.new("RGBA", (64, 64), (0, 0, 0, 0))
    sent = open_image(for_upload(opened(layer)).content)
    assert np.all(sent.rgb > 250)


def test_cmyk_image_is_sent_as_rgb():
    sent = for_upload(opened(PIL.Image.new("CMYK", (64, 64), (10, 20, 30, 40)), "JPEG"))
    assert PIL.Image.open(io.BytesIO(sent.content)).mode == "RGB"
