"""Pieces of files put into another file, in a compiled loop: no other thread waits for Python's lock meanwhile.

Some are read and written at a time, few enough to stay in the processor's cache in between. What the loop could not do
(an interrupted call, a full disk, a file that became shorter) is done again in Python, which knows the error.
"""

import os
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from itertools import pairwise
from typing import IO, Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numba import types

from tasks.running.compiled import compiled

_BATCH_BYTES = 256 * 1024
_OPEN_FILES = 64
"""At once: a quarter of what the strictest systems allow a process."""
Numbers = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]
pread: Any = types.ExternalFunction("pread", types.intp(types.intc, types.uintp, types.uintp, types.int64))
_write: Any = types.ExternalFunction("write", types.intp(types.intc, types.uintp, types.uintp))


class FilePieces(NamedTuple):
    """Pieces in the order in which they are wanted, an element of each array for each."""

    files: npt.NDArray[np.int32]
    offsets: Numbers
    lengths: Numbers
    opened: Callable[[int], AbstractContextManager[IO[bytes]]]
    """Opens a file, by its number."""

    def append_to(self, target: int, between: bytes, ends: Numbers) -> None:
        """Append `between` to the file `target`, with piece n after the first `ends[n]` bytes of it.

        Raises OSError when a file ends before a piece does, ValueError when there are not as many pieces as ends.
        """
        if len(ends) != len(self.files):
            raise ValueError(f"{len(self.files)} pictures where {len(ends)} are shown")
        changes = np.flatnonzero(np.diff(self.files, prepend=-1))[::_OPEN_FILES].tolist()
        starts = [0, *ends.tolist()]
        for first, last in pairwise([*changes, len(ends)]):
            start, end = starts[first], starts[last]
            some = FilePieces(self.files[first:last], self.offsets[first:last], self.lengths[first:last], self.opened)
            some._append_to(target, between[start:end], ends[first:last] - start)
        put(target, between[starts[-1] :])

    def _append_to(self, target: int, between: bytes, ends: Numbers) -> None:
        numbers, which = np.unique(self.files, return_inverse=True)
        with ExitStack() as stack:
            descriptors = [stack.enter_context(self.opened(number)).fileno() for number in numbers.tolist()]
            files = np.array(descriptors, np.int32)[which]
            places = (files, self.offsets, self.lengths)
            done = _appended(target, *places, np.frombuffer(between, np.uint8), ends, np.empty(_BATCH_BYTES, np.uint8))
            start = 0
            for file, offset, length, end in zip(*(each.tolist() for each in (*places, ends)), strict=True):
                left = end - start + length - done
                if left > 0:
                    put(target, (between[start:end] + _read(file, offset, length))[done:])
                start, done = end, max(0, -left)


@compiled
def _appended(
    target: int,
    files: npt.NDArray[np.int32],
    offsets: Numbers,
    lengths: Numbers,
    between: Bytes,
    ends: Numbers,
    buffer: Bytes,
) -> int:
    """Bytes that were appended before the system did not do what it was asked to."""
    base, size = buffer.ctypes.data, len(buffer)
    done = at = read = 0
    for piece in range(len(files)):
        offset, end = offsets[piece], offsets[piece] + lengths[piece]
        while read < ends[piece] or offset < end:
            if at == size:
                at = _put(target, base, size)
                done += at
                if at < size:
                    return done
                at = 0
            elif read < ends[piece]:
                buffer[at] = between[read]
                read, at = read + 1, at + 1
            else:
                got = pread(files[piece], base + at, min(end - offset, size - at), offset)
                if got <= 0:
                    return done
                offset, at = offset + got, at + got
    return done + _put(target, base, at)


@compiled
def _put(target: int, base: int, count: int) -> int:
    """How many bytes of memory from `base` on were appended."""
    done = 0
    while done < count:
        some = _write(target, base + done, count - done)
        if some <= 0:
            break
        done += some
    return done


def _read(file: int, offset: int, length: int) -> bytes:
    content = os.pread(file, length, offset)
    while len(content) < length:
        more = os.pread(file, length - len(content), offset + len(content))
        if not more:
            raise OSError("a part of the store ends before its pictures do; was it changed while the release was made?")
        content += more
    return content


def put(target: int, content: bytes | memoryview) -> None:
    """Append all bytes to the file `target`, which takes some at a time."""
    left = memoryview(content)
    while left:
        left = left[os.write(target, left) :]
