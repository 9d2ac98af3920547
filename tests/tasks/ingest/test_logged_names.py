"""The name under which the server logs an upload of a preset: the MD5 of the pixels that its own upload path leaves."""

import hashlib

import numpy as np
import PIL.Image
import pytest

from tasks.ingest.image_files import logged_name
from tests.builders import image_bytes

# What FastChat's `resize_image_and_return_image_in_bytes` made of each size when it was run.
SIZES = {
    (800, 600): (800, 600), (1024, 1024): (1024, 1024), (61, 7): (60, 7), (7, 61): (7, 60), (230, 7): (229, 7),
    (1500, 1024): (1023, 699), (1500, 1500): (1024, 1024), (2000, 100): (1020, 51), (3000, 2000): (1023, 682),
    (2000, 3000): (682, 1023),
}  # fmt: skip


def name_of(image: PIL.Image.Image) -> str:
    return hashlib.md5(image.tobytes()).hexdigest()


@pytest.mark.parametrize(("size", "logged"), SIZES.items(), ids=str)
def test_a_preset_of_any_size_is_named_as_the_server_scales_it(tmp_path, size, logged):
    file = tmp_path / "preset.jpg"
    file.write_bytes(image_bytes(1, size, "JPEG"))
    image = PIL.Image.open(file).convert("RGBA")
    assert logged_name(file) == name_of(image if size == logged else image.resize(logged))


def test_a_preset_that_is_still_a_large_png_is_scaled_once_more(tmp_path):
    noise = np.random.default_rng(1).integers(0, 256, (1024, 1024, 4), np.uint8)
    image, file = PIL.Image.fromarray(noise), tmp_path / "preset.png"
    image.save(file)  # 4.2 MB, of which the server keeps 5 / 1.5
    factor = (5 / 1.5 * 2**20 / file.stat().st_size) ** 0.5
    side = int(1024 * factor)
    assert side < 1024
    assert logged_name(file) == name_of(image.resize((side, side)))
