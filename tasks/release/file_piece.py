"""Bytes of one file put into another by the system, which need not pass through this process."""

import os
from typing import NamedTuple


class FilePiece(NamedTuple):
    """Some bytes of an open file."""

    file: int
    """Its descriptor."""
    offset: int
    length: int

    def copy_to(self, target: int) -> None:
        """Append them to the file `target`. Raises OSError when the file ends before they do."""
        offset, left = self.offset, self.length
        while left:
            done = _copied(self.file, target, offset, left)
            offset, left = offset + done, left - done


def put(target: int, content: bytes | memoryview) -> None:
    """Append all bytes to the file `target`, which takes some at a time."""
    left = memoryview(content)
    while left:
        left = left[os.write(target, left) :]


def _copied(source: int, target: int, offset: int, count: int) -> int:
    """How many of `count` bytes were put: by the system, or through memory where it does not do that."""
    try:
        done = os.copy_file_range(source, target, count, offset)
    except (AttributeError, OSError):  # another system, or two file systems; a full disk fails again below
        done = 0
    if done:
        return done
    content = os.pread(source, count, offset)
    if not content:
        raise OSError("a part of the store ends before its pictures do; was it changed while the release was made?")
    put(target, content)
    return len(content)
