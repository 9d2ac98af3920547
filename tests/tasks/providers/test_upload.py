"""What is sent to services: images of a bounded size, and windows that cover a text and keep words whole."""

import io

import numpy as np
import PIL.Image
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tasks.images.decode import open_image
from tasks.providers.embedded.texts import windows
from tasks.providers.upload import STORED_BYTES_MAX, for_upload


def opened(image, file_format="PNG"):
    sink = io.BytesIO()
    image.save(sink, file_format)
    return open_image(sink.getvalue())


def test_images_are_sent_as_we_see_them_as_stored_if_small_else_shrunk_or_as_jpeg(drawn_image, noise):
    small = drawn_image()
    sent = for_upload(small)
    assert (sent.content, sent.mime_type, sent.width, sent.height) == (small.encoded, "image/png", 96, 64)
    heavy = noise(0)
    assert len(heavy.encoded) > STORED_BYTES_MAX
    assert for_upload(heavy).mime_type == "image/jpeg"
    layer = PIL.Image.new("RGBA", (64, 64), (0, 0, 0, 0))
    sent = open_image(for_upload(opened(layer)).content)
    assert np.all(sent.rgb > 250)
    sent = for_upload(opened(PIL.Image.new("CMYK", (64, 64), (10, 20, 30, 40)), "JPEG"))
    assert PIL.Image.open(io.BytesIO(sent.content)).mode == "RGB"


@pytest.mark.parametrize(("width", "height", "sent"), [(3200, 800, (1600, 400)), (8, 4000, (3, 1600))])
def test_large_image_is_shrunk_to_1600_pixels(drawn_image, width, height, sent):
    small = for_upload(drawn_image(width=width, height=height))
    assert (small.width, small.height) == sent
    assert open_image(small.content).pil.size == sent


TEXTS = st.text(st.sampled_from("ab \n中"), max_size=400)


@given(TEXTS, st.integers(5, 40), st.integers(0, 100))
@example("aaaaaaaa a   ", 5, 50)
def test_the_pieces_cover_the_text_and_none_is_longer_than_allowed(text, characters, share):
    overlap = share * ((characters - 1) // 2) // 100
    covered = 0
    for piece in windows(text, characters, overlap):
        assert len(piece) <= characters
        begins = range(max(0, covered - overlap), covered + 2)
        starts = [n for n in begins if text.startswith(piece, n) and not text[covered:n].strip()]
        assert starts
        covered = max(covered, starts[-1] + len(piece))
    assert covered == len(text)


def test_words_are_not_cut_and_what_stands_across_a_cut_is_seen_whole():
    text = "assess the class of assets\nand the assistant's assumptions " * 20
    assert {word for piece in windows(text, 50, 20) for word in piece.split()} == set(text.split())
    text = "word " * 40
    for place in range(0, len(text), 5):
        planted = text[:place] + "kill him now " + text[place:]
        assert any("kill him now" in piece for piece in windows(planted, 60, 25))
