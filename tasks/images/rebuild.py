"""The stored form of an image: a file made anew from its pixels, so that nothing else can travel in it.

A JPEG is rebuilt from its coefficients (mozjpeg), which changes no pixel; everything else becomes a PNG. Metadata,
unused tables and palettes, and bytes behind a stream or behind the file are in neither.
"""

import io
import zlib

import mozjpeg_lossless_optimization as mozjpeg
import numpy as np
import numpy.typing as npt
import PIL.Image

JPEG_BYTES_MAX = 8 * 1024 * 1024
"""A larger JPEG is stored as PNG: rebuilding takes up to 0.4 s and 10 MB of memory for each MB of it."""
_PNG_LEVEL, _RUNS, _RUNS_FROM = 3, 3, 8_000_000
"""Level 3 makes files 3 % larger than level 6, in half the time. From 8 million pixels on only runs are sought."""
_JFIF = b"\xff\xd8\xff\xe0\0\x10JFIF\0\1\1\0\0\1\0\1\0\0"
"""Begin of a JPEG of one version, without a unit and a thumbnail."""
_SIGNATURE, _RGB8 = b"\x89PNG\r\n\x1a\n", b"\x08\x02\x00\x00\x00"


def rebuilt_jpeg(content: bytes) -> bytes | None:
    """The JPEG from its coefficients alone; None when it is too large, or mozjpeg does not read it."""
    if len(content) > JPEG_BYTES_MAX:
        return None
    try:
        rebuilt: bytes = mozjpeg.optimize(content)
    except ValueError:
        return None
    return _JFIF + rebuilt[len(_JFIF) :] if rebuilt.startswith(_JFIF[:11]) else rebuilt


def png(rgb: npt.NDArray[np.uint8]) -> bytes:
    """uint8 (height, width, 3) as PNG."""
    sink = io.BytesIO()
    PIL.Image.fromarray(rgb).save(
        sink, "PNG", compress_level=_PNG_LEVEL, compress_type=_RUNS if rgb.size >= 3 * _RUNS_FROM else -1
    )
    return sink.getvalue()


def is_pixels_alone(content: bytes) -> bool:
    """Whether a file is as `rebuilt_jpeg` or `png` write it: no byte of it could be left out.

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
