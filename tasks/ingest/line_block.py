"""Many lines at once, as bytes."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tasks.ingest.json_scan import Places
from tasks.ingest.log_files import LINE_BYTES_MAX, READ_BYTES


@dataclass(frozen=True)
class Block:
    """Whole lines of a file."""

    raw: bytes
    """The lines with their ends."""
    starts: Places
    """int64 (lines + 1,): where each begins, and where the last ends."""

    @property
    def count(self) -> int:
        """How many lines."""
        return len(self.starts) - 1

    def line(self, number: int) -> bytes:
        """The bytes of a line, 0 the first, with its end; one that is too long is cut."""
        start, stop = self.starts[number : number + 2]
        return self.raw[start : min(stop, start + LINE_BYTES_MAX + 2)]


def block_of(content: bytes) -> Block:
    """The block of bytes that begin with a line and end with one."""
    seen = np.frombuffer(content, np.uint8)
    cuts = range(0, len(content), READ_BYTES)  # so that what is compared stays in the processor's cache
    ends = [np.flatnonzero(seen[cut : cut + READ_BYTES] == ord("\n")) + cut + 1 for cut in cuts]
    unfinished = [] if content.endswith(b"\n") else [[len(content)]]
    return Block(content, np.concatenate([[0], *ends, *unfinished]).astype(np.int64))


def joined(lines: Sequence[bytes]) -> Block:
    """The block of some lines."""
    return Block(b"".join(lines), np.cumsum([0, *map(len, lines)]))
