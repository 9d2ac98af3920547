"""What a lossless crop left in the last blocks of a JPEG is in no stored file; other JPEGs stay as they are."""

import io
import re
import string
from collections.abc import Callable
from functools import partial

import cv2
import numpy as np
import PIL.Image
import PIL.ImageDraw
import PIL.ImageFont
import pytest
from PIL.JpegImagePlugin import JpegImageFile

from tasks.images.decode import open_image
from tasks.images.rebuild import is_pixels_alone

SIZE = (176, 96)
LEGIBLE = 32
"""Levels of 255 by which something cut off differs from the edge, if it can be seen."""
_FRAME = re.compile(rb"\xff[\xc0-\xc2]\0[\x0b\x11\x14]\x08")
_OPENCV = {kind: getattr(cv2, f"IMWRITE_JPEG_SAMPLING_FACTOR_{kind}") for kind in ("411", "420", "422", "440", "444")}


def _text(rng: np.random.Generator, size: tuple[int, int] = SIZE, contrast: float = 1) -> PIL.Image.Image:
    """Lines of text all over an image, dark on light or light on dark."""
    paper = int(rng.choice([255, 230, 128, 20]))
    ink = paper - contrast * paper if paper > 100 else paper + contrast * (255 - paper)
    drawn = PIL.Image.new("RGB", size, (paper,) * 3)
    draw, high = PIL.ImageDraw.Draw(drawn), int(rng.integers(10, 24))
    for top in range(0, size[1], high):
        words = "".join(rng.choice([*string.ascii_letters, *string.digits, " "], 60))
        draw.text((-3, top), words, (int(ink),) * 3, PIL.ImageFont.load_default(high))
    return drawn


def _photo(rng: np.random.Generator, size: tuple[int, int]) -> PIL.Image.Image:
    """Smooth areas with grain."""
    coarse = PIL.Image.fromarray(rng.integers(0, 256, (4, 5, 3), np.uint8))
    smooth = np.asarray(coarse.resize(size, PIL.Image.Resampling.BICUBIC))
    return PIL.Image.fromarray(np.clip(smooth + rng.normal(0, 8, smooth.shape), 0, 255).astype(np.uint8))


def _encoder(rng: np.random.Generator, quality: int) -> Callable[[PIL.Image.Image], bytes]:
    """One of the encoders that are installed, with one of its kinds of JPEG."""
    if rng.random() < 0.3:
        sampling = [cv2.IMWRITE_JPEG_SAMPLING_FACTOR, _OPENCV[str(rng.choice(list(_OPENCV)))]]
        options = [cv2.IMWRITE_JPEG_QUALITY, quality, *sampling]
        return lambda drawn: cv2.imencode(".jpg", np.asarray(drawn), options)[1].tobytes()
    kinds = [{}, {"progressive": True}, {"optimize": True}, {"restart_marker_blocks": 3}]
    mode, options = rng.choice(["RGB", "RGB", "RGB", "L", "CMYK"]), kinds[rng.integers(4)]
    subsampling = 0 if mode == "CMYK" else int(rng.integers(3))
    return lambda drawn: _saved(drawn.convert(str(mode)), quality=quality, subsampling=subsampling, **options)


def _saved(drawn: PIL.Image.Image, **options) -> bytes:
    sink = io.BytesIO()
    drawn.save(sink, "JPEG", **options)
    return sink.getvalue()


def _grey(content: bytes) -> np.ndarray:
    return np.asarray(PIL.Image.open(io.BytesIO(content)).convert("L"), np.int16)


def _resized(content: bytes, width: int, height: int) -> bytes:
    """The same file with another size in its header."""
    at = _FRAME.search(content).end()
    return content[:at] + height.to_bytes(2, "big") + width.to_bytes(2, "big") + content[at + 4 :]


