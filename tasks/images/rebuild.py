"""The stored form of an image: a file made anew from its pixels, so that nothing else can travel in it.

A JPEG is written anew from the segments that its scans use and the coefficients of its blocks; everything else becomes
a PNG. Neither changes a pixel. Metadata, unused tables and palettes, and bytes behind a PNG's stream, the last block of
a scan, a restart interval or the file are in neither.
"""

import io
import zlib
from collections.abc import Iterator, Mapping

import numpy as np
import numpy.typing as npt
import PIL.Image
from PIL.JpegImagePlugin import JpegImageFile

from tasks.images.coefficients import Recoded, recoded

_PNG_LEVEL, _RUNS, _RUNS_FROM = 3, 3, 8_000_000
"""Level 3 makes files 3 % larger than level 6, in half the time. From 8 million pixels on only runs are sought."""
_JFIF = b"\xff\xe0\0\x10JFIF\0\1\1\0\0\1\0\1\0\0"
"""A JFIF header of one version, without a unit and a thumbnail."""
_EOI, _SOS, _DQT, _DHT, _JFIF_AT, _ADOBE = 0xD9, 0xDA, 0xDB, 0xC4, 0xE0, 0xEE
_ADOBE_BYTES = 12
_RESTARTS = {0x01, *range(0xD0, 0xD8)}
_FRAMES = {*range(0xC0, 0xD0)} - {_DHT, 0xC8, 0xCC}
_KEPT = {*_FRAMES, 0xDD, 0xCC}
"""Frame headers, restart interval, conditioning of arithmetic coding."""
_SIGNATURE, _RGB8 = b"\x89PNG\r\n\x1a\n", b"\x08\x02\x00\x00\x00"


def rebuilt_jpeg(content: bytes) -> bytes | None:
    """The JPEG as one scan of its coefficients, with nothing else; None for a broken one, and one that was cropped.

    libjpeg-turbo reads and writes the coefficients; where they cannot be reached, it is None, too. A file with damage
    of which decoders only warn, such as many bytes behind the last block, counts as broken; a few it drops.
    """
    try:
        rewritten = recoded(b"".join(_used(content)))
        return b"".join(_used(rewritten.coded)) if rewritten and holds_the_image_alone(rewritten) else None
    except Exception:  # hostile bytes end the process, or have a header that Pillow reads in another way
        return None


def _used(content: bytes) -> Iterator[bytes]:
    """The parts of a JPEG that decoders use; a table comes before the first scan that names it."""
    yield b"\xff\xd8"
    tables: dict[tuple[int, int], bytes] = {}
    numbers: dict[int, int] = {}
    at = 2
    while content[at + 1] != _EOI:
        if content[at] != 0xFF:
            raise ValueError("no marker where one must be")
        marker = content[at + 1]
        if marker == 0xFF or marker in _RESTARTS:  # a fill byte, or a marker without a segment
            at += 1 if marker == 0xFF else 2
            continue
        end = at + 2 + int.from_bytes(content[at + 2 : at + 4], "big")
        segment = content[at + 4 : end]
        if marker in (_DQT, _DHT):
            tables |= {(marker, table[0]): table for table in _split(marker, segment)}
        elif marker == _JFIF_AT and segment.startswith(b"JFIF\0"):
            yield _JFIF
        elif marker == _ADOBE and segment.startswith(b"Adobe"):
            yield _segment(marker, segment[:_ADOBE_BYTES])
        elif marker == _SOS:
            names = _tables_of(segment, numbers)
            yield from (_segment(*name[:1], tables.pop(name)) for name in sorted(tables.keys() & names, key=str))
            yield _segment(marker, segment) + content[end : (end := _scan_end(content, end))]
        elif marker in _KEPT:
            if marker in _FRAMES:
                numbers = {segment[i]: segment[i + 2] for i in range(6, len(segment), 3)}
            yield _segment(marker, segment)
        at = end
    yield b"\xff\xd9"


def _segment(marker: int, payload: bytes) -> bytes:
    return bytes((0xFF, marker)) + (len(payload) + 2).to_bytes(2, "big") + payload


def _split(marker: int, segment: bytes) -> Iterator[bytes]:
    """The tables of a segment, each with its first byte, which names it: precision or class, and number."""
    while segment:
        size = 1 + 64 * (1 + (segment[0] >> 4)) if marker == _DQT else 17 + sum(segment[1:17])
        yield segment[:size]
        segment = segment[size:]


def _tables_of(scan: bytes, numbers: Mapping[int, int]) -> set[tuple[int, int]]:
    """(marker, name) of every table that a scan may use; `numbers` are the quantization tables of the components."""
    tables: set[tuple[int, int]] = set()
    first, last, before = scan[-3], scan[-2], scan[-1] >> 4
    for i in range(1, 1 + 2 * scan[0], 2):
        coded = scan[i + 1]
        tables |= {(_DHT, coded >> 4)} if first == before == 0 else set()
        tables |= {(_DHT, 0x10 | coded & 15)} if last else set()
        tables |= {(_DQT, precision << 4 | numbers[scan[i]]) for precision in (0, 1) if scan[i] in numbers}
    return tables


