"""What the embedded models say of real and of odd images and of codes, and how answers become values."""

import io
import random

import numpy as np
import PIL.Image
import PIL.ImageDraw
import PIL.ImageFont
import PIL.ImageOps
import pytest
import skimage.data
import zxingcpp

from benchmarks.privacy_spellings import drawn_zone
from benchmarks.spelling_values import zone
from tasks.images.decode import DecodedImage, from_pixels, open_image
from tasks.images.measures import codes_in, image_layout
from tasks.policy.redact import fill_boxes, grown
from tasks.providers import Providers
from tasks.providers.capabilities import Failed
from tasks.providers.embedded.screening import FACE_CONFIDENCE_MIN, CenterFace
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


def test_a_face_in_a_photograph_is_found_where_it_is(measured):
    (face,) = measured["faces", "astronaut"].faces
    x, y, width, height = face.box
    assert x < 224 < x + width
    assert y < 120 < y + height
    assert face.confidence == measured["faces", "astronaut"].confidence_max > 0.5


def test_no_face_is_found_in_a_cup_of_coffee(measured):
    assert measured["faces", "coffee"].confidence_max < 0.5


@pytest.mark.parametrize("shown", ["astronaut", "coffee", "page"])
def test_a_harmless_image_is_not_called_nsfw(measured, shown):
    assert measured["nsfw", shown].nsfw_probability < 0.2


def test_text_on_a_page_is_read(measured):
    page = measured["image_text", "page"]
    assert "OPEN" in page.text
    assert page.line_count >= 1
    assert 0 < page.area_fraction < 1


def test_no_text_is_read_in_an_image_without_any(measured):
    smooth = measured["image_text", "smooth"]
    assert (smooth.text, smooth.line_count, smooth.area_fraction) == ("", 0, 0.0)


def test_the_layout_tells_a_page_from_a_photograph(measured):
    page, photograph = measured["image_layout", "page"], measured["image_layout", "coffee"]
    assert page.flat_fraction > 0.8 > 0.4 > photograph.flat_fraction
    assert page.colour_count < 50 < photograph.colour_count
    assert page.saturation_mean < 0.01 < photograph.saturation_mean
    assert 0 < page.ink_fraction < 0.3


