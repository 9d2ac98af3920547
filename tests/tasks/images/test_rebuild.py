"""What a stored image keeps of its file: exactly the pixels, written anew in a process that can open nothing."""

import io
import re
import resource
import shutil
import struct
import subprocess
import sys
import zlib
from pathlib import Path

import numpy as np
import PIL.Image
import pytest
from PIL.PngImagePlugin import PngInfo

from tasks.images import coefficients
from tasks.images.decode import from_pixels, open_image
from tasks.images.rebuild import is_pixels_alone
from tests.builders import image_bytes
from tests.places import ROOT

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


def _behind_the_stream(content: bytes) -> bytes:
    """A PNG whose one IDAT chunk goes on behind the end of its zlib stream."""
    start = content.index(b"IDAT") - 4
    length = struct.unpack(">I", content[start : start + 4])[0]
    return content[:start] + _chunk(b"IDAT", content[start + 8 : start + 8 + length] + SECRET) + content[-12:]


HIDDEN = {
    **{
        f"jpeg: {name}": PLAIN_JPEG[:AFTER_APP0] + each + PLAIN_JPEG[AFTER_APP0:]
        for name, each in JPEG_SEGMENTS.items()
    },
    "jpeg: a thumbnail": PLAIN_JPEG[:2]
    + _segment(0xE0, PLAIN_JPEG[6:18] + bytes((4, 4)) + (SECRET * 3)[:48])
    + PLAIN_JPEG[AFTER_APP0:],
    "jpeg: an unused quantization table": PLAIN_JPEG[:-2].replace(
        b"\xff\xdb", _segment(0xDB, b"\x03" + (SECRET * 4)[:64]) + b"\xff\xdb", 1
    )
    + b"\xff\xd9",
    "jpeg: an unused Huffman table": PLAIN_JPEG[:AFTER_APP0]
    + _segment(0xC4, b"\x13" + bytes((0,) * 7 + (len(SECRET),) + (0,) * 8) + SECRET)
    + PLAIN_JPEG[AFTER_APP0:],
    "jpeg: the density": PLAIN_JPEG[:13] + SECRET[:5] + PLAIN_JPEG[18:],
    "jpeg: behind the end": PLAIN_JPEG + PLAIN_PNG + SECRET,
    **{f"png: {name}": PLAIN_PNG[:33] + each + PLAIN_PNG[33:] for name, each in PNG_CHUNKS.items()},
    "png: before the end": PLAIN_PNG[:-12] + PNG_CHUNKS["private"] + PLAIN_PNG[-12:],
    "png: a palette in true colour": PLAIN_PNG[:33] + _chunk(b"PLTE", SECRET + b".") + PLAIN_PNG[33:],
    "png: behind its stream": _behind_the_stream(PLAIN_PNG),
    "png: in a chunk of its own behind its stream": PLAIN_PNG[:-12] + _chunk(b"IDAT", SECRET) + PLAIN_PNG[-12:],
    "png: in its last chunk": PLAIN_PNG[:-12] + _chunk(b"IEND", SECRET),
    "png: behind the end": PLAIN_PNG + SECRET,
}


@pytest.mark.parametrize("place", HIDDEN)
def test_what_the_pixels_do_not_need_is_noticed(place):
    assert SECRET[:5] in HIDDEN[place] and not is_pixels_alone(HIDDEN[place])


@pytest.mark.parametrize("place", HIDDEN)
def test_nothing_that_the_pixels_do_not_need_is_kept(place):
    content = HIDDEN[place]
    assert np.array_equal(_pixels(content), _pixels(PLAIN_JPEG if place.startswith("jpeg") else PLAIN_PNG))
    stored = open_image(content)
    clean = open_image(PLAIN_JPEG if stored.format == "jpeg" else PLAIN_PNG).encoded
    assert SECRET[:5] not in stored.encoded and (stored.encoded == clean or place == "jpeg: long Adobe")
    assert is_pixels_alone(stored.encoded)


