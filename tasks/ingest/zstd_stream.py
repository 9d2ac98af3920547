"""A .zst file that says when it breaks off, which zstandard's own reader takes for its end."""

import io
from pathlib import Path
from typing import BinaryIO, cast

import zstandard

_SKIPPED = range(0x184D2A50, 0x184D2A60)
"""Magic numbers of frames that hold no content (RFC 8878, 3.1.2)."""
_HEADER_BYTES_MAX, _CHECKSUM_BYTES, _RUN_LENGTH = 18, 4, 1


class WholeZstd(io.RawIOBase):
    """The content of all frames of a file. Raises EOFError behind that of a frame which is cut off."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._content = cast(io.RawIOBase, zstandard.open(path, "rb"))

    def readable(self) -> bool:
        """Yes."""
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        """Fill the buffer as far as there is content; 0 at the end."""
        size = self._content.readinto(buffer) or 0
        if not size and not _ends_with_a_frame(self._path):
            raise EOFError(f"{self._path.name} ends in the middle of a frame")
        return size

    def close(self) -> None:
        """Close the file."""
        self._content.close()
        super().close()


def _ends_with_a_frame(path: Path) -> bool:
    """Whether the last frame ends where the file does: only headers of frames and blocks are read (RFC 8878, 3.1.1)."""
    size = path.stat().st_size
    with path.open("rb") as stream:
        while (start := stream.tell()) < size:
            head = stream.read(_HEADER_BYTES_MAX)
            if int.from_bytes(head[:4], "little") in _SKIPPED:
                stream.seek(start + 8 + int.from_bytes(head[4:8], "little"))
                continue
            try:
                stream.seek(start + zstandard.frame_header_size(head))
                checksum = zstandard.get_frame_parameters(head).has_checksum
            except zstandard.ZstdError:
                return False
            _skip_blocks(stream)
            stream.seek(_CHECKSUM_BYTES * checksum, io.SEEK_CUR)
        return start == size


def _skip_blocks(stream: BinaryIO) -> None:
    """Go behind the last block of a frame, or behind the end of the file."""
    last = False
    while not last:
        head = stream.read(3)
        number = int.from_bytes(head, "little")
        last, kind, size = bool(number & 1), number >> 1 & 3, number >> 3
        stream.seek(1 if kind == _RUN_LENGTH else size, io.SEEK_CUR)
        if len(head) < 3:
            stream.seek(1, io.SEEK_END)
            return
