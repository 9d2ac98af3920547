"""What the embedded models say of real images, and how answers become values; faces are found small and turned."""

import numpy as np
import PIL.Image
import PIL.ImageDraw
import PIL.ImageOps
import pytest
import skimage.data

from tasks.images.decode import DecodedImage
from tasks.providers.embedded.faces import CONFIDENCE_MIN, CenterFace
from tasks.signals.registry import image_signals, signal_of
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


SHOWN = {
    "a quarter": lambda page: page.transpose(PIL.Image.Transpose.ROTATE_90),
    "three quarters": lambda page: page.transpose(PIL.Image.Transpose.ROTATE_270),
    "mirrored": PIL.ImageOps.mirror,
    "upside down in a mirror": PIL.ImageOps.flip,
    "faint": lambda page: page.point(lambda level: 255 - (255 - level) // 20),
}


@pytest.mark.parametrize("shown", SHOWN)
def test_text_is_read_and_located_however_the_image_is_turned(embedded, shown):
    page = PIL.Image.new("RGB", (640, 400), "white")
    lines = ["Jane Doe, 12 High Street", "jane.doe@example.com", "All rooms are on the left"]
    for number, line in enumerate(lines):
        PIL.ImageDraw.Draw(page).text((20, 30 + 60 * number), line, fill="black", font_size=32)
    image = of(SHOWN[shown](page))
    (read,) = signal_of("image_text", embedded).values([image])
    assert "jane.doe@example.com" in read.text and "High Street" in read.text
    left, top, wide, high = next(each.box for each in read.boxes if "@" in read.text[each.start : each.end])
    darkest = int(image.rgb.min()) + 8
    assert (image.rgb[top : top + high, left : left + wide] <= darkest).sum() > 2_000
    assert np.median(image.rgb[top : top + high, left : left + wide]) > darkest, "not the whole page"


def test_layout_tells_a_page_from_a_photograph(measured):
    page, photograph = measured["image_layout", "page"], measured["image_layout", "coffee"]
    assert page.flat_fraction > 0.8 > 0.4 > photograph.flat_fraction
    assert page.colour_count < 50 < photograph.colour_count
    assert page.saturation_mean < 0.01 < photograph.saturation_mean
    assert 0 < page.ink_fraction < 0.3


def test_the_strongest_face_and_the_largest_are_summed_up(counting):
    (value,) = signal_of("faces", counting).values([drawn_image(0, (40, 20))])
    assert value.confidence_max == pytest.approx(0.7)
    assert value.area_fraction_max == pytest.approx(0.25)


FACE = (150, 20, 310, 220)
"""The astronaut's head in skimage's image: left, top, right, bottom; the face itself is 120 pixels high."""
FACE_PX = 120


@pytest.fixture(scope="module")
def finder():
    return CenterFace()


def test_weights_are_constants_that_the_runtime_can_fold(finder):
    assert finder._session.get_overridable_initializers() == []


def scene(width, height, face_px, place=(0.6, 0.4), quarter=0):
    """An image of a motorcycle with one head pasted in."""
    image = PIL.Image.fromarray(skimage.data.stereo_motorcycle()[0]).resize((width, height))
    head = PIL.Image.fromarray(skimage.data.astronaut()).crop(FACE).rotate(90 * quarter, expand=True)
    scale = face_px / FACE_PX
    head = head.resize((round(head.width * scale), round(head.height * scale)), PIL.Image.Resampling.LANCZOS)
    left, top = round(place[0] * width), round(place[1] * height)
    image.paste(head, (left, top))
    return of(image), (left, top, left + head.width, top + head.height)


def inside(face, area):
    x, y, width, height = face.box
    return area[0] <= x + width / 2 <= area[2] and area[1] <= y + height / 2 <= area[3]


@pytest.mark.parametrize("width", [640, 1280, 1920])
def test_a_face_of_32_pixels_is_found_in_an_image_of_any_usual_size(finder, width):
    image, area = scene(width, width * 2 // 3, 34)
    (found,) = finder.find_faces([image])
    assert max((face.confidence for face in found if inside(face, area)), default=0) >= 0.5


@pytest.mark.parametrize("quarter", [1, 2, 3])
def test_a_turned_face_is_found(finder, quarter):
    image, area = scene(900, 600, 60, quarter=quarter)
    (found,) = finder.find_faces([image])
    assert max((face.confidence for face in found if inside(face, area)), default=0) >= 0.5


def test_boxes_are_strongest_first_and_within_the_image(finder):
    image, _ = scene(900, 600, 60)
    (found,) = finder.find_faces([image])
    confidences = [face.confidence for face in found]
    assert found and confidences == sorted(confidences, reverse=True)
    assert all(CONFIDENCE_MIN <= confidence <= 1 for confidence in confidences)
    assert all(x >= 0 and y >= 0 and x + w <= 900 and y + h <= 600 for x, y, w, h in (face.box for face in found))


@pytest.mark.parametrize("name", ["coins", "coffee", "chelsea", "moon", "retina", "rocket", "horse"])
def test_coins_cups_cats_and_moons_have_no_face(finder, name):
    pixels = getattr(skimage.data, name)()
    pixels = pixels.astype(np.uint8) * 255 if pixels.dtype == bool else pixels
    image = of(PIL.Image.fromarray(pixels))
    assert all(face.confidence < 0.5 for face in finder.find_faces([image])[0])


@pytest.mark.parametrize("size", [40, 100])
def test_the_face_of_a_cartoon_is_no_face(finder, size):
    """Flat colours and black lines; such faces would be covered in a redacted image."""
    canvas = PIL.Image.new("RGB", (640, 480), "#cfe8e0")
    draw, (x, y) = PIL.ImageDraw.Draw(canvas), (320, 240)
    draw.ellipse((x - size, y - 1.2 * size, x + size, y + 1.2 * size), "#f2c6a0", "black", 5)
    draw.pieslice((x - size, y - 1.4 * size, x + size, y + 0.5 * size), 180, 360, "#3b2314", "black", 5)
    for eye in (x - 0.4 * size, x + 0.4 * size):
        draw.ellipse((eye - 20, y - 26, eye + 20, y + 14), "white", "black", 4)
        draw.ellipse((eye - 7, y - 12, eye + 7, y + 4), "black")
    draw.arc((x - 30, y + 20, x + 30, y + 60), 20, 160, "black", 5)
    assert finder.find_faces([of(canvas)]) == [[]]
