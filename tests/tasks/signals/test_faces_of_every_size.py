"""Faces are found small, turned and in large images; what only resembles one from afar is not."""

import numpy as np
import PIL.Image
import pytest
import skimage.data

from tasks.images.decode import DecodedImage
from tasks.providers.embedded.faces import CONFIDENCE_MIN, CenterFace

FACE = (150, 20, 310, 220)
"""The astronaut's head in skimage's image: left, top, right, bottom; the face itself is 120 pixels high."""
FACE_PX = 120


@pytest.fixture(scope="module")
def finder():
    return CenterFace()


def scene(width, height, face_px, place=(0.6, 0.4), quarter=0):
    """An image of a motorcycle with one head pasted in."""
    image = PIL.Image.fromarray(skimage.data.stereo_motorcycle()[0]).resize((width, height))
    head = PIL.Image.fromarray(skimage.data.astronaut()).crop(FACE).rotate(90 * quarter, expand=True)
    scale = face_px / FACE_PX
    head = head.resize((round(head.width * scale), round(head.height * scale)), PIL.Image.Resampling.LANCZOS)
    left, top = round(place[0] * width), round(place[1] * height)
    image.paste(head, (left, top))
    return DecodedImage("0" * 32, b"", "png", np.asarray(image)), (left, top, left + head.width, top + head.height)


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
    image = DecodedImage("0" * 32, b"", "png", np.asarray(PIL.Image.fromarray(pixels).convert("RGB")))
    assert all(face.confidence < 0.5 for face in finder.find_faces([image])[0])
