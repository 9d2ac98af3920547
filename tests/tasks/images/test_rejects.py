"""Files that are not one whole, still image: each is refused by name, and none stops the run."""

import io
import random
import struct
import time
import zlib

import PIL.Image
import pytest

from schemas.items.reject import RejectReason
from tasks.images.decode import SIDE_MAX, DecodedImage, ImageRejected, open_image
from tests.builders import image_bytes

EXIF = PIL.Image.Exif()
EXIF[0x0112] = 6
EXIF[0x010E] = "Baker Street 221B"
WHOLE = {
    "png": image_bytes(1),
    "jpeg": image_bytes(1, file_format="JPEG"),
    "progressive": image_bytes(1, file_format="JPEG", progressive=True),
    "webp": image_bytes(1, file_format="WEBP"),
    "gif": image_bytes(1, file_format="GIF"),
    "bmp": image_bytes(1, file_format="BMP"),
    "sideways jpeg": image_bytes(1, file_format="JPEG", exif=EXIF),
    "sideways png": image_bytes(1, exif=EXIF),
}


def _opened(content: bytes) -> DecodedImage | RejectReason:
    try:
        return open_image(content)
    except ImageRejected as rejected:
        assert "Baker" not in rejected.evidence
        return rejected.reason


def _claiming(width: int, height: int) -> bytes:
    """A small PNG whose header claims another size."""
    header = b"IHDR" + struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return WHOLE["png"][:12] + header + struct.pack(">I", zlib.crc32(header)) + WHOLE["png"][33:]


def _animated(file_format: str) -> bytes:
    frames = [PIL.Image.open(io.BytesIO(image_bytes(seed))) for seed in range(3)]
    sink = io.BytesIO()
    frames[0].save(sink, file_format, save_all=True, append_images=frames[1:])
    return sink.getvalue()


@pytest.mark.parametrize(
    "content",
    [
        b"GIF", b"%PDF-1.7\n", b"<svg xmlns='http://www.w3.org/2000/svg'/>", b"<!doctype html><title>502</title>",
        b"\0" * 1000, random.Random(0).randbytes(1000), image_bytes(1, file_format="TIFF"),
        image_bytes(1, file_format="ICO"), image_bytes(1, file_format="PPM"), image_bytes(1, file_format="AVIF"),
    ],
    ids=["stub", "pdf", "svg", "html", "zeros", "noise", "tiff", "ico", "ppm", "avif"],
)  # fmt: skip
def test_other_kinds_of_file_are_no_images(content):
    assert _opened(content) is RejectReason.NOT_AN_IMAGE


def test_an_empty_file_is_refused_as_empty():
    assert _opened(b"") is RejectReason.IMAGE_EMPTY


@pytest.mark.parametrize("name", WHOLE)
def test_a_cut_file_is_refused_or_holds_all_its_pixels(name):
    whole = open_image(WHOLE[name]).image_id
    cuts = [_opened(WHOLE[name][:length]) for length in range(0, len(WHOLE[name]), 3)]
    assert {cut.image_id for cut in cuts if isinstance(cut, DecodedImage)} <= {whole}
    reasons = {RejectReason.IMAGE_EMPTY, RejectReason.NOT_AN_IMAGE, RejectReason.IMAGE_TRUNCATED}
    assert {cut for cut in cuts if isinstance(cut, RejectReason)} <= reasons


@pytest.mark.parametrize("size", [(SIDE_MAX, SIDE_MAX), (2**31 - 1, 2**31 - 1), (SIDE_MAX + 1, 1), (5001, 5000)])
def test_a_decompression_bomb_is_refused_before_it_is_decoded(size):
    started = time.process_time()
    with pytest.raises(ImageRejected) as refused:
        open_image(_claiming(*size))
    assert refused.value.reason is RejectReason.IMAGE_TOO_LARGE
    assert f"{size[0] * size[1]:,}" in refused.value.evidence or f"{size[0]:,}" in refused.value.evidence
    assert time.process_time() - started < 0.5


BOMBS = {
    "empty chunks": WHOLE["png"][:33] + (b"\0\0\0\0prVt" + struct.pack(">I", zlib.crc32(b"prVt"))) * 2_000_000,
    "empty comments": WHOLE["jpeg"][:2] + b"\xff\xfe\0\2" * 6_000_000 + WHOLE["jpeg"][2:],
    "many scans": WHOLE["progressive"][:-2] + b"\xff\xda\0\x08\1\1\0\0\0\0" * 33 + b"\xff\xd9",
    "more than 64 MB": WHOLE["bmp"] + bytes(64 * 1024 * 1024),
}


@pytest.mark.parametrize("bomb", BOMBS)
def test_a_file_that_is_made_to_take_long_is_refused_at_once(bomb):
    started = time.process_time()
    assert _opened(BOMBS[bomb]) is RejectReason.IMAGE_TOO_LARGE
    assert time.process_time() - started < 2


@pytest.mark.parametrize("file_format", ["GIF", "WEBP", "PNG"])
def test_an_animation_is_refused_with_its_number_of_frames(file_format):
    with pytest.raises(ImageRejected) as refused:
        open_image(_animated(file_format))
    assert refused.value.reason is RejectReason.IMAGE_ANIMATED
    assert refused.value.evidence == "3 frames"


def test_a_broken_exif_block_does_not_stop_a_sideways_image():
    """Pillow's own way upright writes the EXIF block anew, and fails on a width that is a text."""
    content = WHOLE["sideways jpeg"].replace(b"\x01\x0e\x00\x02", b"\x01\x00\x00\x02")
    assert content != WHOLE["sideways jpeg"]
    assert open_image(content).image_id == open_image(WHOLE["sideways jpeg"]).image_id
