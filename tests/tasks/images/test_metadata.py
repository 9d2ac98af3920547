"""What a stored picture keeps of its file: exactly the pixels, and nothing else."""

import io
import struct
import zlib

import numpy as np
import PIL.Image
import pytest
from PIL.PngImagePlugin import PngInfo

from tasks.images.decode import open_image
from tasks.images.metadata import strip_metadata
from tests.builders import image_bytes

SECRET = b"Baker Street 221B"
TEXT = SECRET.decode()
SIZE = (45, 31)


def _exif(orientation: int | None = None) -> PIL.Image.Exif:
    exif = PIL.Image.Exif()
    exif[0x010E] = exif[0x013B] = TEXT  # description, artist
    exif.get_ifd(0x8825).update({1: "N", 2: (51.0, 31.0, 25.0), 29: TEXT})  # GPS
    exif.get_ifd(0x8769)[0x9286] = SECRET  # user comment
    if orientation:
        exif[0x0112] = orientation
    return exif


def _thumbnail_exif(thumbnail: bytes) -> bytes:
    """An empty first directory, and a second one whose two entries are the thumbnail's place and length."""
    second = struct.pack(">HHHIIHHIII", 2, 0x0201, 4, 1, 44, 0x0202, 4, 1, len(thumbnail), 0)
    return b"Exif\0\0MM\0*" + struct.pack(">IHI", 8, 0, 14) + second + thumbnail


def _pixels(content: bytes) -> np.ndarray:
    return np.asarray(PIL.Image.open(io.BytesIO(content)).convert("RGB"))


def _segment(marker: int, payload: bytes) -> bytes:
    return bytes((0xFF, marker)) + struct.pack(">H", len(payload) + 2) + payload


def _chunk(kind: bytes, payload: bytes) -> bytes:
    return struct.pack(">I", len(payload)) + kind + payload + struct.pack(">I", zlib.crc32(kind + payload))


PLAIN_JPEG = image_bytes(1, SIZE, "JPEG")
PLAIN_PNG = image_bytes(1, SIZE)
AFTER_APP0 = 2 + 2 + 16
JPEG_SEGMENTS = {
    "XMP": _segment(0xE1, b"http://ns.adobe.com/xap/1.0/\0<x>" + SECRET),
    "EXIF": _segment(0xE1, _exif().tobytes()),
    "EXIF thumbnail": _segment(0xE1, _thumbnail_exif(SECRET)),
    "ICC profile": _segment(0xE2, b"ICC_PROFILE\0\1\1" + SECRET),
    "IPTC": _segment(0xED, b"Photoshop 3.0\x008BIM\x04\x04\0\0" + SECRET),
    "comment": _segment(0xFE, SECRET),
    "private": _segment(0xEF, SECRET),
    "two comments": _segment(0xFE, SECRET) * 2,
    "long Adobe": _segment(0xEE, b"Adobe\0\x64\0\0\0\0\x01" + SECRET),
}
PNG_CHUNKS = {
    "text": _chunk(b"tEXt", b"Comment\0" + SECRET),
    "compressed text": _chunk(b"zTXt", b"Comment\0\0" + zlib.compress(SECRET, 0)),
    "XMP": _chunk(b"iTXt", b"XML:com.adobe.xmp\0\0\0\0\0<x>" + SECRET),
    "EXIF": _chunk(b"eXIf", _exif().tobytes()[6:]),
    "private": _chunk(b"prVt", SECRET),
    "time": _chunk(b"tIME", SECRET[:7]),
}


@pytest.mark.parametrize("name", JPEG_SEGMENTS)
def test_no_metadata_segment_of_a_jpeg_is_kept(name):
    content = PLAIN_JPEG[:AFTER_APP0] + JPEG_SEGMENTS[name] + PLAIN_JPEG[AFTER_APP0:]
    stripped = strip_metadata(content, "JPEG")
    assert SECRET in content and SECRET not in stripped
    assert np.array_equal(_pixels(stripped), _pixels(content))
    assert name == "long Adobe" or stripped == PLAIN_JPEG


@pytest.mark.parametrize("name", PNG_CHUNKS)
def test_no_metadata_chunk_of_a_png_is_kept(name):
    start = len(PLAIN_PNG) - 12 if name == "time" else 33  # before IEND, or after IHDR
    content = PLAIN_PNG[:start] + PNG_CHUNKS[name] + PLAIN_PNG[start:]
    assert SECRET[:7] in content
    assert strip_metadata(content, "PNG") == PLAIN_PNG


def test_the_thumbnail_of_a_jfif_header_is_not_kept():
    pixels = (SECRET * 3)[:48]
    thumbnail = _segment(0xE0, PLAIN_JPEG[6:18] + bytes((4, 4)) + pixels)
    content = PLAIN_JPEG[:2] + thumbnail + PLAIN_JPEG[AFTER_APP0:]
    assert strip_metadata(content, "JPEG") == PLAIN_JPEG