def test_an_unused_entry_of_a_palette_is_not_kept():
    drawn = PIL.Image.open(io.BytesIO(PLAIN_PNG)).quantize(8)
    clean, sink = io.BytesIO(), io.BytesIO()
    drawn.convert("RGB").save(clean, "PNG")
    drawn.putpalette((drawn.getpalette() or []) + [*SECRET, 0])
    drawn.save(sink, "PNG")
    assert SECRET in sink.getvalue()
    assert open_image(sink.getvalue()).encoded == open_image(clean.getvalue()).encoded


def test_a_stream_that_unpacks_to_more_than_its_pixels_is_found():
    unpacked = b"\0\1\2\3" * 2
    longer = _chunk(b"IDAT", zlib.compress(unpacked + SECRET, 0))
    header = _chunk(b"IHDR", struct.pack(">IIBBBBB", 1, 2, 8, 2, 0, 0, 0))
    content = b"\x89PNG\r\n\x1a\n" + header + longer + _chunk(b"IEND", b"")
    assert not is_pixels_alone(content) and is_pixels_alone(open_image(content).encoded)


KINDS: list[dict] = [
    {},
    {"progressive": True},
    {"subsampling": 0},
    {"restart_marker_blocks": 1},
    {"optimize": True},
    {"quality": 1},
]


