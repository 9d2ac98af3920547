"""Removes metadata from PNG and JPEG files without re-encoding: only what is needed to decode the pixels is kept.

EXIF, GPS, XMP, IPTC, ICC profiles, comments, thumbnails, animation frames and bytes after the end are removed.
"""

_PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_PNG_KEPT = {b"IHDR", b"PLTE", b"tRNS", b"IDAT", b"IEND"}

_SOI, _EOI, _SOS = 0xD8, 0xD9, 0xDA
_APP0_JFIF, _APP14_ADOBE = 0xE0, 0xEE
_JFIF_BYTES, _ADOBE_BYTES = 14, 12
_STANDALONE = {0x01, *range(0xD0, 0xD8)}
_APPLICATION_OR_COMMENT = {*range(0xE0, 0xF0), 0xFE}


def strip_metadata(content: bytes, file_format: str) -> bytes | None:
    """The image without metadata, or None when that needs re-encoding: another format or a broken file."""
    try:
        if file_format == "PNG":
            return _strip_png(content)
        if file_format == "JPEG":
            return _strip_jpeg(content)
    except (IndexError, ValueError):  # a broken file: the caller encodes the pixels anew
        return None
    return None


def _strip_png(content: bytes) -> bytes:
    out = bytearray(_PNG_SIGNATURE)
    at = len(_PNG_SIGNATURE)
    while True:
        length = int.from_bytes(content[at : at + 4], "big")
        kind = content[at + 4 : at + 8]
        end = at + 12 + length
        if end > len(content):
            raise ValueError("the last chunk is cut off")
        if kind in _PNG_KEPT:
            out += content[at:end]
        if kind == b"IEND":
            return bytes(out)
        at = end


def _strip_jpeg(content: bytes) -> bytes:
    out = bytearray(content[:2])
    at = 2
    while True:
        if content[at] != 0xFF:
            raise ValueError("no marker where one must be")
        marker = content[at + 1]
        if marker == 0xFF:  # fill byte
            at += 1
            continue
        if marker == _EOI:
            return bytes(out + b"\xff\xd9")
        if marker in _STANDALONE:
            out += content[at : at + 2]
            at += 2
            continue
        length = int.from_bytes(content[at + 2 : at + 4], "big")
        segment = content[at + 4 : at + 2 + length]
        out += _kept_segment(marker, segment)
        at += 2 + length
        if marker == _SOS:
            end = _scan_end(content, at)
            out += content[at:end]
            at = end


def _kept_segment(marker: int, segment: bytes) -> bytes:
    """The marker segment without metadata; empty when all of it is metadata."""
    if marker == _APP0_JFIF and segment.startswith(b"JFIF\0"):
        segment = segment[: _JFIF_BYTES - 2] + b"\0\0"  # without thumbnail: size 0 x 0
    elif marker == _APP14_ADOBE and segment.startswith(b"Adobe"):
        segment = segment[:_ADOBE_BYTES]  # the colour transform is needed to decode
    elif marker in _APPLICATION_OR_COMMENT:
        return b""
    return bytes((0xFF, marker)) + (len(segment) + 2).to_bytes(2, "big") + segment


def _scan_end(content: bytes, at: int) -> int:
    """End of the entropy-coded data that starts at `at`: the next marker that is neither an escape nor a restart."""
    while True:
        at = content.index(b"\xff", at)
        following = content[at + 1]
        if following != 0 and following not in _STANDALONE:
            return at
        at += 2
