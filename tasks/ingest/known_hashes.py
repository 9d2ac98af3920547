"""Lists of known pictures that the operator supplies, and what is on them. What a list says is never printed."""

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from schemas.errors import BadInput, why_unreadable

Hashes = npt.NDArray[np.uint64]

DIGITS = {"md5": 32, "sha1": 40, "sha256": 64, "pixels": 32, "pdq": 64}
"""Kind of hash -> its hexadecimal digits. `md5` is also the name a server logs; `pixels` is our own picture id."""
PDQ_DISTANCE = 31
"""Bits that may differ where a line does not say (Meta's recommendation for PDQ)."""
PDQ_DISTANCE_MAX = 128
_SEPARATORS = re.compile(r"[\s,;]+")


class FileDigests(NamedTuple):
    """Digests of a file's bytes, taken before anything decodes them."""

    md5: str
    sha1: str
    sha256: str


def file_digests(content: bytes) -> FileDigests:
    """Lower-case hexadecimal digits."""
    return FileDigests(*(hashlib.new(kind, content, usedforsecurity=False).hexdigest() for kind in FileDigests._fields))


@dataclass(frozen=True)
class KnownHashes:
    """The operator's lists, together."""

    exact: dict[str, frozenset[str]]
    """Kind -> hexadecimal digits; every kind but pdq."""
    pdq: Hashes
    """uint64 (4, n): the four words of each hash."""
    pdq_distance: npt.NDArray[np.uint8]
    """uint8 (n,): how many bits a picture may differ in from each."""
    digest: str
    """Changes with the lists; says nothing of what is on them."""

    def __bool__(self) -> bool:
        return bool(len(self.pdq_distance) or any(self.exact.values()))

    def holds_name(self, name: str) -> bool:
        """Whether a logged picture name is on a list, before any file is opened."""
        return name in self.exact["md5"]

    def holds_file(self, digests: FileDigests) -> bool:
        """Whether a file is on a list, before it is decoded."""
        return any(value in self.exact[kind] for kind, value in zip(FileDigests._fields, digests, strict=True))

    def holds_picture(self, image_id: str, pdq: Callable[[], str]) -> bool:
        """Whether decoded pixels are; `pdq` gives their 64 digits and is called only when a list has any."""
        return image_id in self.exact["pixels"] or (len(self.pdq_distance) > 0 and bool(self.near([pdq()])[0]))

    def near(self, digits: Sequence[str]) -> npt.NDArray[np.bool_]:
        """Which of m PDQ hashes are within its distance of a listed one, bool (m,), whatever their quality."""
        if not len(self.pdq_distance) or not len(digits):
            return np.zeros(len(digits), bool)
        return np.array([self._near(words) for words in _words(digits)], bool)

    def _near(self, words: Hashes) -> bool:
        """Half of the bits rule out all but a few: two unrelated hashes differ in half of them."""
        half = np.bitwise_count(self.pdq[0] ^ words[0]) + np.bitwise_count(self.pdq[1] ^ words[1])
        left = np.flatnonzero(half <= self.pdq_distance)
        rest = np.bitwise_count(self.pdq[2:, left] ^ words[2:, None]).sum(axis=0, dtype=np.int64)
        return bool((half[left] + rest <= self.pdq_distance[left]).any())


def load_known_hashes(files: Iterable[str]) -> KnownHashes:
    """All lists: a line is `KIND HASH`, for pdq with a distance if it is not 31; `#` begins a comment.

    Raises BadInput for a file or line that cannot be used. The line's number is told, never what it says.
    """
    exact: dict[str, set[str]] = {kind: set() for kind in DIGITS}
    near: dict[tuple[str, int], None] = {}
    for file in files:
        for kind, value, distance in _entries(file):
            if kind == "pdq":
                near[value, distance] = None
            else:
                exact[kind].add(value)
    listed = sorted(near)
    basis = repr([sorted((kind, sorted(values)) for kind, values in exact.items()), listed])
    return KnownHashes(
        exact={kind: frozenset(values) for kind, values in exact.items()},
        pdq=np.ascontiguousarray(_words([value for value, _ in listed]).T),
        pdq_distance=np.array([distance for _, distance in listed], np.uint8),
        digest=hashlib.sha256(basis.encode()).hexdigest(),
    )


def _entries(file: str) -> Iterator[tuple[str, str, int]]:
    try:
        lines = Path(file).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"hash list {file!r} cannot be read ({why_unreadable(error)}); give a text file") from None
    for number, line in enumerate(lines, 1):
        words = [word for word in _SEPARATORS.split(line.partition("#")[0].strip()) if word]
        if words:
            yield _entry(words, f"hash list {file!r}, line {number}")


def _entry(words: list[str], where: str) -> tuple[str, str, int]:
    kind, value = words[0].lower(), words[1].lower() if len(words) > 1 else ""
    if kind not in DIGITS:
        raise BadInput(f"{where}: the first word must be one of {', '.join(DIGITS)}, then the hash")
    if not re.fullmatch(f"[0-9a-f]{{{DIGITS[kind]}}}", value):
        raise BadInput(f"{where}: {kind} needs {DIGITS[kind]} hexadecimal digits")
    rest = words[2:]
    if not rest:
        return kind, value, PDQ_DISTANCE
    if kind != "pdq" or len(rest) > 1 or not rest[0].isdecimal() or int(rest[0]) > PDQ_DISTANCE_MAX:
        raise BadInput(f"{where}: only pdq takes a third word, a distance of 0 to {PDQ_DISTANCE_MAX} bits")
    return kind, value, int(rest[0])


def _words(digits: Sequence[str]) -> Hashes:
    """uint64 (n, 4) from n times 64 hexadecimal digits."""
    return np.frombuffer(bytes.fromhex("".join(digits)), ">u8").astype(np.uint64).reshape(len(digits), 4)