@pytest.mark.parametrize("options", KINDS, ids=str)
@pytest.mark.parametrize("hidden", [b"7", SECRET[:2], SECRET, b"\0" * 400], ids=len)
def test_nothing_behind_the_last_block_of_a_jpeg_is_kept(options, hidden):
    sink = io.BytesIO()
    PIL.Image.open(io.BytesIO(PLAIN_PNG)).save(sink, "JPEG", **options)
    drawn = sink.getvalue()
    scans = [at.start() for at in re.finditer(rb"\xff[\xd0-\xd9]", drawn[2:])]
    places = {scans[len(scans) // 2] + 2, len(drawn) - 2}
    places |= {drawn.rindex(b"\xff\xc4")} if options.get("progressive") else set()
    for place in places:
        content = drawn[:place] + hidden + drawn[place:]
        assert not is_pixels_alone(content) and np.array_equal(_pixels(content), _pixels(drawn))
        stored = open_image(content)
        assert is_pixels_alone(stored.encoded) and np.array_equal(stored.rgb, _pixels(drawn))
        assert stored.encoded in (open_image(drawn).encoded, from_pixels(stored.rgb).encoded)


def test_unused_bits_of_the_last_byte_of_a_scan_are_not_kept():
    drawn, kept = bytearray(PLAIN_JPEG), open_image(PLAIN_JPEG).encoded
    drawn[-3] ^= 1
    assert np.array_equal(_pixels(bytes(drawn)), _pixels(PLAIN_JPEG)), "the bit fills the byte up"
    assert not is_pixels_alone(bytes(drawn)) and open_image(bytes(drawn)).encoded == kept


def _with_a_large_coefficient(bits: int) -> bytes:
    """A grey JPEG of one block, whose second coefficient has so many bits; decoders take 15, encoders write 10."""
    counts = bytes((1,)) + bytes(15), bytes((1, 1)) + bytes(14)
    coded = int(f"001{'0' * (bits - 1)}10".ljust(24, "1"), 2).to_bytes(3, "big")
    return b"".join((
        b"\xff\xd8", _segment(0xDB, bytes((0, *[1] * 64))), _segment(0xC0, bytes((8, 0, 8, 0, 8, 1, 1, 0x11, 0))),
        _segment(0xC4, b"\0" + counts[0] + b"\0"), _segment(0xC4, b"\x10" + counts[1] + bytes((bits, 0))),
        _segment(0xDA, bytes((1, 1, 0, 0, 63, 0))), coded, b"\xff\xd9",
    ))  # fmt: skip


@pytest.mark.parametrize("bits", [11, 13, 15])
def test_a_coefficient_that_no_encoder_writes_does_not_end_the_process(bits):
    stored = open_image(_with_a_large_coefficient(bits))
    assert is_pixels_alone(stored.encoded) and stored.rgb.shape == (8, 8, 3)


@pytest.mark.parametrize("options", KINDS, ids=str)
@pytest.mark.parametrize("mode", ["RGB", "L", "CMYK"])
def test_every_kind_of_jpeg_decodes_to_the_same_pixels(mode, options):
    sink = io.BytesIO()
    drawn = PIL.Image.open(io.BytesIO(PLAIN_PNG)).convert(mode)
    drawn.save(sink, "JPEG", exif=_exif(), comment=SECRET, icc_profile=SECRET, **options)
    stored = open_image(sink.getvalue())
    assert SECRET not in stored.encoded and stored.format == "jpeg" and is_pixels_alone(stored.encoded)
    assert np.array_equal(_pixels(stored.encoded), _pixels(sink.getvalue()))


PNG_MODES = [(mode, {}) for mode in ["RGB", "RGBA", "L", "LA", "P", "1", "I;16"]]
TRANSPARENT = [("RGB", {"transparency": (1, 2, 3)}), ("L", {"transparency": 3}), ("P", {"transparency": 3})]


@pytest.mark.parametrize(("mode", "options"), PNG_MODES + TRANSPARENT, ids=str)
def test_every_kind_of_png_decodes_to_the_same_pixels(mode, options):
    drawn = PIL.Image.open(io.BytesIO(PLAIN_PNG)).convert("L" if mode == "I;16" else mode)
    drawn = PIL.Image.fromarray(np.asarray(drawn).astype(np.uint16) * 257) if mode == "I;16" else drawn
    text, sink = PngInfo(), io.BytesIO()
    text.add_text("Author", TEXT)
    drawn.save(sink, "PNG", pnginfo=text, exif=_exif(), icc_profile=SECRET, dpi=(72, 72), **options)
    stored = open_image(sink.getvalue())
    assert SECRET not in stored.encoded and is_pixels_alone(stored.encoded)
    assert np.array_equal(_pixels(stored.encoded), stored.rgb)


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "GIF", "BMP"])
@pytest.mark.parametrize("orientation", [None, 6])
def test_no_stored_image_holds_metadata_whatever_its_file_was(kind, orientation):
    options = {"exif": _exif(orientation), "xmp": SECRET} if kind in ("JPEG", "WEBP") else {}
    options = {"exif": _exif(orientation)} if kind == "PNG" else options
    options = {"comment": SECRET} if kind == "GIF" else options
    content = image_bytes(2, SIZE, kind, **options)
    assert kind == "BMP" or SECRET in content
    stored = open_image(content)
    assert SECRET not in stored.encoded
    header = PIL.Image.open(io.BytesIO(stored.encoded))
    assert not header.getexif() and header.info.get("jfif_density", (1, 1)) == (1, 1)
    assert set(header.info) <= {"jfif", "jfif_version", "jfif_unit", "jfif_density", "progressive", "progression"}
    assert np.array_equal(_pixels(stored.encoded), stored.rgb)


@pytest.fixture(scope="module")
def phone_image() -> bytes:
    """A file of a phone's camera: an image, with a preview behind it."""
    sink = io.BytesIO()
    first, preview = (PIL.Image.open(io.BytesIO(image_bytes(seed, SIZE))) for seed in (1, 2))
    first.save(sink, "MPO", save_all=True, append_images=[preview], quality=90)
    assert PIL.Image.open(io.BytesIO(sink.getvalue())).n_frames == 2
    return sink.getvalue()


def test_a_phone_image_is_stored_as_the_jpeg_it_shows_first(phone_image):
    stored = open_image(phone_image)
    assert stored.format == "jpeg"
    assert np.array_equal(stored.rgb, _pixels(phone_image))


def test_previews_behind_a_phone_image_are_not_kept(phone_image):
    assert open_image(phone_image).encoded.count(b"\xff\xd8\xff") == 1


@pytest.mark.parametrize("cut", [1, 4, 8, 12, 13, 15])
def test_a_png_that_lacks_its_end_is_stored_whole(cut):
    stored = open_image(PLAIN_PNG[:-cut])
    assert np.array_equal(stored.rgb, _pixels(PLAIN_PNG))
    assert stored.encoded.endswith(_chunk(b"IEND", b""))