def _scan_end(content: bytes, at: int) -> int:
    """End of the entropy-coded data that starts at `at`: the next marker that is neither an escape nor a restart."""
    while True:
        at = content.index(b"\xff", at)
        if content[at + 1] != 0 and content[at + 1] not in _RESTARTS:
            return at
        at += 2


def png(rgb: npt.NDArray[np.uint8]) -> bytes:
    """uint8 (height, width, 3) as PNG."""
    sink = io.BytesIO()
    PIL.Image.fromarray(rgb).save(
        sink, "PNG", compress_level=_PNG_LEVEL, compress_type=_RUNS if rgb.size >= 3 * _RUNS_FROM else -1
    )
    return sink.getvalue()


def is_pixels_alone(content: bytes) -> bool:
    """Whether a file is as `rebuilt_jpeg` or `png` write it.

    The compressed stream of a PNG is not compared, because it depends on the version of zlib.
    """
    return _is_plain_png(content) if content.startswith(_SIGNATURE) else content == rebuilt_jpeg(content)


def _is_plain_png(content: bytes) -> bool:
    kinds, data, at = [], [], len(_SIGNATURE)
    while at < len(content):
        length = int.from_bytes(content[at : at + 4], "big")
        kinds.append(content[at + 4 : at + 8])
        data.append(content[at + 8 : at + 8 + length])
        at += 12 + length
    if (
        kinds != [b"IHDR", *[b"IDAT"] * (len(kinds) - 2), b"IEND"]
        or data[0][8:] != _RGB8
        or data[-1]
        or at > len(content)
    ):
        return False
    width, height = int.from_bytes(data[0][:4], "big"), int.from_bytes(data[0][4:8], "big")
    size, unpack = height * (1 + 3 * width), zlib.decompressobj()
    try:
        unpacked = unpack.decompress(b"".join(data[1:-1]), size + 1)
    except zlib.error:
        return False
    return unpack.eof and not unpack.unused_data and len(unpacked) == size


Levels = npt.NDArray[np.int16]
"""Quantized coefficients of blocks: (blocks, 8, 8), vertical frequency before horizontal."""
Steps = npt.NDArray[np.int64]
"""Quantization table, (8, 8)."""

_BLOCK = 8
_STEPS_OFF_MAX = 0.75
"""How far a coefficient of a last block may be from a repeated edge, in steps; an encoder that rounds is 0.5 off."""
_STEP_MAX, _ROUNDING = 40, 4
"""Larger steps count as 40, so that a coarse table hides nothing; rounding inside encoders is up to 4 more levels."""
_FREQUENCIES = np.sqrt(2 / _BLOCK) * np.cos(np.outer(np.arange(_BLOCK), 2 * np.arange(_BLOCK) + 1) * np.pi / 2 / _BLOCK)
_FREQUENCIES[0] /= np.sqrt(2)
"""The orthonormal discrete cosine transform of a row of samples: (frequency, sample)."""


def holds_the_image_alone(recoded: Recoded) -> bool:
    """Whether beyond the edge of a JPEG, where no decoder shows it, each component repeats its last row and column.

    A JPEG codes whole blocks of 8 x 8 samples. An encoder fills the last ones by repeating the last row and column. A
    lossless crop leaves there what it cut off: up to 15 rows and columns of the larger picture, legible again when the
    size in the header is raised.
    """
    image = JpegImageFile(io.BytesIO(recoded.coded))
    widest, highest = (max(layer[at] for layer in image.layer) for at in (1, 2))
    for (_, wide, high, table), below, right in zip(image.layer, recoded.lowest, recoded.rightmost, strict=True):
        steps = np.array(image.quantization[table]).reshape(_BLOCK, _BLOCK)
        if not (
            _repeats(_levels(below), steps, _free(image.height, high, highest))
            and _repeats(_levels(right).mT, steps.T, _free(image.width, wide, widest))
        ):
            return False
    return True


def _levels(coefficients: bytes) -> Levels:
    return np.frombuffer(coefficients, np.int16).reshape(-1, _BLOCK, _BLOCK)


def _free(pixels: int, share: int, share_max: int) -> int:
    """How many samples of a last block are not repeated ones, 1 to 8.

    A component of fewer samples than pixels has one more: some encoders repeat pixels and take the mean of two later.
    """
    samples = -(-pixels * share // share_max)
    return min(_BLOCK, (samples - 1) % _BLOCK + 1 + (share < share_max))


def _repeats(levels: Levels, steps: Steps, free: int) -> bool:
    """Whether blocks are what an encoder makes of `free` rows, the last of which is repeated to the end of the block.

    Each column of frequencies is compared with the nearest one that such rows have (least squares, in steps).
    """
    scale = np.minimum(steps, _STEP_MAX) + _ROUNDING
    rows = np.add.reduceat(_FREQUENCIES, range(free), axis=1)
    basis = np.linalg.qr(rows / scale.T[:, :, None]).Q
    scaled_levels = (levels * (steps / scale)).transpose(2, 1, 0)
    return bool(np.abs(scaled_levels - basis @ (basis.mT @ scaled_levels)).max() <= _STEPS_OFF_MAX)