@pytest.mark.parametrize(("content", "kind"), [(PLAIN_JPEG, "JPEG"), (PLAIN_PNG, "PNG")], ids=["jpeg", "png"])
def test_nothing_after_the_end_is_kept(content, kind):
    """A cropped screenshot can carry the uncropped one behind its end."""
    assert strip_metadata(content + PLAIN_PNG + SECRET, kind) == content


@pytest.mark.parametrize(
    "options",
    [{}, {"progressive": True}, {"subsampling": 0}, {"restart_marker_blocks": 1}, {"optimize": True}, {"quality": 1}],
    ids=str,
)
@pytest.mark.parametrize("mode", ["RGB", "L", "CMYK"])
def test_every_kind_of_jpeg_decodes_to_the_same_pixels(mode, options):
    sink = io.BytesIO()
    drawn = PIL.Image.open(io.BytesIO(PLAIN_PNG)).convert(mode)
    drawn.save(sink, "JPEG", exif=_exif(), comment=SECRET, icc_profile=SECRET, **options)
    stripped = strip_metadata(sink.getvalue(), "JPEG")
    assert SECRET not in stripped
    assert np.array_equal(_pixels(stripped), _pixels(sink.getvalue()))
    assert len(stripped) < len(sink.getvalue())


PNG_MODES = [(mode, {}) for mode in ["RGB", "RGBA", "L", "LA", "P", "1", "I;16"]]
TRANSPARENT = [("RGB", {"transparency": (1, 2, 3)}), ("L", {"transparency": 3}), ("P", {"transparency": 3})]


@pytest.mark.parametrize(("mode", "options"), PNG_MODES + TRANSPARENT, ids=str)
def test_every_kind_of_png_decodes_to_the_same_pixels(mode, options):
    drawn = PIL.Image.open(io.BytesIO(PLAIN_PNG)).convert("L" if mode == "I;16" else mode)
    drawn = PIL.Image.fromarray(np.asarray(drawn).astype(np.uint16) * 257) if mode == "I;16" else drawn
    text, sink = PngInfo(), io.BytesIO()
    text.add_text("Author", TEXT)
    drawn.save(sink, "PNG", pnginfo=text, exif=_exif(), icc_profile=SECRET, dpi=(72, 72), **options)
    bare = io.BytesIO()
    drawn.save(bare, "PNG", **options)
    assert strip_metadata(sink.getvalue(), "PNG") == bare.getvalue()


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "GIF", "BMP"])
@pytest.mark.parametrize("orientation", [None, 6])
def test_no_stored_picture_holds_metadata_whatever_its_file_was(kind, orientation):
    options = {"exif": _exif(orientation), "xmp": SECRET} if kind in ("JPEG", "WEBP") else {}
    options = {"exif": _exif(orientation)} if kind == "PNG" else options
    options = {"comment": SECRET} if kind == "GIF" else options
    content = image_bytes(2, SIZE, kind, **options)
    assert kind == "BMP" or SECRET in content
    stored = open_image(content)
    assert SECRET not in stored.encoded
    header = PIL.Image.open(io.BytesIO(stored.encoded))
    assert not header.getexif() and set(header.info) <= {"jfif", "jfif_version", "jfif_unit", "jfif_density"}
    assert np.array_equal(_pixels(stored.encoded), stored.rgb)


def test_previews_behind_a_phone_picture_are_not_kept():
    sink = io.BytesIO()
    first, preview = (PIL.Image.open(io.BytesIO(image_bytes(seed, SIZE))) for seed in (1, 2))
    first.save(sink, "MPO", save_all=True, append_images=[preview], quality=90)
    assert PIL.Image.open(io.BytesIO(sink.getvalue())).n_frames == 2
    stored = open_image(sink.getvalue())
    assert stored.format == "jpeg"
    assert np.array_equal(stored.rgb, _pixels(sink.getvalue()))
    assert stored.encoded.count(b"\xff\xd8\xff") == 1


@pytest.mark.parametrize("cut", [1, 4, 8, 12, 13, 15])
def test_a_png_that_lacks_its_end_is_stored_whole(cut):
    stored = open_image(PLAIN_PNG[:-cut])
    assert np.array_equal(stored.rgb, _pixels(PLAIN_PNG))
    assert stored.encoded.endswith(_chunk(b"IEND", b""))


@pytest.mark.parametrize("kind", ["WEBP", "GIF", "BMP", "TIFF"])
def test_other_containers_are_left_to_be_encoded_anew(kind):
    assert strip_metadata(image_bytes(1, SIZE, kind), kind) is None


@pytest.mark.parametrize("kind", ["JPEG", "PNG"])
@pytest.mark.parametrize(
    "content", [b"", b"\xff", b"\xff\xd8", b"\xff\xd8\xff\xda\0\x02abc", b"\x89PNG\r\n\x1a\n", b"x" * 40]
)
def test_a_broken_container_is_left_to_be_encoded_anew(kind, content):
    assert strip_metadata(content, kind) is None