def _cropped(encode: Callable[[PIL.Image.Image], bytes], drawn: PIL.Image.Image, width: int, height: int) -> bytes:
    """What a lossless crop makes of the encoded drawing: its units of blocks, as one scan, of another size."""
    layers = JpegImageFile(io.BytesIO(encode(drawn))).layer
    unit = [8 if len(layers) == 1 else 8 * max(layer[at] for layer in layers) for at in (1, 2)]
    right, low = (
        min(whole, -(-side // by) * by) for side, by, whole in zip((width, height), unit, drawn.size, strict=True)
    )
    return _resized(open_image(encode(drawn.crop((0, 0, right, low)))).encoded, width, height)


def _cut_off(content: bytes, width: int, height: int) -> int:
    """Levels of 255 by which the rows and columns of the last blocks that are cut off differ from the edge."""
    seen = _grey(content)[: -(-height // 8) * 8, : -(-width // 8) * 8]
    below = np.abs(seen[height:, :width] - seen[height - 1, :width])
    right = np.abs(seen[:height, width:] - seen[:height, width - 1 : width])
    return max(below.max(initial=0), right.max(initial=0))


@pytest.mark.parametrize("seed", range(12))
def test_nothing_that_a_lossless_crop_cut_off_is_stored(seed):
    rng, found = np.random.default_rng(seed), 0
    for _ in range(12):
        drawn, encode = _text(rng, contrast=rng.uniform(0.3, 1)), _encoder(rng, int(rng.integers(60, 101)))
        whole = encode(drawn)
        width, height = (side - int(rng.integers(16)) for side in SIZE)
        cut = _cropped(encode, drawn, width, height)
        stored = open_image(cut)
        assert np.array_equal(stored.rgb, np.asarray(PIL.Image.open(io.BytesIO(cut)).convert("RGB")))
        assert is_pixels_alone(stored.encoded)
        if _cut_off(whole, width, height) >= LEGIBLE:
            found += 1
            assert stored.format == "png" and not is_pixels_alone(cut)
    assert found >= 6


@pytest.mark.parametrize("lines", range(1, 16))
def test_a_line_of_text_that_was_cut_off_is_not_legible_when_the_header_is_set_back(lines):
    rng = np.random.default_rng(lines)
    whole, (width, height) = _saved(_text(rng), quality=90), SIZE
    cut = _resized(open_image(whole).encoded, width, height - lines)
    hidden = _grey(whole)[height - lines :]

    def shown(content):
        """Correlation of the rows below the edge with those that were cut off."""
        below = _grey(_resized(content, width, height))[height - lines :]
        return np.corrcoef(below.ravel(), hidden.ravel())[0, 1]

    assert np.ptp(hidden) > LEGIBLE and shown(cut) > 0.99
    assert not is_pixels_alone(cut)
    stored = open_image(cut)
    assert stored.format == "png" or (lines == 8 and shown(stored.encoded) < 0.5)  # 8: no block is cut in two
    assert is_pixels_alone(stored.encoded) and stored.height == height - lines


def test_blocks_that_lie_wholly_outside_are_flat():
    drawn = _text(np.random.default_rng(0), (64, 64))  # 4:2:0: two rows of blocks a unit, grey colours
    cut = _resized(_saved(drawn), 56, 56)
    assert _grey(_resized(cut, 64, 64))[56:].std() > LEGIBLE
    stored = open_image(_cropped(_saved, drawn, 56, 56))
    assert stored.format == "jpeg"
    outside = _grey(_resized(stored.encoded, 64, 64))
    for block in (*np.split(outside[56:, :56], 7, axis=1), *np.split(outside[:56, 56:], 7)):
        assert np.ptp(block) <= 1


def test_a_coarse_table_does_not_let_anything_pass():
    drawn, coarse = _text(np.random.default_rng(3)), partial(_saved, qtables=[[255] * 64], subsampling=0)
    assert _cut_off(coarse(drawn), SIZE[0], SIZE[1] - 4) >= LEGIBLE
    assert not is_pixels_alone(_cropped(coarse, drawn, SIZE[0], SIZE[1] - 4))


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("drawing", [_text, _photo])
def test_an_ordinary_jpeg_of_any_size_stays_the_jpeg_it_is(seed, drawing):
    rng = np.random.default_rng(seed)
    for _ in range(12):
        size = int(rng.integers(1, 120)), int(rng.integers(1, 120))
        content = _encoder(rng, int(rng.integers(75, 101)))(drawing(rng, size))
        stored = open_image(content)
        assert stored.format == "jpeg" and is_pixels_alone(stored.encoded)
        assert np.array_equal(stored.rgb, np.asarray(PIL.Image.open(io.BytesIO(content)).convert("RGB")))
