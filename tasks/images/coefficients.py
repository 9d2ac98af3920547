"""Writes the coefficients of a JPEG anew, as one scan, in a process that can open nothing.

The library is Pillow's own libjpeg-turbo, which decodes the image, too: no second parser reads strangers' bytes, none
is older than Pillow's. An error of libjpeg must not return to its caller, so it ends the process, and the next file has
another. This file is also the program of that process, so it imports nothing of the project.
"""

import atexit
import ctypes
import io
import os
import resource
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Iterator
from functools import cache
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import NamedTuple

import PIL._imaging
from PIL.JpegImagePlugin import JpegImageFile

ADDRESS_SPACE_BYTES = 1 << 30
"""Address space of the process; 25 million pixels take half of it."""
SECONDS_MAX = 60
"""CPU time for one file."""
_ABI, _DECOMPRESS_BYTES, _COMPRESS_BYTES, _ERROR_BYTES = 62, 632, 520, 168
"""libjpeg's binary interface 6.2 on 64-bit systems, which is frozen; libjpeg itself refuses structs of other sizes."""
_MEMORY_AT, _COUNT_AT, _COMPONENTS_AT, _COMPONENT_BYTES, _WIDE_AT, _HIGH_AT, _ACCESS_AT = 8, 56, 304, 96, 28, 32, 64
_BLOCK_BYTES = 128
_Struct = ctypes.Array[ctypes.c_char]


class Recoded(NamedTuple):
    """A JPEG written anew, and coefficients of its last blocks, as int16 (blocks, 8, 8) of each component."""

    coded: bytes
    """The file."""
    lowest: list[bytes]
    """The last row of blocks."""
    rightmost: list[bytes]
    """The last column of blocks."""


class _Process:
    """A running program of this file, for one thread at a time."""

    def __init__(self) -> None:
        self.pipe, theirs = Pipe()
        command = [sys.executable, "-I", __file__, str(theirs.fileno())]
        with theirs:
            self.running = subprocess.Popen(command, pass_fds=[theirs.fileno()], stderr=subprocess.DEVNULL)  # noqa: S603
        try:
            self.pipe.recv_bytes()
        except EOFError:  # Pillow's libjpeg is another, or its functions are not exported
            self.stop()
            raise

    def recoded(self, content: bytes) -> Recoded | None:
        """The file anew; None if libjpeg warns. Raises EOFError or OSError if the process has ended."""
        self.pipe.send_bytes(content)
        if not (coded := self.pipe.recv_bytes()):
            return None
        parts = [self.pipe.recv_bytes() for _ in JpegImageFile(io.BytesIO(coded)).layer for _ in range(2)]
        return Recoded(coded, parts[::2], parts[1::2])

    def stop(self) -> None:
        """End the process."""
        self.pipe.close()
        self.running.kill()
        self.running.wait()


_idle: deque[_Process] = deque()
os.register_at_fork(after_in_child=_idle.clear)


@atexit.register
def _stop_all() -> None:
    while _idle:
        _idle.pop().stop()


@cache
def are_reached() -> bool:
    """Whether Pillow's libjpeg has the functions and structs of interface 6.2, as in Pillow's wheel. Looked at once."""
    try:
        _idle.append(_Process())
    except EOFError:
        return False
    return True


def recoded(content: bytes) -> Recoded | None:
    """A JPEG as one scan of its coefficients; None where decoders warn, or where none can be reached.

    Raises EOFError or OSError for worse damage.
    """
    if not are_reached():
        return None
    process = _idle.pop() if _idle else _Process()
    try:
        rewritten = process.recoded(content)
    except BaseException:
        process.stop()
        raise
    _idle.append(process)
    return rewritten