CONTENT = image_bytes(3, (64, 48), "JPEG")
SCAN = b"\xff\xda"


@pytest.fixture
def process():
    """A process of this test alone."""
    made = coefficients._Process()
    yield made
    made.stop()


@pytest.fixture
def started(process):
    """The process, which has written a file anew."""
    assert process.recoded(CONTENT).coded.startswith(b"\xff\xd8")
    return process.running.pid


@pytest.mark.parametrize("limit", ["RLIMIT_NOFILE", "RLIMIT_FSIZE", "RLIMIT_NPROC"])
def test_the_process_can_open_no_file_socket_or_process(started, limit):
    assert resource.prlimit(started, getattr(resource, limit)) == (0, 0)


def test_the_memory_of_the_process_has_a_limit(started):
    assert resource.prlimit(started, resource.RLIMIT_AS)[0] == coefficients.ADDRESS_SPACE_BYTES


def test_the_process_ends_with_the_one_that_started_it(process):
    process.pipe.close()
    assert process.running.wait(timeout=30) == 0


def test_a_file_that_ends_the_process_costs_the_next_one_nothing():
    whole = coefficients.recoded(CONTENT)
    with pytest.raises(EOFError):
        coefficients.recoded(CONTENT[: CONTENT.index(SCAN)])  # no scan: an error of libjpeg, not a warning
    assert coefficients.recoded(CONTENT) == whole


@pytest.fixture(scope="module")
def python_without_coefficients(tmp_path_factory) -> Path:
    """A Python whose Pillow has a libjpeg that decodes, and exports no function that reads coefficients."""
    environment, packages = tmp_path_factory.mktemp("python") / "environment", Path(PIL.__file__).parents[1]
    own = environment / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"
    for name in ("PIL", "pillow.libs"):
        shutil.copytree(packages / name, own / name)
    for library in (own / "pillow.libs").glob("libjpeg*"):
        library.write_bytes(library.read_bytes().replace(b"\0jpeg_read_coefficients\0", b"\0jpeg_read_coefficientX\0"))
    (own / "others.pth").write_text(f"{packages}\n{ROOT}\n")
    (environment / "pyvenv.cfg").write_text(f"home = {Path(sys._base_executable).parent}\n")
    (environment / "bin").mkdir()
    (environment / "bin" / "python").symlink_to(sys._base_executable)
    return environment / "bin" / "python"


TOLD = """
import sys
from pathlib import Path
from tasks.images.decode import open_image, released_file
from tasks.release.contents import _image
content = Path(sys.argv[1]).read_bytes()
found = open_image(content)
print(found.image_id, found.format, found.encoded.hex(), released_file(content, "jpeg")[1])
print(*_image({"path": sys.argv[2], "bytes": content}))
"""


@pytest.fixture(scope="module")
def printed_without_coefficients(python_without_coefficients, tmp_path_factory) -> list[str]:
    """Two lines about a JPEG: what is stored of it, and what a released one is refused for."""
    ours, picture = open_image(CONTENT), tmp_path_factory.mktemp("pictures") / "picture.jpg"
    picture.write_bytes(ours.encoded)
    command = [python_without_coefficients, "-I", "-c", TOLD, picture, f"{ours.image_id}.jpg"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_a_jpeg_whose_coefficients_cannot_be_reached_becomes_a_png_of_its_pixels(printed_without_coefficients):
    ours, (stored, _) = open_image(CONTENT), printed_without_coefficients
    assert stored.split() == [ours.image_id, "png", from_pixels(ours.rgb).encoded.hex(), "png"]
    assert ours.format == "jpeg"


def test_a_released_jpeg_whose_coefficients_cannot_be_reached_is_not_called_more_than_pixels(
    printed_without_coefficients,
):
    _, refusal = printed_without_coefficients
    assert "cannot be looked into" in refusal and "reinstall Pillow" in refusal and "more than" not in refusal
