"""An image's identity and hashes are what one sees; what is not one whole, still image is refused by name."""

import io
import random
import struct
import time
import zlib

import imagehash
import numpy as np
import pdqhash
import PIL.Image
import pytest
import skimage.data
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from schemas.items.reject import RejectReason
from tasks.images.decode import SIDE_MAX, DecodedImage, ImageRejected, decode_stored, open_image
from tasks.images.measures import image_hashes, pdq_digits
from tasks.storage.content_id import image_id
from tests.builders import drawn_image, image_bytes

PIXELS = np.array(drawn_image(3, (45, 31)).rgb)
PALETTED = PIL.Image.fromarray(PIXELS).quantize(16)
T = PIL.Image.Transpose
FROM_UPRIGHT = {
    1: [], 2: [T.FLIP_LEFT_RIGHT], 3: [T.ROTATE_180], 4: [T.FLIP_TOP_BOTTOM], 5: [T.FLIP_LEFT_RIGHT, T.ROTATE_90],
    6: [T.ROTATE_90], 7: [T.FLIP_LEFT_RIGHT, T.ROTATE_270], 8: [T.ROTATE_270],
}  # fmt: skip
"""EXIF orientation -> how an upright scene is stored under it (EXIF 2.3, tag 274)."""


def _saved(image: PIL.Image.Image, file_format: str, **options) -> bytes:
    sink = io.BytesIO()
    image.save(sink, file_format, **options)
    return sink.getvalue()


def _open(pixels: np.ndarray, file_format: str = "PNG", **options) -> DecodedImage:
    return open_image(_saved(PIL.Image.fromarray(pixels), file_format, **options))


@pytest.mark.parametrize(
    ("file_format", "mode", "options"),
    [
        ("PNG", "RGB", {}), ("PNG", "RGB", {"compress_level": 0}), ("PNG", "RGBA", {}), ("PNG", "P", {}),
        ("BMP", "RGB", {}), ("BMP", "P", {}), ("GIF", "P", {}), ("WEBP", "RGB", {"lossless": True}),
        ("WEBP", "RGBA", {"lossless": True}),
    ],
    ids=str,
)  # fmt: skip
def test_the_same_pixels_in_another_container_are_the_same_image(file_format, mode, options):
    opened = open_image(_saved(PALETTED.convert(mode), file_format, **options))
    assert opened.image_id == image_id(np.asarray(PALETTED.convert("RGB")))


def test_another_pixel_is_another_image():
    other = PIXELS.copy()
    other[-1, -1, -1] ^= 1
    assert _open(other).image_id != _open(PIXELS).image_id


def test_colours_under_transparency_are_no_part_of_an_image():
    clear = np.zeros((8, 8, 4), np.uint8)
    coloured = clear.copy()
    coloured[..., 0] = 200
    first, second = (open_image(_saved(PIL.Image.fromarray(each), "PNG")) for each in (clear, coloured))
    assert first.image_id == second.image_id == image_id(np.full((8, 8, 3), 255, np.uint8))


def test_grey_of_16_bits_is_the_image_of_8_bits():
    grey = PIXELS[..., 0]
    wide = PIL.Image.fromarray(grey.astype(np.uint16) * 257)
    assert open_image(_saved(wide, "PNG")).image_id == image_id(np.dstack([grey] * 3))


@pytest.mark.parametrize("orientation", FROM_UPRIGHT)
@pytest.mark.parametrize("file_format", ["PNG", "WEBP"])
def test_an_image_is_the_same_however_the_camera_was_held(orientation, file_format):
    stored = PIL.Image.fromarray(PIXELS)
    for step in FROM_UPRIGHT[orientation]:
        stored = stored.transpose(step)
    exif = PIL.Image.Exif()
    exif[0x0112] = orientation
    opened = open_image(_saved(stored, file_format, exif=exif, **{"lossless": True} if file_format == "WEBP" else {}))
    assert opened.image_id == image_id(PIXELS)
    assert np.array_equal(decode_stored(opened.encoded, opened.format, opened.image_id).rgb, PIXELS)


def test_a_sideways_jpeg_is_stored_upright_with_no_further_loss():
    exif = PIL.Image.Exif()
    exif[0x0112] = 6
    content = _saved(PIL.Image.fromarray(PIXELS), "JPEG", exif=exif)
    upright = np.rot90(np.asarray(PIL.Image.open(io.BytesIO(content))), -1)
    opened = open_image(content)
    assert (opened.width, opened.height) == (31, 45)
    assert opened.image_id == image_id(np.ascontiguousarray(upright))


@pytest.mark.parametrize("orientation", [0, 9, 65535])
def test_an_orientation_that_does_not_exist_is_upright(orientation):
    exif = PIL.Image.Exif()
    exif[0x0112] = orientation
    assert _open(PIXELS, exif=exif).image_id == image_id(PIXELS)


@pytest.mark.parametrize(("file_format", "options"), [("PNG", {}), ("WEBP", {"lossless": True})], ids=["PNG", "WEBP"])
def test_transparency_is_seen_on_white(file_format, options):
    layer = np.dstack([PIXELS, np.full(PIXELS.shape[:2], 255, np.uint8)])
    layer[:10, :, 3] = 0
    seen = PIXELS.copy()
    seen[:10] = 255
    assert open_image(_saved(PIL.Image.fromarray(layer), file_format, **options)).image_id == image_id(seen)