SHOWN = {
    "a quarter": lambda page: page.transpose(PIL.Image.Transpose.ROTATE_90),
    "three quarters": lambda page: page.transpose(PIL.Image.Transpose.ROTATE_270),
    "mirrored": PIL.ImageOps.mirror,
    "upside down in a mirror": PIL.ImageOps.flip,
    "faint": lambda page: page.point(lambda level: 255 - (255 - level) // 20),
}


@pytest.mark.parametrize(
    ("shown", "line_count"),
    [*((shown, 3) for shown in SHOWN), *((shown, few) for shown in SHOWN if "mirror" in shown for few in (1, 2))],
)
def test_text_is_read_where_it_stands_however_the_image_is_turned(embedded, shown, line_count):
    page = PIL.Image.new("RGB", (640, 400), "white")
    lines = ["jane.doe@example.com", "Jane Doe, 12 High Street", "All rooms are on the left"]
    for number, line in enumerate(lines[:line_count]):
        PIL.ImageDraw.Draw(page).text((20, 30 + 60 * number), line, fill="black", font_size=32)
    image = of(SHOWN[shown](page))
    (read,) = signal_of("image_text", embedded).values([image])
    assert "jane.doe@example.com" in read.text
    assert line_count == 1 or "High Street" in read.text
    left, top, wide, high = next(each.box for each in read.boxes if "@" in read.text[each.start : each.end])
    darkest = int(image.rgb.min()) + 8
    assert (image.rgb[top : top + high, left : left + wide] <= darkest).sum() > 2_000
    assert np.median(image.rgb[top : top + high, left : left + wide]) > darkest, "not the whole page"


@pytest.mark.parametrize("seed", range(6))
def test_a_line_of_fills_is_not_turned_over(embedded, seed):
    draw = random.Random(seed)
    image, top = drawn_zone(zone("TD1", draw), draw)
    (read,) = signal_of("image_text", embedded).values([image])
    lines = [read.text[each.start : each.end] for each in read.boxes if each.box[1] > top]
    assert len(lines) == 3 and not any(">" in line for line in lines)
    (found,) = signal_of("text_pii", embedded).values([read.text])
    (span,) = [each for each in found.spans if each.type == "passport"]
    assert read.text[span.start : span.end].split("\n") == lines


@pytest.mark.parametrize(("column", "value"), [("confidence_max", 0.7), ("area_fraction_max", 0.25)])
def test_faces_are_summed_up_by_the_largest_number(counting, column, value):
    (fact,) = signal_of("faces", counting).values([drawn_image(0, (40, 20))])
    assert getattr(fact, column) == pytest.approx(value)


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


@pytest.fixture(scope="module")
def faces(finder):
    """Faces that are found in a scene of 900 x 600 pixels."""
    image, _ = scene(900, 600, 60)
    (found,) = finder.find_faces([image])
    return found


def test_the_strongest_face_comes_first(faces):
    confidences = [face.confidence for face in faces]
    assert faces and confidences == sorted(confidences, reverse=True)


def test_every_face_is_at_least_as_sure_as_the_limit(faces):
    assert all(FACE_CONFIDENCE_MIN <= face.confidence <= 1 for face in faces)


def test_boxes_of_faces_are_within_the_image(faces):
    assert all(x >= 0 and y >= 0 and x + w <= 900 and y + h <= 600 for x, y, w, h in (face.box for face in faces))


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


CARD = "BEGIN:VCARD\nFN:Jane Doe\nTEL:+1 202 555 0142\nEMAIL:jane.doe@example.com\nEND:VCARD"
PERSONAL = {
    "QRCode": CARD,
    "Code128": "jane.doe@example.com",
    "PDF417": CARD,
    "DataMatrix": "https://u:pw@host.example/x",
}


def shown(kind: str, text: str, angle: float = 0):
    """A photograph-like image with a code on it."""
    made = zxingcpp.create_barcode(text, zxingcpp.barcode_format_from_str(kind))
    code = PIL.Image.fromarray(np.asarray(zxingcpp.write_barcode_to_image(made, scale=3)).squeeze())
    picture = PIL.Image.fromarray(drawn_image(4, (1100, 1100)).rgb)
    turned = code.convert("RGBA").rotate(angle, PIL.Image.Resampling.BICUBIC, expand=True)
    picture.paste(turned, (550 - turned.width // 2, 550 - turned.height // 2), turned)
    return from_pixels(np.asarray(picture))


@pytest.mark.parametrize("angle", [0, 90, 180, 20])
def test_personal_data_in_a_qr_code_is_found_at_any_turn(embedded, angle):
    (read,) = signal_of("image_text", embedded).values([shown("QRCode", CARD, angle)])
    assert CARD in read.text
    (found,) = signal_of("text_pii", embedded).values([read.text])
    assert {"email", "phone"} <= set(found.types)
    box = read.boxes[-1]
    assert read.text[box.start : box.end] == CARD and read.line_count == len(read.boxes) - 1


@pytest.mark.parametrize("kind", PERSONAL)
@pytest.mark.parametrize("angle", [0, 90])
def test_a_redacted_code_can_no_longer_be_read(kind, angle):
    image = shown(kind, PERSONAL[kind], angle)
    (code,) = codes_in(image)
    assert code.text == PERSONAL[kind]
    assert codes_in(fill_boxes(image, [grown(code.box, image.width, image.height)])) == []


def test_the_number_of_an_article_is_not_read():
    """Its digits would pass for a card's: 5901234123457 has a right check digit."""
    assert zxingcpp.read_barcodes(shown("EAN13", "5901234123457").rgb)
    assert codes_in(shown("EAN13", "5901234123457")) == []


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
