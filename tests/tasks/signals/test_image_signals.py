"""Image signals: what the embedded models say of real images, and how answers become facts."""

import numpy as np
import PIL.Image
import PIL.ImageDraw
import pytest
import skimage.data

from tasks.images.decode import DecodedImage
from tasks.signals.registry import image_signals, signal_of
from tasks.signals.rules.image_layout import image_layout
from tests.builders import drawn_image


def of(image):
    rgb = np.asarray(image.convert("RGB"))
    return DecodedImage("0" * 32, b"", "png", rgb)


@pytest.fixture(scope="module")
def measured(embedded):
    """(signal, image) -> value."""
    page = PIL.Image.new("RGB", (480, 120), "white")
    PIL.ImageDraw.Draw(page).text((20, 30), "OPEN DAILY", fill="black", font_size=48)
    images = {
        "astronaut": of(PIL.Image.fromarray(skimage.data.astronaut())),
        "coffee": of(PIL.Image.fromarray(skimage.data.coffee())),
        "page": of(page),
        "smooth": drawn_image(1, (200, 150)),
    }
    values = {name: signal.values(list(images.values())) for name, signal in image_signals(embedded).items()}
    return {(name, shown): value for name, of in values.items() for shown, value in zip(images, of, strict=True)}


def test_a_face_is_found_where_it_is(measured):
    (face,) = measured["faces", "astronaut"].faces
    x, y, width, height = face.box
    assert x < 224 < x + width
    assert y < 120 < y + height
    assert face.confidence == measured["faces", "astronaut"].confidence_max > 0.5


def test_there_is_no_face_in_a_cup(measured):
    assert measured["faces", "coffee"].confidence_max < 0.5


def test_ordinary_photographs_are_no_pornography(measured):
    assert all(measured["nsfw", shown].nsfw_probability < 0.2 for shown in ("astronaut", "coffee", "page"))


def test_text_is_read_where_there_is_some(measured):
    page, smooth = measured["image_text", "page"], measured["image_text", "smooth"]
    assert "OPEN" in page.text
    assert page.line_count >= 1
    assert 0 < page.area_fraction < 1
    assert (smooth.text, smooth.line_count, smooth.area_fraction) == ("", 0, 0.0)


def test_layout_tells_a_page_from_a_photograph(measured):
    page, photograph = measured["image_layout", "page"], measured["image_layout", "coffee"]
    assert page.flat_fraction > 0.8 > 0.4 > photograph.flat_fraction
    assert page.colour_count < 50 < photograph.colour_count
    assert page.saturation_mean < 0.01 < photograph.saturation_mean
    assert 0 < page.ink_fraction < 0.3


@pytest.mark.parametrize("size", [(1, 1), (1, 400), (400, 1), (255, 257)])
def test_a_flat_image_is_flat_at_every_size(size):
    layout = image_layout(of(PIL.Image.new("RGB", size, "red")))
    assert (layout.flat_fraction, layout.colour_count, layout.saturation_mean, layout.ink_fraction) == (1, 1, 1, 0)


def test_the_strongest_face_and_the_largest_are_summed_up(counting):
    (value,) = signal_of("faces", counting).values([drawn_image(0, (40, 20))])
    assert value.confidence_max == pytest.approx(0.7)
    assert value.area_fraction_max == pytest.approx(0.25)


def test_no_face_is_zero_and_a_failure_is_not(counting, monkeypatch):
    monkeypatch.setitem(counting.fails, "faces", lambda seen: seen.width == 8)
    failed, found = signal_of("faces", counting).values([drawn_image(0, (8, 8)), drawn_image(1, (16, 16))])
    assert failed.reason == "over_quota"
    assert len(found.faces) == 1