def _chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def _png_of_two(depth: int, colour: int, clear: int, other: int) -> bytes:
    """A PNG of two pixels, one above the other, of which the colour of the first is transparent (`tRNS`)."""
    values = 3 if colour == 2 else 1
    shift = 8 - depth if depth < 8 else 0
    packed = ">" + (f"{values}H" if depth == 16 else f"{values}B")
    rows = b"".join(b"\0" + struct.pack(packed, *[value << shift] * values) for value in (clear, other))
    header = struct.pack(">IIBBBBB", 1, 2, depth, colour, 0, 0, 0)
    chunks = (b"IHDR", header), (b"tRNS", struct.pack(f">{values}H", *[clear] * values)), (b"IDAT", zlib.compress(rows))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(*chunk) for chunk in chunks) + _chunk(b"IEND", b"")


@pytest.mark.parametrize(("depth", "colour"), [(1, 0), (2, 0), (4, 0), (8, 0), (16, 0), (8, 2), (16, 2)])
@pytest.mark.parametrize("seed", range(3))
def test_the_transparent_colour_of_a_png_is_white_whatever_its_depth(depth, colour, seed):
    clear, other = random.Random(seed).sample([n << max(0, depth - 4) for n in range(1 << min(4, depth))], 2)
    first, second = open_image(_png_of_two(depth, colour, clear, other)).rgb[:, 0]
    assert first.tolist() == [255] * 3
    assert second.tolist() == [round(255 * other / ((1 << depth) - 1)) if depth < 16 else other >> 8] * 3


@settings(max_examples=60)
@given(
    pixels=hnp.arrays(np.uint8, st.tuples(st.integers(1, 20), st.integers(1, 20), st.just(3))),
    file_format=st.sampled_from(["PNG", "JPEG", "WEBP", "GIF", "BMP"]),
)
def test_what_is_stored_decodes_to_exactly_what_was_seen(pixels, file_format):
    opened = _open(pixels, file_format)
    again = decode_stored(opened.encoded, opened.format, opened.image_id)
    assert opened.format in ("png", "jpeg")
    assert np.array_equal(again.rgb, opened.rgb)
    assert image_id(again.rgb) == opened.image_id
    assert (opened.height, opened.width) == pixels.shape[:2]
    assert np.array_equal(np.asarray(opened.pil), opened.rgb)


@pytest.mark.parametrize(
    ("size", "side_max", "fitted"),
    [((100, 50), 10, (10, 5)), ((50, 100), 10, (5, 10)), ((8, 6), 10, (8, 6)), ((400, 1), 10, (10, 1))],
)
def test_fitting_an_image_only_makes_it_smaller_in_its_shape(size, side_max, fitted):
    assert drawn_image(0, size).fitted(side_max).shape == (*fitted[::-1], 3)


PHOTOGRAPHS = ("astronaut", "camera", "chelsea", "coffee", "rocket", "page", "text", "coins")


def sample(name):
    return PIL.Image.fromarray(getattr(skimage.data, name)()).convert("RGB")


def saved(image, file_format="PNG", **options):
    sink = io.BytesIO()
    image.save(sink, file_format, **options)
    return sink.getvalue()


def hashes(image):
    return image_hashes(open_image(saved(image)))


def full_size_pdq(image):
    return int(np.packbits(pdqhash.compute(np.asarray(image))[0]).tobytes().hex(), 16)


@pytest.mark.parametrize("name", PHOTOGRAPHS)
def test_the_dct_hash_is_imagehash_s(name):
    assert hashes(sample(name)).phash == str(imagehash.phash(sample(name)))


def enlarged(name):
    return sample(name).resize((1600, 1200), PIL.Image.Resampling.BICUBIC)


@pytest.mark.parametrize("name", PHOTOGRAPHS)
def test_pdq_of_a_large_image_stays_close_to_that_of_the_full_size(name):
    large = enlarged(name)
    assert (int(hashes(large).pdq, 16) ^ full_size_pdq(large)).bit_count() <= 10


@pytest.mark.parametrize("name", PHOTOGRAPHS)
def test_pdq_of_pixels_is_that_of_their_image(name):
    large = enlarged(name)
    assert pdq_digits(np.asarray(large)) == hashes(large).pdq


@pytest.mark.parametrize("name", PHOTOGRAPHS)
def test_pdq_of_a_small_image_is_that_of_the_full_size(name):
    small = enlarged(name).resize((500, 375))
    assert int(hashes(small).pdq, 16) == full_size_pdq(small)


def test_pdq_is_in_metas_bit_order():
    """The digits that python-threatexchange prints: the first bit of pdqhash's vector is the most significant."""
    image = sample("coffee").resize((400, 300))
    bits = "".join(map(str, pdqhash.compute(np.asarray(image))[0]))
    assert hashes(image).pdq == f"{int(bits, 2):064x}"


def test_an_image_of_one_colour_has_no_quality_of_pdq():
    assert hashes(PIL.Image.new("RGB", (300, 200), "navy")).pdq_quality == 0


def test_a_photograph_has_the_best_quality_of_pdq():
    assert hashes(sample("coffee")).pdq_quality == 100


def test_the_grey_thumbnail_is_pillow_s_brightness():
    opened = open_image(image_bytes(1, (200, 150)))
    thumbnail = opened.pil.convert("L").resize((32, 32), PIL.Image.Resampling.LANCZOS)
    assert bytes.fromhex(image_hashes(opened).grey) == thumbnail.tobytes()


EXIF = PIL.Image.Exif()
EXIF[0x0112] = 6
EXIF[0x010E] = "Baker Street 221B"
WHOLE = {
    "png": image_bytes(1), "jpeg": image_bytes(1, file_format="JPEG"),
    "progressive": image_bytes(1, file_format="JPEG", progressive=True), "webp": image_bytes(1, file_format="WEBP"),
    "gif": image_bytes(1, file_format="GIF"), "bmp": image_bytes(1, file_format="BMP"),
    "sideways jpeg": image_bytes(1, file_format="JPEG", exif=EXIF), "sideways png": image_bytes(1, exif=EXIF),
}  # fmt: skip


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
