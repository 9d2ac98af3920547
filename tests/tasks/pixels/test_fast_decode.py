"""JPEG is decoded by libjpeg-turbo itself, without Pillow around it, to exactly the pixels that Pillow gives."""

import io
import os
from pathlib import Path

import cv2
import numpy as np
import PIL.Image
import pytest

from tasks.pixels import pictures
from tasks.pixels.pictures import open_picture
from tests.builders import picture_bytes

BESIDE = Path(__file__).parents[4] / "shared" / "data"
DATA = Path(os.environ.get("CURATE_TEST_DATA", BESIDE))
SIZES = [(1, 1), (7, 5), (8, 8), (16, 17), (33, 31), (250, 131)]
SUBSAMPLINGS = {
    "411": cv2.IMWRITE_JPEG_SAMPLING_FACTOR_411,
    "420": cv2.IMWRITE_JPEG_SAMPLING_FACTOR_420,
    "422": cv2.IMWRITE_JPEG_SAMPLING_FACTOR_422,
    "440": cv2.IMWRITE_JPEG_SAMPLING_FACTOR_440,
    "444": cv2.IMWRITE_JPEG_SAMPLING_FACTOR_444,
}


def drawn(size):
    """Smooth colours with noise on them."""
    width, height = size
    x, y = np.meshgrid(np.linspace(0, 4, width), np.linspace(0, 3, height))
    smooth = np.stack([np.sin(x), np.cos(x + y), np.sin(y)], axis=-1) * 110 + 128
    return (smooth + np.random.default_rng(0).normal(0, 12, (height, width, 3))).clip(0, 255).astype(np.uint8)


def with_cv2(size, *parameters):
    return cv2.imencode(".jpg", drawn(size), parameters)[1].tobytes()


def with_pillow(size, mode="RGB", **options):
    sink = io.BytesIO()
    PIL.Image.fromarray(drawn(size)).convert(mode).save(sink, "JPEG", **options)
    return sink.getvalue()


def by_pillow(content):
    return np.asarray(PIL.Image.open(io.BytesIO(content)).convert("RGB"))


def assert_fast_and_equal(content):
    fast = pictures._fast_jpeg(content)
    assert fast is not None
    assert np.array_equal(fast, by_pillow(content))


@pytest.mark.parametrize("subsampling", SUBSAMPLINGS)
@pytest.mark.parametrize("progressive", [0, 1])
@pytest.mark.parametrize("restart_interval", [0, 3])
def test_every_subsampling_and_scan_gives_pillow_s_pixels(subsampling, progressive, restart_interval):
    for size in SIZES:
        for quality in (1, 30, 75, 100):
            assert_fast_and_equal(
                with_cv2(
                    size,
                    *(cv2.IMWRITE_JPEG_QUALITY, quality, cv2.IMWRITE_JPEG_PROGRESSIVE, progressive),
                    *(cv2.IMWRITE_JPEG_RST_INTERVAL, restart_interval),
                    *(cv2.IMWRITE_JPEG_SAMPLING_FACTOR, SUBSAMPLINGS[subsampling]),
                )
            )


@pytest.mark.parametrize(
    ("mode", "options"),
    [
        ("L", {}),
        ("L", {"progressive": True}),
        ("RGB", {"keep_rgb": True, "subsampling": 0}),
        ("RGB", {"optimize": True, "quality": 95}),
    ],
    ids=str,
)
def test_grey_and_rgb_jpeg_give_pillow_s_pixels(mode, options):
    for size in SIZES:
        assert_fast_and_equal(with_pillow(size, mode, **options))


def test_cmyk_is_left_to_pillow_and_seen_in_its_colours():
    content = with_pillow((33, 31), "CMYK", quality=95)
    assert pictures._fast_jpeg(content) is None
    seen = open_picture(content).rgb
    assert np.array_equal(seen, by_pillow(content))
    assert np.abs(seen.astype(int) - drawn((33, 31))).mean() < 12


@pytest.mark.parametrize("progressive", [False, True])
def test_what_is_cut_or_damaged_is_left_to_pillow(progressive):
    whole = with_pillow((250, 131), progressive=progressive, quality=60)
    start = whole.index(b"\xff\xda") + 20
    for cut in (len(whole) - 1, len(whole) - 2, len(whole) * 3 // 4, start):
        assert pictures._fast_jpeg(whole[:cut]) is None
        assert pictures._fast_jpeg(whole[:cut] + b"\xff\xd9") is None or cut >= len(whole) - 2
    assert pictures._fast_jpeg(b"") is None
    assert pictures._fast_jpeg(picture_bytes(1)) is None


@pytest.mark.skipif(not DATA.is_dir(), reason="no sample data beside the repository")
def test_every_sample_picture_is_the_same_as_pillow_s():
    files = [file for file in sorted(DATA.rglob("*.jp*g")) if file.stat().st_size < 300_000]
    decoded = [(content, pictures._fast_jpeg(content)) for content in (file.read_bytes() for file in files)]
    assert all(np.array_equal(fast, by_pillow(content)) for content, fast in decoded if fast is not None)
    assert sum(fast is not None for _, fast in decoded) > 0.95 * len(files)