class _Libjpeg:
    """The functions of Pillow's libjpeg."""

    def __init__(self) -> None:
        self._library, self._system = ctypes.CDLL(PIL._imaging.__file__), ctypes.CDLL(None)
        self._library.jpeg_read_coefficients.restype = ctypes.POINTER(ctypes.c_void_p)
        self._warnings = 0
        self._on_error = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda _: os._exit(1))
        self._on_message = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int)(self._count)
        self._structs()  # ends the process where Pillow's libjpeg is another

    def _count(self, _: int, level: int) -> None:
        self._warnings += level < 0

    def _structs(self) -> tuple[_Struct, _Struct, _Struct]:
        """The structs to read with, to write with, and of the handlers of errors, which both point to."""
        read, written, error = map(ctypes.create_string_buffer, (_DECOMPRESS_BYTES, _COMPRESS_BYTES, _ERROR_BYTES))
        self._library.jpeg_std_error(error)
        handlers = (ctypes.c_void_p * 2).from_buffer(error)
        handlers[:] = [ctypes.cast(callback, ctypes.c_void_p).value for callback in (self._on_error, self._on_message)]
        for struct in (read, written):
            ctypes.c_void_p.from_buffer(struct).value = ctypes.addressof(error)
        self._library.jpeg_CreateDecompress(read, _ABI, ctypes.c_size_t(_DECOMPRESS_BYTES))
        self._library.jpeg_CreateCompress(written, _ABI, ctypes.c_size_t(_COMPRESS_BYTES))
        return read, written, error

    def recoded(self, content: bytes) -> list[bytes]:
        """The file anew, then the lowest and the rightmost blocks of each component; one empty part after a warning."""
        self._warnings, call = 0, self._library
        read, written, _error = self._structs()
        call.jpeg_mem_src(read, content, ctypes.c_ulong(len(content)))
        call.jpeg_read_header(read, True)
        blocks = call.jpeg_read_coefficients(read)
        edges = list(_edges(read, blocks))
        place, size = ctypes.c_void_p(), ctypes.c_ulong()
        call.jpeg_mem_dest(written, ctypes.byref(place), ctypes.byref(size))
        call.jpeg_copy_critical_parameters(read, written)
        call.jpeg_write_coefficients(written, blocks)
        call.jpeg_finish_compress(written)
        call.jpeg_finish_decompress(read)
        coded = ctypes.string_at(place, size.value)
        self._system.free(place)
        call.jpeg_destroy_compress(written)
        call.jpeg_destroy_decompress(read)
        return [b""] if self._warnings else [coded, *edges]


def _edges(read: _Struct, blocks: "ctypes._Pointer[ctypes.c_void_p]") -> Iterator[bytes]:
    """Coefficients of the lowest and of the rightmost blocks of each component."""
    words = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint, ctypes.c_int]
    start = ctypes.addressof(read)
    memory, components = _pointer(start + _MEMORY_AT), _pointer(start + _COMPONENTS_AT)
    access = ctypes.CFUNCTYPE(ctypes.POINTER(ctypes.c_void_p), *words)(_pointer(memory + _ACCESS_AT))

    def row(component: int, number: int) -> int:
        return access(read, blocks[component], number, 1, False)[0] or 0

    for component in range(ctypes.c_int.from_buffer(read, _COUNT_AT).value):
        at = components + _COMPONENT_BYTES * component
        wide, high = (ctypes.c_uint.from_address(at + field).value for field in (_WIDE_AT, _HIGH_AT))
        last, column = high - 1, _BLOCK_BYTES * (wide - 1)
        yield ctypes.string_at(row(component, last), column + _BLOCK_BYTES)
        yield b"".join(
            ctypes.string_at(row(component, row_number) + column, _BLOCK_BYTES) for row_number in range(high)
        )


def _pointer(address: int) -> int:
    return ctypes.c_void_p.from_address(address).value or 0


def _serve(pipe: Connection) -> None:
    """Answer files until the other end is closed. No file, socket or process can be opened from here on."""
    library = _Libjpeg()
    for limit, most in (
        (resource.RLIMIT_AS, ADDRESS_SPACE_BYTES),
        (resource.RLIMIT_NOFILE, 0),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_NPROC, 0),
        (resource.RLIMIT_CORE, 0),
    ):
        resource.setrlimit(limit, (most, most))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    pipe.send_bytes(b"ready")
    while True:
        try:
            content = pipe.recv_bytes()
        except EOFError:
            return
        signal.setitimer(signal.ITIMER_PROF, SECONDS_MAX)
        for part in library.recoded(content):
            pipe.send_bytes(part)
        signal.setitimer(signal.ITIMER_PROF, 0)


if __name__ == "__main__":
    _serve(Connection(int(sys.argv[1])))
